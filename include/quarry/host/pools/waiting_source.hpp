// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/pools/cuda_streams.hpp"
#include "quarry/host/pools/stream_order.hpp"
#include "quarry/host/registry/memory_location.hpp"
#include "quarry/host/resources/cuda_resources.hpp"

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// Makes a resource or pool without streams usable where each call names a stream, for instance a
/// stitched pool as a resource of CCCL.
///
/// A free waits for the stream's work, and only then returns the memory to the resource. So free
/// memory is never in use, and an allocation waits only if the resource has no memory. A stream
/// pool waits less. No lock is held during a wait. If the wait for a stream fails, the source keeps
/// the memory until a wait for all streams succeeds. Later frees whose own wait succeeds retry it;
/// each failed attempt doubles the number of frees to the next attempt, up to 1,024. An allocation
/// that finds no memory, and the destructor, also retry it. A wait for a stream that is being
/// captured ends the capture.
///
/// A null pointer is ignored. An address that the source did not allocate, or that was deallocated
/// already, is refused: nothing changes but the count `invalid_frees`. Threads may share a source.
/// It remembers the size and alignment of each allocation, in a hash table of the host's memory.
template <class Resource, stream_order Order = cuda_streams>
  requires std::same_as<typename Order::stream, cuda_stream>
class waiting_source {
 public:
  /// Constructs the resource from `arguments`.
  template <class... Arguments>
    requires std::constructible_from<Resource, Arguments...>
  explicit waiting_source(Order order, Arguments&&... arguments)
      : resource_(std::forward<Arguments>(arguments)...), order_{std::move(order)} {}
  waiting_source(waiting_source const&) = delete;
  waiting_source& operator=(waiting_source const&) = delete;
  ~waiting_source() {
    if (kept_ != 0) (void)order_.finish_all();
    for (auto const& [pointer, entry] : allocated_)
      if (entry.is_kept()) resource_.deallocate(pointer, entry.size, entry.alignment);
  }

  /// Throws what the resource throws, and `std::bad_alloc` if the table cannot grow.
  [[nodiscard]] void* allocate(bytes size, bytes alignment, cuda_stream) {
    return allocate_sync(size, alignment);
  }
  /// Returns false if it refuses the pointer.
  bool deallocate(void* pointer, bytes, bytes, cuda_stream stream) noexcept {
    if (pointer == nullptr) return true;
    bool const is_done = order_.finish(stream);
    outcome const found = deallocate_or_keep(pointer, is_done);
    if (found == outcome::retry) (void)deallocate_kept();
    return found != outcome::refused;
  }
  [[nodiscard]] void* allocate_sync(bytes size, bytes alignment) {
    try {
      return allocate_locked(size, alignment);
    } catch (std::bad_alloc const&) {
      if (!deallocate_kept()) throw;
    }
    return allocate_locked(size, alignment);
  }
  bool deallocate_sync(void* pointer, bytes, bytes) noexcept {
    return pointer == nullptr || deallocate_or_keep(pointer, true) != outcome::refused;
  }

  /// Calls `work(resource)` while no other thread uses the resource.
  template <class Work>
  decltype(auto) with(Work&& work) {
    std::lock_guard const lock{mutex_};
    return std::forward<Work>(work)(resource_);
  }
  [[nodiscard]] memory_location location() { return location_of(resource_); }
  /// The number of deallocations whose memory the source still keeps because a wait failed.
  [[nodiscard]] std::size_t kept() const {
    std::lock_guard const lock{mutex_};
    return kept_;
  }
  /// Deallocations of addresses that were not in use.
  [[nodiscard]] std::uint64_t invalid_frees() const {
    std::lock_guard const lock{mutex_};
    return invalid_frees_;
  }

 private:
  struct allocation {
    bytes size, alignment;
    std::uint64_t kept_for = 0;  // the first attempt that may return the memory; 0: in use

    [[nodiscard]] bool is_kept() const { return kept_for != 0; }
  };

  [[nodiscard]] void* allocate_locked(bytes size, bytes alignment) {
    std::lock_guard const lock{mutex_};
    size = std::max(size, bytes{1});  // so that no two allocations have one address
    void* const result = resource_.allocate(size, alignment);
    try {
      synchronize(resource_);
      allocated_.emplace(result, allocation{size, alignment});
    } catch (...) {
      resource_.deallocate(result, size, alignment);
      throw;
    }
    return result;
  }

  /// `retry`: accepted, and it is time to retry the wait for the kept memory.
  enum class outcome { refused, accepted, retry };
  /// Returns the memory to the resource if the stream `is_done`; otherwise keeps it.
  [[nodiscard]] outcome deallocate_or_keep(void* pointer, bool is_done) noexcept {
    std::lock_guard const lock{mutex_};
    auto const found = allocated_.find(pointer);
    if (found == allocated_.end() || found->second.is_kept()) {
      ++invalid_frees_;
      return outcome::refused;
    }
    if (!is_done) {
      found->second.kept_for = attempts_ + 1;
      ++kept_;
      return outcome::accepted;
    }
    resource_.deallocate(pointer, found->second.size, found->second.alignment);
    allocated_.erase(found);
    bool const is_due = kept_ != 0 && ++since_attempt_ >= pause_;
    return is_due ? outcome::retry : outcome::accepted;
  }

  /// Waits for all streams, without the lock, and then returns the memory that was kept before the
  /// wait. Returns false if no memory is kept, or if the wait fails.
  [[nodiscard]] bool deallocate_kept() noexcept {
    std::uint64_t attempt = 0;
    {
      std::lock_guard const lock{mutex_};
      if (kept_ == 0) return false;
      attempt = ++attempts_;
      since_attempt_ = 0;
    }
    bool const is_done = order_.finish_all();
    std::lock_guard const lock{mutex_};
    pause_ = is_done ? 1 : std::min(2 * pause_, max_pause);
    if (!is_done) return false;
    kept_ -= std::erase_if(allocated_, [&](auto const& entry) {
      auto const& [pointer, allocated] = entry;
      bool const is_free = allocated.is_kept() && allocated.kept_for <= attempt;
      if (is_free) resource_.deallocate(pointer, allocated.size, allocated.alignment);
      return is_free;
    });
    return true;
  }

  static constexpr std::uint64_t max_pause = 1024;

  // All members below are Guarded by: mutex_, except that waits of `order_` do not hold it.
  Resource resource_;
  Order order_;
  std::unordered_map<void*, allocation> allocated_;  // includes kept allocations
  std::size_t kept_ = 0;                             // the number of kept allocations
  std::uint64_t invalid_frees_ = 0;
  std::uint64_t attempts_ = 0;       // to return kept memory
  std::uint64_t since_attempt_ = 0;  // deallocations since the last attempt
  std::uint64_t pause_ = 1;          // deallocations from one attempt to the next
  mutable std::mutex mutex_;
};

}  // namespace quarry::inline QUARRY_ABI
