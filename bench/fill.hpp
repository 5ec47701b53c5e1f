// SPDX-License-Identifier: Apache-2.0
// Kernels that fill a heap until it is full, and that free all of its allocations or half of them.
// Each lane links its allocations into a list inside the allocations. So only the heap's memory
// limits their number.
#pragma once

#include "trial.hpp"

#include <optional>

namespace bench {

/// Stands at the beginning of each allocation, so allocations have at least 16 bytes.
struct alignas(16) link {
  link* previous;
  std::uint64_t owner;  // the lane, to find memory that two lanes share
};

/// The lists of all lanes.
struct chains {
  link** last;           // the latest allocation of each lane
  std::uint32_t* count;  // the number of allocations of each lane
  std::uint64_t lanes;
};

/// Each lane allocates until an allocation fails.
template <class Ref>
struct fill_kernel {
  Ref heap;
  bytes size;
  chains lists;

  QUARRY_HD void operator()() const {
    std::uint64_t const rank = quarry::simt::this_place().rank();
    if (rank >= lists.lanes) return;
    link* last = lists.last[rank];
    std::uint32_t count = lists.count[rank];
    while (auto* const next = static_cast<link*>(heap.malloc(size))) {
      *next = {last, rank};
      last = next;
      ++count;
    }
    lists.last[rank] = last;
    lists.count[rank] = count;
  }
};

/// Each lane frees all of its allocations, or a random half of them.
template <class Ref>
struct drain_kernel {
  Ref heap;
  bool only_half;
  chains lists;

  QUARRY_HD void operator()() const {
    std::uint64_t const rank = quarry::simt::this_place().rank();
    if (rank >= lists.lanes) return;
    link* kept = nullptr;
    std::uint32_t kept_count = 0;
    link* current = lists.last[rank];
    for (std::uint32_t i = lists.count[rank]; i > 0; --i) {
      link* const previous = current->previous;
      auto const location =
          static_cast<std::uint32_t>(reinterpret_cast<std::uint64_t>(current) / sizeof(link));
      if (only_half && (quarry::mix(location) & 1) != 0) {
        current->previous = kept;
        kept = current;
        ++kept_count;
      } else {
        heap.free(current);
      }
      current = previous;
    }
    lists.last[rank] = kept;
    lists.count[rank] = kept_count;
  }
};

/// Counts the lanes whose list holds an allocation of another lane, or has another length.
struct verify_chains {
  chains lists;
  std::uint64_t* wrong;

  QUARRY_HD void operator()() const {
    std::uint64_t const rank = quarry::simt::this_place().rank();
    if (rank >= lists.lanes) return;
    link const* current = lists.last[rank];
    std::uint32_t remaining = lists.count[rank];
    while (remaining > 0 && current != nullptr && current->owner == rank) {
      current = current->previous;
      --remaining;
    }
    if (remaining != 0 || current != nullptr)
      quarry::simt::atomic_ref<std::uint64_t>{*wrong}.fetch_add(1, quarry::simt::relaxed);
  }
};

inline constexpr bytes filled_bytes = on_gpu ? 2_GiB : 64_MiB;

inline parameters filling_params(char const* allocator, bytes size,
                                 bytes heap_size = filled_bytes) {
  return parameters{}.add("allocator", allocator).add("bytes", size).add("heap_bytes", heap_size);
}

inline constexpr std::uint64_t filling_lanes = 1u << (on_gpu ? 18 : 10);

enum class portion { half, all };

/// The lanes that fill one heap together.
template <class Allocator>
class filling {
 public:
  using ref = typename Allocator::ref;

  explicit filling(Allocator& allocator) : allocator_{allocator} {}

  /// Fills the heap. Returns the milliseconds until an allocation of each lane failed. If the heap
  /// is damaged, fails the trial and returns nothing.
  [[nodiscard]] std::optional<double> fill(trial& rounds, bytes size) {
    double const ms = time_ms(grid_, fill_kernel<ref>{allocator_.device(), size, lists()});
    array<std::uint64_t> wrong{1};
    run(grid_, verify_chains{lists(), wrong.data()});
    if (auto const sharing = wrong.to_host()[0]; sharing != 0) {  // their lists cannot be freed
      rounds.fail(std::to_string(sharing) + " threads share memory");
      return std::nullopt;
    }
    return rounds.is_sound(allocator_, allocations()) ? std::optional{ms} : std::nullopt;
  }

  /// Frees all allocations of the lanes, or a random half. If the heap is damaged afterwards, fails
  /// the trial and returns false.
  [[nodiscard]] bool drain(trial& rounds, portion freed) {
    run(grid_, drain_kernel<ref>{allocator_.device(), freed == portion::half, lists()});
    return rounds.is_sound(allocator_, allocations());
  }

  /// The number of allocations that the lanes hold.
  [[nodiscard]] std::uint64_t allocations() const {
    std::uint64_t sum = 0;
    for (auto const count : count_.to_host()) sum += count;
    return sum;
  }

 private:
  [[nodiscard]] chains lists() const { return {last_.data(), count_.data(), filling_lanes}; }

  Allocator& allocator_;
  array<link*> last_{filling_lanes};
  array<std::uint32_t> count_{filling_lanes};
  grid grid_ = lanes(filling_lanes);
};

}  // namespace bench
