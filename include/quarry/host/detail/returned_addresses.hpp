// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/detail/held_at_fork.hpp"
#include "quarry/host/detail/single_writer.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI::detail {

/// Addresses that any thread adds and one thread, the owner, takes. Several threads may be the
/// owner in turn, under a lock of theirs (shared_chunks).
///
/// An array serves most additions: a thread claims an element by one atomic operation, and then
/// stores the address. The owner closes the array, takes the addresses, and opens the array again
/// once each claimed element is stored and taken. While the array is closed or full, addresses go
/// into a list with a mutex. The array grows with the number of addresses that the owner finds.
///
/// `add` calls `announce()`, so that the owner takes the address. The owner first withdraws all
/// announcements, and then calls `take`. Either this `take` returns the address or tells that it
/// is late, or the announcement comes after the withdrawal and stays.
///
/// Memory order. `room_` changes by read-modify-writes (C) that acquire and release, and by the
/// opening (O), a release. So the owner's closing counts a claim, or the claim comes later and sees
/// the withdrawal. A claim with room sees the array of this opening, which stays until the
/// element is taken. A claim without room touches no array. The closing also acquires what the
/// claims' threads did before. The owner acquires (T) the store (P) of an element, so it may empty
/// and free the array afterwards. Its emptying (O) is published by the next opening.
class returned_addresses {
 public:
  /// Adds an address. Returns false and adds nothing if there is no memory for the list, or if the
  /// list's mutex is lost in the child of a fork.
  template <class Announce>
  [[nodiscard]] bool add(void* address, Announce const& announce) noexcept {
    std::int64_t const room = room_.fetch_sub(1, std::memory_order_acq_rel);  // (C)
    if (room <= 0) [[unlikely]]
      return add_to_list(address, announce);
    std::atomic<void*>& element = elements_[static_cast<std::size_t>(room - 1)];
    announce();  // first: once the owner has the address, it may free it and destroy this object
    element.store(address, std::memory_order_release);  // (P)
    return true;
  }
  /// For the owner: takes all addresses, and then calls `work(address)` for each. So `work` may
  /// call `take`. Returns false if addresses are late: their threads are in `add`. After `max_late`
  /// such calls it returns true, so that the owner waits for the next announcement: the child of a
  /// fork may not have those threads.
  template <class Work>
  [[nodiscard]] bool take(Work const& work) noexcept {
    std::vector<void*> list = std::move(spare_list_), taken = std::move(spare_);
    {
      lock_unless_lost const lock{mutex_};
      if (lock) list.swap(list_);
    }
    bool const has_all = take_elements(taken, list.size());
    for (void* const address : taken) work(address);
    for (void* const address : list) work(address);
    taken.clear();
    list.clear();
    spare_ = std::move(taken);
    spare_list_ = std::move(list);
    return has_all;
  }
  /// For the owner: whether the last `take` left addresses whose threads were in `add`.
  [[nodiscard]] bool has_late() const noexcept { return is_closed_; }

 private:
  static constexpr std::size_t min_size = 64, max_size = 4096;  // of the array
  static constexpr std::uint32_t max_late = 1000;

  template <class Announce>
  [[nodiscard, gnu::noinline]] bool add_to_list(void* address, Announce const& announce) noexcept {
    lock_unless_lost const lock{mutex_};
    if (!lock) return false;
    try {
      list_.push_back(address);
    } catch (std::bad_alloc const&) {
      return false;
    }
    announce();  // before the owner can have the mutex
    return true;
  }
  /// Moves the array's addresses to `taken`, and opens the array. `listed`: the number of addresses
  /// that had no room in the array. Returns false if an element is not stored yet, or if `taken`
  /// has no memory; then the array stays closed.
  [[nodiscard]] bool take_elements(std::vector<void*>& taken, std::size_t listed) noexcept {
    if (!is_closed_) {
      std::int64_t const room = room_.exchange(0, std::memory_order_acq_rel);  // (C)
      first_ = static_cast<std::size_t>(std::max<std::int64_t>(room, 0));
      left_ = size_ - first_;
      is_closed_ = true;
      most_ = left_;
    }
    most_ += listed;
    try {
      taken.reserve(left_);
    } catch (std::bad_alloc const&) {
      return false;
    }
    for (std::size_t i = first_; left_ != 0 && i < size_; ++i) {
      void* const address = elements_[i].load(std::memory_order_acquire);  // (T)
      if (address == nullptr) continue;                                    // taken already, or late
      elements_[i].store(nullptr, std::memory_order_relaxed);              // (O)
      taken.push_back(address);
      --left_;
    }
    if (left_ != 0) return ++late_ > max_late;
    if (most_ > size_ && size_ < max_size) grow(std::bit_ceil(std::max(most_, min_size)));
    is_closed_ = false;
    late_ = 0;
    room_.store(static_cast<std::int64_t>(size_), std::memory_order_release);  // (O)
    return true;
  }
  /// Requires a closed array without late addresses. Keeps it if there is no memory.
  void grow(std::size_t wanted) noexcept {
    std::size_t const size = std::min(wanted, max_size);
    if (auto* const larger = new (std::nothrow) std::atomic<void*>[size] {}) {
      elements_.reset(larger);
      size_ = size;
    }
  }

  // Guarded by: the owner; claims with room also read `elements_`.
  std::unique_ptr<std::atomic<void*>[]> elements_;
  std::size_t size_ = 0;
  single_writer<bool> is_closed_;     // from a `take` that found late addresses to the next opening
  std::size_t first_ = 0, left_ = 0;  // of a closed array: the first claim, and those not taken
  std::uint32_t late_ = 0;  // calls of `take` that found a late address, since the last opening
  std::size_t most_ = 0;    // the addresses added since the last opening, with the list
  std::vector<void*> spare_, spare_list_;  // room for the next call

  alignas(64) std::atomic<std::int64_t> room_{0};  // elements without a claim
  mutex_held_at_fork mutex_;
  std::vector<void*> list_;  // Guarded by: the mutex
};

}  // namespace quarry::inline QUARRY_ABI::detail
