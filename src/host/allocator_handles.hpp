// SPDX-License-Identifier: Apache-2.0
// Calls on handles of allocators, and on their models.
#pragma once

#include "host/c_handles.hpp"
#include "quarry/host/any_allocator.hpp"

namespace quarry::inline QUARRY_ABI {

/// Access of src/host to the private parts of allocator handles and models.
struct allocator_handles {
  static any_allocator handle_of(std::uint64_t number) { return any_allocator{number}; }
  static std::uint64_t number_of(any_allocator handle) { return handle.handle_; }
  static bool is_block(allocator_model const& model, void const* pointer) {
    return model.is_block(pointer);
  }
  static std::size_t users_of(allocator_model const& model) {
    return model.users_.load(std::memory_order_acquire);
  }
  /// Frees the blocks that were returned while the handle's lock was not held. Requires that lock.
  static void free_returned(allocator_model& model) noexcept {
    if (model.returned_.has_any.load(std::memory_order_acquire)) free_each_returned(model);
  }

 private:
  static void free_each_returned(allocator_model& model) noexcept;
};

/// A handle whose lock this thread holds while it calls the allocator. A call on a pool may lock
/// the handle of the pool's resource, and so on. Each inner handle is older than the outer one.
class held_handle {
 public:
  /// Locks the handle. Throws `bad_argument` if it is not live, or if this thread must not wait for
  /// it.
  held_handle(std::uint64_t handle, char const* call)
      : use_{checked(handle, call), c_api::handle_kind::allocator, call},
        handle_{handle},
        birth_{c_api::handle_table::birth_of({handle})},
        outer_{innermost} {
    innermost = this;
    allocator_handles::free_returned(model());
  }
  held_handle(held_handle const&) = delete;
  held_handle& operator=(held_handle const&) = delete;
  ~held_handle() {
    allocator_handles::free_returned(model());
    innermost = outer_;
  }

  [[nodiscard]] allocator_model& model() const {
    return *static_cast<allocator_model*>(use_.object());
  }
  /// Whether this thread holds no handle, or only younger ones. All threads lock handles in that
  /// order, so they cannot deadlock.
  [[nodiscard]] static bool may_wait_for(std::uint64_t handle) {
    return innermost == nullptr || c_api::handle_table::birth_of({handle}) < innermost->birth_;
  }
  [[nodiscard]] static bool is_any() { return innermost != nullptr; }

 private:
  [[nodiscard]] static c_api::handle_value checked(std::uint64_t handle, char const* call) {
    if (!may_wait_for(handle)) refuse_to_wait(handle, call);
    return {handle};
  }
  [[noreturn]] static void refuse_to_wait(std::uint64_t handle, char const* call);

  static thread_local constinit held_handle const* innermost;

  c_api::exclusive_use use_;
  std::uint64_t handle_;
  std::uint64_t birth_;
  held_handle const* outer_;
};

/// Calls `work(model)` under the lock of a handle. Throws as `held_handle` does.
template <class Work>
decltype(auto) with(std::uint64_t handle, char const* call, Work const& work) {
  held_handle const locked{handle, call};
  return work(locked.model());
}

}  // namespace quarry::inline QUARRY_ABI
