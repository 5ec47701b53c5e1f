// SPDX-License-Identifier: Apache-2.0
// How calls of the C API end: a status, and what it was about.
#pragma once

#include "quarry/host/c_api.h"
#include "quarry/host/errors.hpp"

#include <cstdio>
#include <exception>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>

namespace quarry::c_api {

inline thread_local char last_error[512] = "";

inline quarry_status fail(quarry_status status, char const* why) noexcept {
  std::snprintf(last_error, sizeof last_error, "%s", why);
  return status;
}

/// Does the work, and turns what it throws into a status.
template <class Work>
quarry_status guarded(Work const& work) noexcept {
  try {
    return work();
  } catch (std::bad_alloc const& refused) {
    return fail(QUARRY_OUT_OF_MEMORY, refused.what());
  } catch (std::invalid_argument const& refused) {
    return fail(QUARRY_BAD_ARGUMENT, refused.what());
  } catch (resource_failed const& refused) {
    return fail(QUARRY_RESOURCE_FAILED, refused.what());
  } catch (std::exception const& refused) {
    return fail(QUARRY_INTERNAL, refused.what());
  } catch (...) {
    return fail(QUARRY_INTERNAL, "an exception of an unknown type");
  }
}

/// The same for a call on what has a `mutex`, which it holds meanwhile, and a `noun`. `has_result`:
/// there is somewhere for it to go.
template <class Object, class Work>
quarry_status with(Object* on, char const* call, bool has_result, Work const& work) noexcept {
  return guarded([&] {
    if (on == nullptr) throw bad_argument{std::string{call} + ": the " + Object::noun + " is null"};
    if (!has_result) throw bad_argument{std::string{call} + ": where the result goes is null"};
    std::lock_guard const held{on->mutex};
    return work();
  });
}

}  // namespace quarry::c_api
