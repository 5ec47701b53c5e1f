// SPDX-License-Identifier: Apache-2.0
// Arrays that grow and shrink as a simulation runs: in a pool, or in pages of their own.
#pragma once

#include "quarry/host/detail/growth_policy.hpp"
#include "quarry/host/registry/operations.hpp"
#include "quarry/platform/page_source.hpp"

#include <type_traits>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// How often the elements of an array moved to another address, and the bytes that this copied.
struct move_counts {
  std::uint64_t moves = 0;
  bytes copied = 0;
};

/// An array in memory of a pool, of any kind. The policy determines its capacity. When the capacity
/// changes, the elements are copied to another address. New elements are not initialised. The pool
/// must be tracked, or resizing throws `bad_argument`. The pool must outlive the array.
///
/// Not thread-safe. A resize that throws changes nothing.
template <class T, class Pool>
  requires operations::plain_pool<Pool>
class growable_array {
  static_assert(std::is_trivially_copyable_v<T>, "elements are copied as bytes");

 public:
  explicit growable_array(Pool& pool,
                          detail::growth_policy policy = detail::growth_policy::hysteresis())
      : pool_{&pool}, policy_{std::move(policy)} {}
  growable_array(growable_array&& other) noexcept
      : pool_{other.pool_},
        policy_{std::move(other.policy_)},
        data_{std::exchange(other.data_, nullptr)},
        size_{std::exchange(other.size_, 0)},
        capacity_{std::exchange(other.capacity_, 0)},
        changes_{other.changes_},
        counts_{other.counts_} {}
  growable_array& operator=(growable_array&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(policy_, other.policy_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    std::swap(changes_, other.changes_);
    std::swap(counts_, other.counts_);
    return *this;
  }
  ~growable_array() { (void)pool_->deallocate(data_); }

  /// Changes the size to `count`. If the pool has no memory for the policy's capacity, keeps the
  /// present capacity or tries a capacity of `count`. Throws `out_of_memory` and changes nothing if
  /// that fails. O(size) if the array moves.
  void resize(std::size_t count) {
    if (count > max_bytes_at_once / sizeof(T))
      throw out_of_memory{"growable_array", max_bytes_at_once,
                          std::to_string(count) + " elements exceed the maximum of 2^46 bytes"};
    std::size_t const wanted =
        std::max(count, std::min<std::size_t>(policy_.capacity_for(count, capacity_, changes_),
                                              max_bytes_at_once / sizeof(T)));
    if (wanted != capacity_) move_to(count, wanted);
    size_ = count;
    ++changes_;
  }

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  [[nodiscard]] move_counts const& counts() const { return counts_; }

 private:
  void move_to(std::size_t count, std::size_t capacity) {
    T* fresh = nullptr;
    if (capacity != 0) {
      try {
        fresh = static_cast<T*>(pool_->allocate(capacity * sizeof(T), alignof(T)));
      } catch (std::bad_alloc const&) {
        if (count <= capacity_) return;  // the elements stay in the present memory
        fresh = static_cast<T*>(pool_->allocate(count * sizeof(T), alignof(T)));
        capacity = count;
      }
    }
    bytes const kept = std::min(size_, count) * sizeof(T);
    try {
      operations::copy(fresh, data_, kept);
    } catch (...) {
      (void)pool_->deallocate(fresh);
      throw;
    }
    counts_.copied += kept;
    ++counts_.moves;
    (void)pool_->deallocate(std::exchange(data_, fresh));
    capacity_ = capacity;
  }

  Pool* pool_;
  detail::growth_policy policy_;
  T* data_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0, changes_ = 0;
  move_counts counts_;
};

/// An array in pages of its own. Reserves addresses for `maximum` elements and maps pages as the
/// array grows. It unmaps pages at the end as the array shrinks. Elements never move. With the
/// default policy the mapped pages exceed the bytes of the elements by less than a page.
///
/// New elements are not initialised. The registry does not know the array (see adopted_memory). Not
/// thread-safe. A resize that throws changes nothing.
template <class T, page_source Pages>
class paged_array {
  static_assert(std::is_trivially_copyable_v<T>, "elements are not destroyed");

 public:
  /// `maximum`: the maximum number of elements. Throws `bad_argument` if it is 0 or too large, and
  /// what `Pages::reserve` throws.
  paged_array(Pages pages, std::size_t maximum,
              detail::growth_policy policy = detail::growth_policy::exact())
      : pages_{std::move(pages)},
        policy_{std::move(policy)},
        maximum_{checked(maximum)},
        range_{granted(maximum)},
        begin_{pages_.reserve(range_)} {}
  paged_array(paged_array const&) = delete;
  paged_array& operator=(paged_array const&) = delete;
  ~paged_array() {
    if (reserved_ != 0) pages_.unmap(begin_, reserved_);
    pages_.release(begin_, range_);
  }

  /// Changes the size to `count`: maps pages at the end of the array, or unmaps them. Throws
  /// `out_of_memory` if `count` exceeds the maximum, and what `Pages::map` throws. O(pages).
  void resize(std::size_t count) {
    if (count > maximum_)
      throw out_of_memory{"paged_array", count * sizeof(T),
                          "the maximum is " + std::to_string(maximum_) + " elements"};
    std::size_t const capacity =
        std::clamp(policy_.capacity_for(count, reserved_ / sizeof(T), changes_), count, maximum_);
    bytes wanted = capacity == reserved_ / sizeof(T) ? reserved_ : granted(capacity);
    if (wanted > reserved_) {
      wanted = map_to(wanted, granted(count));
    } else if (wanted < reserved_) {
      pages_.unmap(begin_ + wanted, reserved_ - wanted);
    }
    reserved_ = wanted;
    size_ = count;
    ++changes_;
  }

  [[nodiscard]] T* data() const { return reinterpret_cast<T*>(begin_); }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bytes reserved() const { return reserved_; }

 private:
  /// Maps pages at the end of the array, up to `wanted` bytes. If there are too few pages, maps
  /// only up to `needed` bytes. Returns the mapped bytes.
  [[nodiscard]] bytes map_to(bytes wanted, bytes needed) {
    try {
      pages_.map(begin_ + reserved_, wanted - reserved_);
      return wanted;
    } catch (std::bad_alloc const&) {
      if (wanted == needed) throw;
    }
    if (needed > reserved_) pages_.map(begin_ + reserved_, needed - reserved_);
    return std::max(needed, reserved_);
  }
  [[nodiscard]] static std::size_t checked(std::size_t maximum) {
    if (maximum == 0 || maximum > max_bytes_at_once / sizeof(T))
      throw bad_argument{"paged_array: maximum is " + std::to_string(maximum) +
                         " elements; it must be at least 1, and at most 2^46 bytes"};
    return maximum;
  }
  [[nodiscard]] bytes granted(std::size_t count) const {
    bytes const page = pages_.page_bytes();
    return (count * sizeof(T) + page - 1) & ~(page - 1);
  }

  mutable Pages pages_;
  detail::growth_policy policy_;
  std::size_t maximum_;
  bytes range_;
  std::uint64_t begin_;
  bytes reserved_ = 0;
  std::size_t size_ = 0, changes_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI
