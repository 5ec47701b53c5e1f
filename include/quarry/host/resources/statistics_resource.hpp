// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/detail/atomic_counter.hpp"
#include "quarry/host/detail/held_at_fork.hpp"
#include "quarry/host/resources/resource.hpp"
#include "quarry/host/resources/resource_adaptor.hpp"

#include <algorithm>
#include <concepts>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// Counts of a resource's calls since counting started. `allocated` and `allocations_in_use` become
/// negative if earlier allocations are freed.
struct resource_counts {
  std::int64_t allocated = 0, peak_allocated = 0;  // requested bytes
  std::int64_t allocations_in_use = 0, peak_allocations = 0;
  std::uint64_t total_allocated = 0;  // requested bytes of all allocations
  std::uint64_t total_allocations = 0;
  std::uint64_t failures = 0;  // allocations that threw std::bad_alloc
};

/// Counts allocations and deallocations. Accepts each kind of call that the upstream accepts.
/// `push` starts new counts for a part of the program. `pop` ends that part, returns its counts,
/// and adds them to those of the enclosing part.
///
/// Threads may share it if they may share the upstream. Calls change running totals and take no
/// lock. The counts of a part are the totals less those at its start, so a part counts the calls of
/// all threads. While other threads allocate, the fields of `counts()` may be from slightly
/// different moments. An allocation counts from its end to the start of its deallocation. So
/// `allocated` and its peak never exceed what the upstream has allocated. A null pointer changes no
/// count. If the upstream refuses a pointer, as a pool does at a double free, the counts are too
/// low during that call alone.
template <class Upstream>
class statistics_resource : public resource_adaptor<statistics_resource<Upstream>, Upstream> {
 public:
  explicit statistics_resource(Upstream upstream) : upstream_{std::move(upstream)} {}
  /// Constructs the upstream from `arguments`: for an upstream that cannot be moved.
  template <class... Arguments>
    requires std::constructible_from<Upstream, Arguments...>
  explicit statistics_resource(std::in_place_t, Arguments&&... arguments)
      : upstream_(std::forward<Arguments>(arguments)...) {}

  [[nodiscard]] resource_counts counts() const {
    std::lock_guard const lock{totals_->mutex};
    return totals_->of_part();
  }
  void push() {
    std::lock_guard const lock{totals_->mutex};
    totals_->begin_part();
  }
  /// Throws `bad_argument` if no `push` is open.
  resource_counts pop() {
    std::lock_guard const lock{totals_->mutex};
    if (totals_->parts.size() == 1)
      throw bad_argument{"statistics_resource: pop() without an open push(); call push() first"};
    return totals_->end_part();
  }

  [[nodiscard]] Upstream& upstream() { return upstream_; }

 private:
  friend resource_adaptor<statistics_resource, Upstream>;

  template <class Call>
  [[nodiscard]] void* allocate_by(Call call, bytes size, bytes alignment) {
    void* result = nullptr;
    try {
      result = call.allocate(upstream_, size, alignment);
    } catch (std::bad_alloc const&) {
      totals_->failures.add(1);
      throw;
    }
    totals_->add_in_use(size);
    totals_->total_allocated.add(size);
    totals_->total_allocations.add(1);
    return result;
  }
  template <class Call>
  bool deallocate_by(Call call, void* pointer, bytes size, bytes alignment) noexcept {
    if (pointer == nullptr) return call.deallocate(upstream_, pointer, size, alignment);
    totals_->allocated.add(-static_cast<std::int64_t>(size));
    totals_->allocations_in_use.add(-1);
    bool const has_freed = call.deallocate(upstream_, pointer, size, alignment);
    if (!has_freed) totals_->add_in_use(size);
    return has_freed;
  }

  /// A part of the program: the totals at its start, and the peaks of the totals from its start to
  /// the start of the innermost part.
  struct part {
    resource_counts start;
    std::int64_t peak_allocated = 0, peak_allocations = 0;
  };
  /// The totals since the construction. The peaks are those of the totals during the innermost
  /// part.
  ///
  /// Memory order: all operations are sequentially consistent (atomic_counter). A call changes a
  /// total and then reads its peak. `begin_part` changes the peak and then reads the total. So at
  /// least one of the two sees the other's change, and the peak is not too low.
  struct running_totals {
    using number = detail::atomic_counter<std::int64_t>;
    using unsigned_number = detail::atomic_counter<std::uint64_t>;
    number allocated, peak_allocated, allocations_in_use, peak_allocations;
    unsigned_number total_allocated, total_allocations, failures;
    detail::mutex_held_at_fork mutex;
    std::vector<part> parts = std::vector<part>(1);  // the innermost last. Guarded by: the mutex

    void add_in_use(bytes size) {
      peak_allocated.raise(allocated.add(static_cast<std::int64_t>(size)));
      peak_allocations.raise(allocations_in_use.add(1));
    }
    void begin_part() {
      parts.push_back({{allocated.load(), 0, allocations_in_use.load(), 0, total_allocated.load(),
                        total_allocations.load(), failures.load()}});
      part& outer = parts[parts.size() - 2];
      outer.peak_allocated = start_peak(peak_allocated, allocated);
      outer.peak_allocations = start_peak(peak_allocations, allocations_in_use);
    }
    /// Resets `peak` to the current total. Returns the peak before.
    [[nodiscard]] static std::int64_t start_peak(number& peak, number const& total) {
      std::int64_t const before = peak.exchange(total.load());
      peak.raise(total.load());
      return before;
    }
    resource_counts end_part() {
      resource_counts const result = of_part();
      parts.pop_back();
      peak_allocated.raise(parts.back().peak_allocated);
      peak_allocations.raise(parts.back().peak_allocations);
      return result;
    }
    /// The counts of the innermost part.
    [[nodiscard]] resource_counts of_part() const {
      resource_counts const& start = parts.back().start;
      resource_counts result;
      result.allocated = allocated.load() - start.allocated;
      result.peak_allocated = std::max(result.allocated, peak_allocated.load() - start.allocated);
      result.allocations_in_use = allocations_in_use.load() - start.allocations_in_use;
      result.peak_allocations =
          std::max(result.allocations_in_use, peak_allocations.load() - start.allocations_in_use);
      result.total_allocated = total_allocated.load() - start.total_allocated;
      result.total_allocations = total_allocations.load() - start.total_allocations;
      result.failures = failures.load() - start.failures;
      return result;
    }
  };

  Upstream upstream_;
  std::unique_ptr<running_totals> totals_ = std::make_unique<running_totals>();
};

}  // namespace quarry::inline QUARRY_ABI
