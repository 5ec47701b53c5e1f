// SPDX-License-Identifier: Apache-2.0
// Kernels that fill a heap until it gives no more, and that return all of it, or half. Each lane
// keeps what it has as a list through the allocations themselves, so that nothing but the heap's
// own memory limits how many there are.
#pragma once

#include "trial.hpp"

#include <optional>

namespace bench {

/// At the beginning of each allocation, which thus has 16 bytes at least.
struct alignas(16) link {
  link* previous;
  std::uint64_t owner;  // the lane, to find allocations that two lanes have
};

/// What the lanes hold.
struct chains {
  link** last;           // of each lane
  std::uint32_t* count;  // of each lane
  std::uint64_t lanes;
};

/// Each lane allocates until it is refused.
template <class Ref>
struct fill_kernel {
  Ref heap;
  bytes size;
  chains all;

  QUARRY_HD void operator()() const {
    std::uint64_t const rank = quarry::simt::this_place().rank();
    if (rank >= all.lanes) return;
    link* last = all.last[rank];
    std::uint32_t count = all.count[rank];
    while (auto* const next = static_cast<link*>(heap.malloc(size))) {
      *next = {last, rank};
      last = next;
      ++count;
    }
    all.last[rank] = last;
    all.count[rank] = count;
  }
};

/// Each lane frees what it holds, or of that a random half.
template <class Ref>
struct drain_kernel {
  Ref heap;
  bool only_half;
  chains all;

  QUARRY_HD void operator()() const {
    std::uint64_t const rank = quarry::simt::this_place().rank();
    if (rank >= all.lanes) return;
    link* kept = nullptr;
    std::uint32_t kept_count = 0;
    link* here = all.last[rank];
    for (std::uint32_t i = all.count[rank]; i > 0; --i) {
      link* const previous = here->previous;
      auto const location =
          static_cast<std::uint32_t>(reinterpret_cast<std::uint64_t>(here) / sizeof(link));
      if (only_half && (quarry::mix(location) & 1) != 0) {
        here->previous = kept;
        kept = here;
        ++kept_count;
      } else {
        heap.free(here);
      }
      here = previous;
    }
    all.last[rank] = kept;
    all.count[rank] = kept_count;
  }
};

/// Counts lanes whose list is not theirs alone.
struct verify_chains {
  chains all;
  std::uint64_t* wrong;

  QUARRY_HD void operator()() const {
    std::uint64_t const rank = quarry::simt::this_place().rank();
    if (rank >= all.lanes) return;
    link const* here = all.last[rank];
    std::uint32_t left = all.count[rank];
    while (left > 0 && here != nullptr && here->owner == rank) {
      here = here->previous;
      --left;
    }
    if (left != 0 || here != nullptr)
      quarry::simt::atomic_ref<std::uint64_t>{*wrong}.fetch_add(1, quarry::simt::relaxed);
  }
};

inline constexpr bytes filled_bytes = on_gpu ? 2_GiB : 64_MiB;

inline parameters filling_params(char const* allocator, bytes size, bytes of_heap = filled_bytes) {
  return parameters{}.add("allocator", allocator).add("bytes", size).add("heap_bytes", of_heap);
}

inline constexpr std::uint64_t filling_lanes = 1u << (on_gpu ? 18 : 10);

enum class portion { half, all };

/// Lanes that fill one heap together.
template <class Allocator>
class filling {
 public:
  using ref = typename Allocator::ref;

  explicit filling(Allocator& allocator) : allocator_{allocator} {}

  /// Gives the milliseconds until all lanes were refused; nothing, and `all` has failed, if the
  /// heap is not sound then.
  [[nodiscard]] std::optional<double> fill(trial& all, bytes size) {
    double const took = time_ms(grid_, fill_kernel<ref>{allocator_.device(), size, held_by_all()});
    array<std::uint64_t> wrong{1};
    run(grid_, verify_chains{held_by_all(), wrong.data()});
    if (auto const sharing = wrong.to_host()[0]; sharing != 0) {  // what they hold cannot be freed
      all.fail(std::to_string(sharing) + " threads share memory");
      return std::nullopt;
    }
    return all.is_sound(allocator_, held()) ? std::optional{took} : std::nullopt;
  }

  /// Returns a random half or all of what the lanes hold. False, and `all` has failed, if the
  /// heap is not sound then.
  [[nodiscard]] bool drain(trial& all, portion what) {
    run(grid_, drain_kernel<ref>{allocator_.device(), what == portion::half, held_by_all()});
    return all.is_sound(allocator_, held());
  }

  /// How many allocations the lanes hold.
  [[nodiscard]] std::uint64_t held() const {
    std::uint64_t sum = 0;
    for (auto const own : count_.to_host()) sum += own;
    return sum;
  }

 private:
  [[nodiscard]] chains held_by_all() const { return {last_.data(), count_.data(), filling_lanes}; }

  Allocator& allocator_;
  array<link*> last_{filling_lanes};
  array<std::uint32_t> count_{filling_lanes};
  grid grid_ = lanes(filling_lanes);
};

}  // namespace bench
