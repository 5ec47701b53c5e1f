// SPDX-License-Identifier: Apache-2.0
// Kernels that several benchmarks share, and the check that allocations do not overlap.
#pragma once

#include "harness.hpp"

namespace bench {

/// Size of the allocation of lane `rank`: a hash of it, uniform from `low` to `high`.
struct uniform_sizes {
  std::uint32_t low;
  std::uint32_t high;

  [[nodiscard]] QUARRY_HD bytes operator()(std::uint64_t rank) const {
    return low + quarry::mix(static_cast<std::uint32_t>(rank) + 1) % (high - low + 1);
  }
};

struct one_size {
  bytes size;
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

/// Writes each lane's rank at the first and last byte of its allocation, counts those that are missing.
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

/// Counts lanes whose allocation holds another's mark.
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

struct integrity {
  std::uint64_t missing;
  std::uint64_t wrong;
};

/// Whether `count` allocations are there and apart from each other.
template <class Sizes>
integrity check(std::uint64_t count, Sizes sizes, array<void*> const& pointers) {
  array<std::uint64_t> result{2};
  run(lanes(count), mark_kernel<Sizes>{sizes, count, pointers.data(), result.data()});
  run(lanes(count), verify_kernel<Sizes>{sizes, count, pointers.data(), result.data() + 1});
  auto const values = result.to_host();
  return {values[0], values[1]};
}

}  // namespace bench
