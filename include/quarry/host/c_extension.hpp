// SPDX-License-Identifier: Apache-2.0
// For libraries over Quarry that have C functions of their own: the errors and handles of c_api.h.
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/core/export.hpp"
#include "quarry/host/c_api.h"

#include <cstdint>
#include <exception>
#include <functional>
#include <new>
#include <stdexcept>

namespace quarry::inline QUARRY_ABI::c_api {

/// Makes `why` the text that quarry_last_error returns to this thread, and returns `status`. Texts
/// of more than 4095 characters are cut.
QUARRY_API quarry_status fail(quarry_status status, char const* why) noexcept;

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

/// The kinds of objects that have handles.
enum class handle_kind : std::uint8_t {
  pool = 1,
  stream_pool = 2,
  segment = 3,
  allocator = 4,
  opencl_heap = 5
};

/// Makes a handle of an object. Calls on the handle may run at the same time, so the object needs
/// its own lock. Throws `out_of_memory` if 2^20 handles exist.
[[nodiscard]] QUARRY_API void* add_object(handle_kind kind, void* object);

/// Returns `work(object)` for the object of a live handle of that kind. Otherwise throws
/// `was_destroyed` or `bad_argument`, with a message that starts with `call`.
QUARRY_API quarry_status use_object(void* handle, handle_kind kind, char const* call,
                                    std::function<quarry_status(void*)> const& work);

/// Ends a handle, waits for the calls of `use_object` on it, and returns the object, which the
/// caller owns now. Throws as `use_object` does.
[[nodiscard]] QUARRY_API void* remove_object(void* handle, handle_kind kind, char const* call);

}  // namespace quarry::inline QUARRY_ABI::c_api
