// SPDX-License-Identifier: Apache-2.0
// Kernels that several benchmarks share, and a check that allocations do not overlap.
#pragma once

#include "trial.hpp"

namespace bench {

/// The size of lane `rank`'s allocation: a hash of the rank, uniform from `low` to `high`.
struct uniform_sizes {
  std::uint32_t low;
  std::uint32_t high;

  [[nodiscard]] bytes maximum() const { return high; }
  [[nodiscard]] QUARRY_HD bytes operator()(std::uint64_t rank) const {
    return low + quarry::mix(static_cast<std::uint32_t>(rank) + 1) % (high - low + 1);
  }
};

/// The same size for each lane.
struct one_size {
  bytes size;
  [[nodiscard]] bytes maximum() const { return size; }
  [[nodiscard]] QUARRY_HD bytes operator()(std::uint64_t) const { return size; }
};

/// Each lane allocates once.
template <class Ref, class Sizes>
struct allocate_kernel {
  Ref heap;
  Sizes sizes;
  std::uint64_t count;
  void** pointers;

  QUARRY_HD void operator()() const {
    std::uint64_t const rank = quarry::simt::this_place().rank();
    if (rank < count) pointers[rank] = heap.malloc(sizes(rank));
  }
};

/// Each lane frees its allocation.
template <class Ref>
struct free_kernel {
  Ref heap;
  std::uint64_t count;
  void** pointers;

  QUARRY_HD void operator()() const {
    std::uint64_t const rank = quarry::simt::this_place().rank();
    if (rank < count) heap.free(pointers[rank]);
  }
};

/// Each lane writes its rank to every 16th byte of its allocation. Counts missing ones.
template <class Sizes>
struct mark_kernel {
  Sizes sizes;
  std::uint64_t count;
  void** pointers;
  std::uint64_t* missing;

  QUARRY_HD void operator()() const {
    std::uint64_t const rank = quarry::simt::this_place().rank();
    if (rank >= count) return;
    auto* const words = static_cast<std::uint32_t*>(pointers[rank]);
    if (words == nullptr) {
      quarry::simt::atomic_ref<std::uint64_t>{*missing}.fetch_add(1, quarry::simt::relaxed);
      return;
    }
    for (bytes i = 0; i < sizes(rank) / 4; i += 4) words[i] = static_cast<std::uint32_t>(rank);
  }
};

/// Counts the lanes whose allocation holds another lane's mark.
template <class Sizes>
struct verify_kernel {
  Sizes sizes;
  std::uint64_t count;
  void** pointers;
  std::uint64_t* wrong;

  QUARRY_HD void operator()() const {
    std::uint64_t const rank = quarry::simt::this_place().rank();
    if (rank >= count || pointers[rank] == nullptr) return;
    auto const* const words = static_cast<std::uint32_t const*>(pointers[rank]);
    for (bytes i = 0; i < sizes(rank) / 4; i += 4) {
      if (words[i] == static_cast<std::uint32_t>(rank)) continue;
      quarry::simt::atomic_ref<std::uint64_t>{*wrong}.fetch_add(1, quarry::simt::relaxed);
      return;
    }
  }
};

/// Checks that `count` allocations exist and do not overlap. Returns a description of the errors,
/// empty if there are none.
template <class Sizes>
std::string check(std::uint64_t count, Sizes sizes, array<void*> const& pointers) {
  array<std::uint64_t> result{2};
  run(lanes(count), mark_kernel<Sizes>{sizes, count, pointers.data(), result.data()});
  run(lanes(count), verify_kernel<Sizes>{sizes, count, pointers.data(), result.data() + 1});
  auto const values = result.to_host();
  if (values[0] == 0 && values[1] == 0) return {};
  return std::to_string(values[0]) + " missing, " + std::to_string(values[1]) + " overlap";
}

/// Where the allocations of all lanes lie.
struct layout {
  std::uint64_t count = 0;      ///< allocations that exist
  std::uint64_t overlaps = 0;   ///< allocations that overlap one at a lower address
  std::uint64_t requested = 0;  ///< the sum of their sizes
  std::uint64_t first = 0;      ///< the lowest address
  std::uint64_t last = 0;       ///< the end of the highest allocation
};

/// The layout of allocations of `sizes(rank)` bytes. Leaves out null pointers.
template <class Sizes>
layout layout_of(std::vector<void*> const& pointers, Sizes sizes) {
  std::vector<std::pair<std::uint64_t, bytes>> found;
  for (std::uint64_t rank = 0; rank < pointers.size(); ++rank)
    if (pointers[rank] != nullptr)
      found.emplace_back(reinterpret_cast<std::uint64_t>(pointers[rank]), sizes(rank));
  std::sort(found.begin(), found.end());
  layout result;
  for (auto const& [begin, size] : found) {
    result.overlaps += result.count++ > 0 && begin < result.last;
    result.requested += size;
    result.last = std::max(result.last, begin + size);
  }
  if (!found.empty()) result.first = found.front().first;
  return result;
}

/// The state of the heap before each round: after a reset, or in use since the first round. `bump`
/// frees nothing, so the benchmarks always reset it.
enum class state { reset, in_use };

inline double microseconds(std::uint64_t, double ms) { return ms * 1e3; }

/// Measures <bench>/malloc and <bench>/free: `count` lanes allocate once each, `check` checks the
/// allocations, and the lanes free them. `figure(count, milliseconds)` returns the result in
/// `unit`.
template <class Allocator, class Sizes>
void measure_pairs(std::string const& bench, Allocator& allocator, Sizes sizes, std::uint64_t count,
                   state before_round, double (*figure)(std::uint64_t, double), char const* unit,
                   effort maximum = {}) {
  trial rounds{parameters{}
                   .add("allocator", Allocator::name)
                   .add("bytes", sizes.maximum())
                   .add("threads", count),
               {{bench + "/malloc", unit}, {bench + "/free", unit}},
               maximum};
  if (is_known_to_hang(Allocator::name, bench, sizes.maximum(), count))
    return rounds.fail(known_to_hang);
  using ref = typename Allocator::ref;
  array<void*> pointers{count};
  while (rounds.next()) {
    if (before_round == state::reset || never_frees<Allocator>) allocator.reset();
    double const malloc_ms =
        time_ms(lanes(count),
                allocate_kernel<ref, Sizes>{allocator.device(), sizes, count, pointers.data()});
    if (auto const wrong = check(count, sizes, pointers); !wrong.empty()) return rounds.fail(wrong);
    double const free_ms =
        time_ms(lanes(count), free_kernel<ref>{allocator.device(), count, pointers.data()});
    rounds.add({figure(count, malloc_ms), figure(count, free_ms)});
  }
  rounds.finish(allocator);
}

/// The number of lanes in benchmarks that do not vary it.
inline constexpr std::uint64_t many_lanes = 1u << (on_gpu ? 20 : 17);

}  // namespace bench
