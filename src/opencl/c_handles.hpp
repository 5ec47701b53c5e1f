// SPDX-License-Identifier: Apache-2.0
// Handles of OpenCL heaps for the functions of c_api.h and c_containers.h.
#pragma once

#include "quarry/host/c_extension.hpp"
#include "quarry/opencl/c_api.h"
#include "quarry/opencl/heap.hpp"

#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace quarry::inline QUARRY_ABI::opencl {

inline void check_not_null(char const* call, char const* name, void const* pointer) {
  if (pointer == nullptr) throw bad_argument{std::string{call} + ": " + name + " is null"};
}
inline void check_result(char const* call, void const* result) {
  check_not_null(call, "where the result goes", result);
}

/// The object of a handle.
struct c_heap {
  std::mutex mutex;  // serialises the calls, so it guards the other fields
  opencl::heap heap;
  std::unique_ptr<mapped_heap> mapping;  // null while the heap is not mapped

  explicit c_heap(opencl::heap made) : heap{std::move(made)} {}
};

enum class accepts { any, unmapped, mapped };

/// Calls `work` with the object of a handle. `result`: where the result goes.
template <class Work>
quarry_status with(quarry_opencl_heap* handle, char const* call, accepts accepted,
                   void const* result, Work const& work) noexcept {
  return c_api::guarded([&] {
    return c_api::use_object(handle, c_api::handle_kind::opencl_heap, call, [&](void* object) {
      check_result(call, result);
      auto& target = *static_cast<c_heap*>(object);
      std::lock_guard const lock{target.mutex};
      bool const is_mapped = target.mapping != nullptr;
      if (accepted == accepts::unmapped && is_mapped)
        throw bad_argument{std::string{call} + ": the heap is mapped; unmap it first"};
      if (accepted == accepts::mapped && !is_mapped)
        throw bad_argument{std::string{call} + ": the heap is not mapped; map it first"};
      return work(target);
    });
  });
}
/// The same for a call without a result.
template <class Work>
quarry_status with(quarry_opencl_heap* handle, char const* call, accepts accepted,
                   Work const& work) noexcept {
  return with(handle, call, accepted, "", [&](c_heap& target) {
    work(target);
    return QUARRY_OK;
  });
}

}  // namespace quarry::inline QUARRY_ABI::opencl
