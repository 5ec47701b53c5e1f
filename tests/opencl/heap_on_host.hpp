// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opencl/heap_plan.hpp"
#include "quarry/opencl/heap_usage.hpp"
#include "quarry/opencl/live_allocation.hpp"
#include "quarry/opencl/on_host.hpp"
#include "support/backends.hpp"

#include <array>
#include <cstring>
#include <set>
#include <string>
#include <vector>

namespace quarry::opencl_c {

/// The seeds for fibers: one under ThreadSanitizer, which sees one thread and makes fibers slow.
inline std::vector<std::uint64_t> fiber_seeds() {
#ifdef __SANITIZE_THREAD__
  return {1};
#else
  return test::interleavings();
#endif
}

/// An OpenCL heap in the host's memory.
class heap_on_host {
 public:
  explicit heap_on_host(bytes size, std::uint32_t hints = 0, bool is_gpu = false,
                        bool is_debug = false)
      : memory_(size / 64) {
    plan_ = opencl::plan_heap(size, hints, is_gpu);
    plan_.has_trailers = is_debug ? 1 : 0;
    std::memcpy(memory_.data(), &plan_, sizeof plan_);
    quarry_initialise(heap(), 0, 1);
  }
  quarry_heap heap() { return reinterpret_cast<quarry_heap>(memory_.data()); }
  /// Changes the heap as if it had been planned so.
  void set_claims_unread(bool claims_unread) {
    plan_.claims_unread = heap()->claims_unread = claims_unread ? 1 : 0;
  }
  opencl::heap_copy copy() { return {plan_, quarry_words(heap())}; }

  std::uint32_t faults(std::uint32_t kind) { return heap()->fault_counts[kind]; }

  std::vector<opencl::live_allocation> live_allocations(std::size_t max_count = 1000) {
    auto const* const words = quarry_words(heap());
    return opencl::live_allocations_of(
        copy(), max_count, [&](bytes offset, bytes size, void* target) {
          std::memcpy(target, reinterpret_cast<std::byte const*>(words) + offset, size);
        });
  }

  /// A description of errors, empty if there are none. `live`: the expected allocations.
  std::string audit(std::multiset<quarry_ref> const& live) {
    std::string const problem = opencl::audit_of(copy());
    if (!problem.empty()) return problem;
    auto const allocations = opencl::usage_of(copy()).allocations_in_use;
    if (allocations != live.size())
      return std::to_string(allocations) + " allocations, not " + std::to_string(live.size());
    for (auto const ref : live) {
      if (live.count(ref) != 1) return std::to_string(ref) + " was allocated twice";
      if (!quarry_is_allocated(heap(), ref)) return std::to_string(ref) + " is not allocated";
    }
    return {};
  }

 private:
  struct alignas(64) line {
    std::array<std::byte, 64> bytes;
  };
  quarry_heap_state plan_;
  std::vector<line> memory_;
};

}  // namespace quarry::opencl_c
