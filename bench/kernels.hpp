// SPDX-License-Identifier: Apache-2.0
// Kernels that several benchmarks share, and the check that allocations do not overlap.
#pragma once

#include "trial.hpp"

namespace bench {

/// Size of the allocation of lane `rank`: a hash of it, uniform from `low` to `high`.
struct uniform_sizes {
  std::uint32_t low;
  std::uint32_t high;

  [[nodiscard]] bytes maximum() const { return high; }
  [[nodiscard]] QUARRY_HD bytes operator()(std::uint64_t rank) const {
    return low + quarry::mix(static_cast<std::uint32_t>(rank) + 1) % (high - low + 1);
  }
};

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

/// Each lane frees what it allocated.
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

/// Writes each lane's rank at every 16th byte of its allocation, counts those that are missing.
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

/// Counts lanes whose allocation holds a foreign mark.
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

/// What is wrong with `count` allocations: some are missing, or not apart from each other. Empty if
/// nothing is.
template <class Sizes>
std::string check(std::uint64_t count, Sizes sizes, array<void*> const& pointers) {
  array<std::uint64_t> result{2};
  run(lanes(count), mark_kernel<Sizes>{sizes, count, pointers.data(), result.data()});
  run(lanes(count), verify_kernel<Sizes>{sizes, count, pointers.data(), result.data() + 1});
  auto const values = result.to_host();
  if (values[0] == 0 && values[1] == 0) return {};
  return std::to_string(values[0]) + " missing, " + std::to_string(values[1]) + " overlap";
}

/// How many of the allocations, of `size(rank)` bytes each, begin inside another, or would overlap
/// one. Null pointers are left out. `first` and `last` are the addresses between which all lie.
struct layout {
  std::uint64_t count = 0;
  std::uint64_t overlaps = 0;
  std::uint64_t asked = 0;
  std::uint64_t first = 0;
  std::uint64_t last = 0;
};

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
    result.asked += size;
    result.last = std::max(result.last, begin + size);
  }
  if (!found.empty()) result.first = found.front().first;
  return result;
}

/// What is done before each round: `bump`, which never frees, is reset in any case.
enum class before { reset, nothing };

inline double microseconds(std::uint64_t, double ms) { return ms * 1e3; }

/// Measures <bench>/malloc and <bench>/free: `count` lanes allocate once each, the allocations are
/// checked, the lanes free. `figure` makes of the number of lanes and the milliseconds what `unit`
/// says.
template <class Allocator, class Sizes>
void measure_pairs(std::string const& bench, Allocator& allocator, Sizes sizes, std::uint64_t count,
                   before round, double (*figure)(std::uint64_t, double), char const* unit,
                   effort maximum = {}) {
  trial all{parameters{}
                .add("allocator", Allocator::name)
                .add("bytes", sizes.maximum())
                .add("threads", count),
            {{bench + "/malloc", unit}, {bench + "/free", unit}},
            maximum};
  if (is_known_to_hang(Allocator::name, bench, sizes.maximum(), count))
    return all.fail(known_to_hang);
  using ref = typename Allocator::ref;
  array<void*> pointers{count};
  while (all.next()) {
    if (round == before::reset || never_frees<Allocator>) allocator.reset();
    double const took = time_ms(lanes(count), allocate_kernel<ref, Sizes>{allocator.device(), sizes,
                                                                          count, pointers.data()});
    if (auto const wrong = check(count, sizes, pointers); !wrong.empty()) return all.fail(wrong);
    double const freed =
        time_ms(lanes(count), free_kernel<ref>{allocator.device(), count, pointers.data()});
    all.add({figure(count, took), figure(count, freed)});
  }
  all.finish(allocator);
}

/// So many lanes allocate once each, where nothing else is said.
inline constexpr std::uint64_t many_lanes = 1u << (on_gpu ? 20 : 17);

}  // namespace bench
