// SPDX-License-Identifier: Apache-2.0
// How often a measurement is repeated, and what the heap must still be like after it.
#pragma once

#include "allocators.hpp"
#include "harness.hpp"

#include <type_traits>

namespace bench {

/// Rounds of one measurement: `warm_ups` that do not count, then `repeats` that do; fewer of either once `most_ms` are over,
/// but one that counts. Use: `for (rounds round; round.next();) { ...; if (round.counts()) ...; }`.
class rounds {
 public:
  explicit rounds(double most_ms = 1500, int count = repeats) : most_ms_{most_ms}, count_{count} {}

  [[nodiscard]] bool next() {
    if (counted_ == count_ || (counted_ > 0 && is_late())) return false;
    ++begun_;
    return true;
  }

  /// Whether the round that has just been measured counts. To be asked once a round.
  [[nodiscard]] bool counts() {
    bool const does = begun_ > warm_ups || is_late();
    counted_ += does ? 1 : 0;
    return does;
  }

 private:
  [[nodiscard]] bool is_late() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin_)
               .count() > most_ms_;
  }

  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  double most_ms_;
  int count_;
  int begun_ = 0;
  int counted_ = 0;
};

/// Only `reset` makes room again.
template <class Allocator>
inline constexpr bool never_frees = std::is_same_v<Allocator, bump_allocator>;

/// Takes what the machine has, so that it cannot be filled.
template <class Allocator>
inline constexpr bool is_unbounded =
    !on_gpu && !never_frees<Allocator> && !std::is_same_v<Allocator, quarry_allocator>;

/// CUDA's malloc, which hangs on some of what is measured here: the caller leaves that out, and says so.
template <class Allocator>
inline constexpr bool is_cuda_malloc = on_gpu&& std::is_same_v<Allocator, platform_allocator>;

inline constexpr char const* known_to_hang = "known to hang";

/// What is wrong with the heap of `allocator`, for ours: faults but for want of memory, broken invariants, more or fewer
/// allocations than `live`. Empty if all is well. Forgets the faults.
template <class Allocator>
std::string complaint([[maybe_unused]] Allocator& allocator, [[maybe_unused]] std::uint64_t live) {
  std::string text;
  if constexpr (std::is_same_v<Allocator, quarry_allocator>) {
    auto& heap = allocator.heap();
    for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(quarry::fault_kind::count_); ++i) {
      auto const kind = static_cast<quarry::fault_kind>(i);
      auto const count = heap.fault_count(kind);
      if (count == 0 || kind == quarry::fault_kind::out_of_memory) continue;
      text += std::to_string(count) + " faults: " + quarry::name_of(kind) + "; ";
    }
    heap.clear_faults();
    auto const broken = heap.audit();
    if (!broken.empty())
      text += "audit: " + broken.front() + " (" + std::to_string(broken.size()) + " in all); ";
    auto const counted = heap.stats().allocations;
    // The quarantine holds some back.
    if (!quarry::is_on(quarry::mitigation::quarantine) && counted != live) {
      text += std::to_string(counted) + " allocations are live, not " + std::to_string(live) + "; ";
    }
  }
  return text;
}

/// A line that tells of a complaint, if there is one. Gives whether there was none.
template <class Allocator>
bool record_complaint(std::string const& name, parameters const& params, Allocator& allocator,
                      std::uint64_t live, char const* unit) {
  auto const text = complaint(allocator, live);
  if (!text.empty()) record_failure(name, params, text, unit);
  return text.empty();
}

/// How many of the allocations, of `size` bytes each, begin inside another; null pointers are left out. Sorts them.
inline std::uint64_t count_overlaps(std::vector<void*>& pointers, bytes size) {
  std::erase(pointers, nullptr);
  std::sort(pointers.begin(), pointers.end(), std::less<>{});
  std::uint64_t overlaps = 0;
  for (std::size_t i = 1; i < pointers.size(); ++i) {
    overlaps += reinterpret_cast<std::uint64_t>(pointers[i]) -
                    reinterpret_cast<std::uint64_t>(pointers[i - 1]) <
                size;
  }
  return overlaps;
}

/// Waits until the machine has done what it was told.
inline void wait_for_machine() {
#ifdef __CUDACC__
  quarry::simt::check_cuda(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
#endif
}

/// Milliseconds of the host's clock until `work` is done.
template <class Work>
double host_ms(Work const& work) {
  wait_for_machine();
  auto const begin = std::chrono::steady_clock::now();
  work();
  wait_for_machine();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

}  // namespace bench
