// SPDX-License-Identifier: Apache-2.0
// The C API's calls on handles.
#pragma once

#include "host/c_handles.hpp"
#include "quarry/host/c_extension.hpp"

#include <string>

namespace quarry::inline QUARRY_ABI::c_api {

/// Calls `work` with a handle's object, and translates exceptions into a status. `has_result`: the
/// caller passed a pointer for the result.
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
