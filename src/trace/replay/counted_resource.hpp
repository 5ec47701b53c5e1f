// SPDX-License-Identifier: Apache-2.0
// The resource of replays, which counts and times its calls.
#pragma once

#include "quarry/host/resources/any_resource.hpp"
#include "quarry/host/resources/simulated_resource.hpp"
#include "quarry/trace/replay.hpp"

#include <algorithm>
#include <chrono>

namespace quarry::inline QUARRY_ABI::trace {

/// Calls of the upstream, and what they would cost.
struct upstream_calls {
  upstream_cost price;
  double us = 0, measured_us = 0;
  std::uint64_t allocations = 0;
  bytes reserved = 0, peak = 0;  // the peak since the last sample

  /// `calls` calls that allocate `size` bytes in total.
  void count_allocation(bytes size, std::uint64_t calls = 1) {
    us += price.us_per_allocation * static_cast<double>(calls) +
          price.us_per_gib * static_cast<double>(size) * 0x1p-30;
    allocations += calls;
    reserved += size;
    peak = std::max(peak, reserved);
  }
  void count_free(bytes size, std::uint64_t calls = 1) {
    us += price.us_per_free * static_cast<double>(calls);
    reserved -= size;
  }
  void count_moved_pages(std::uint64_t pages) {
    us += price.us_per_allocation * static_cast<double>(pages);
  }
  /// The result of `call`, which takes or returns real memory and is timed.
  template <class Call>
  decltype(auto) measured(Call const& call) {
    struct timer {
      using clock = std::chrono::steady_clock;
      double& us;
      clock::time_point begin = clock::now();
      ~timer() { us += std::chrono::duration<double, std::micro>(clock::now() - begin).count(); }
    };
    timer const running{measured_us};
    return call();
  }
};

/// `result` with the counts that every pool has, copied from `found`.
template <class Counts>
[[nodiscard]] pool_counts with_counts(pool_counts result, Counts const& found) {
  result.reserved = found.reserved;
  result.peak_reserved = found.peak_reserved;
  result.allocated = found.allocated;
  result.peak_allocated = found.peak_allocated;
  result.allocations_in_use = found.allocations_in_use;
  result.invalid_frees = found.invalid_frees;
  return result;
}

/// The resource of the options, or simulated memory. Counts the calls.
///
/// One class for both, so that each pool is compiled once. Both count as simulated: the pools of
/// replays never touch memory, and the registry does not know them.
class counted_resource {
 public:
  static constexpr bool is_simulated = true;

  /// `owner` must outlive the resource; null simulates memory.
  counted_resource(any_resource* owner, upstream_calls& calls) : owner_{owner}, calls_{&calls} {}

  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    void* const result = owner_ == nullptr
                             ? simulated_.allocate(size, alignment)
                             : calls_->measured([&] { return owner_->allocate(size, alignment); });
    calls_->count_allocation(size);
    return result;
  }
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    if (owner_ == nullptr) {
      simulated_.deallocate(pointer, size, alignment);
    } else {
      calls_->measured([&] { owner_->deallocate(pointer, size, alignment); });
    }
    calls_->count_free(size);
  }
  [[nodiscard]] memory_location location() {
    return owner_ == nullptr ? memory_location{} : owner_->location();
  }
  void synchronize() {
    if (owner_ != nullptr) owner_->synchronize();
  }
  void release() {
    if (owner_ != nullptr) owner_->release();
  }

 private:
  any_resource* owner_;
  simulated_resource simulated_;
  upstream_calls* calls_;
};

}  // namespace quarry::inline QUARRY_ABI::trace
