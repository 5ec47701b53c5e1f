// SPDX-License-Identifier: Apache-2.0
// The results of the C API's calls: a status, and a message.
#pragma once

#include "host/c_handles.hpp"
#include "quarry/core/errors.hpp"
#include "quarry/host/c_api.h"

#include <cstdio>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>

namespace quarry::inline QUARRY_ABI::c_api {

inline thread_local char last_error[512] = "";

inline quarry_status fail(quarry_status status, char const* why) noexcept {
  std::snprintf(last_error, sizeof last_error, "%s", why);
  return status;
}

/// Calls `work` and translates its exceptions into a status.
template <class Work>
quarry_status guarded(Work const& work) noexcept {
  try {
    return work();
  } catch (std::bad_alloc const& failure) {
    return fail(QUARRY_OUT_OF_MEMORY, failure.what());
  } catch (was_destroyed const& failure) {
    return fail(QUARRY_DESTROYED, failure.what());
  } catch (std::invalid_argument const& failure) {
    return fail(QUARRY_BAD_ARGUMENT, failure.what());
  } catch (resource_failed const& failure) {
    return fail(QUARRY_RESOURCE_FAILED, failure.what());
  } catch (std::exception const& failure) {
    return fail(QUARRY_INTERNAL, failure.what());
  } catch (...) {
    return fail(QUARRY_INTERNAL, "an exception of an unknown type");
  }
}

/// The same for a call on a handle: calls `work` with the handle's object. `has_result`: the caller
/// passed a pointer for the result.
template <class Handle, class Work>
quarry_status with(Handle* handle, char const* call, bool has_result, Work const& work) noexcept {
  using object = typename handle_object<Handle>::type;
  return guarded([&] {
    typename object::use const use{handle_value::decode(handle), object::kind, call};
    if (!has_result) throw bad_argument{std::string{call} + ": where the result goes is null"};
    return work(*static_cast<object*>(use.object()));
  });
}

/// Destroys a handle's object. Null is ignored.
template <class Handle>
quarry_status destroy(Handle* handle, char const* call) noexcept {
  if (handle == nullptr) return QUARRY_OK;
  return guarded([&] {
    remove_handle(handle, call);
    return QUARRY_OK;
  });
}

}  // namespace quarry::inline QUARRY_ABI::c_api
