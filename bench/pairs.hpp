// SPDX-License-Identifier: Apache-2.0
// The loop that the benchmarks of host pools time. In each step it replaces a random one of N
// allocations. Random numbers are drawn before the clock runs.
#pragma once

#include "harness.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <random>
#include <vector>

namespace bench {

/// The number of live allocations and their sizes: uniform between two bounds, or log-uniform with
/// `is_log`, where each power of two is equally likely.
struct replacing {
  std::uint32_t allocated;
  bytes minimum, maximum;
  bool is_log = false;

  [[nodiscard]] parameters params(char const* allocator) const {
    return parameters{}
        .add("allocator", allocator)
        .add("live", allocated)
        .add("least", minimum)
        .add("most", maximum)
        .add("sizes", is_log ? "log" : "uniform");
  }
};

/// The four cases that the documents show.
inline constexpr replacing one_small_size{1000, 256, 256};
inline constexpr replacing up_to_4_kib{10'000, 1, 4096};
inline constexpr replacing up_to_1_mib{10'000, 1, 1_MiB};
inline constexpr replacing up_to_64_mib{300, 1_KiB, 64_MiB};

/// The sizes and victims, drawn in advance.
class draws {
 public:
  static constexpr std::size_t count = 1 << 16;

  explicit draws(replacing const& load) {
    std::mt19937_64 random{1};
    auto const minimum = static_cast<double>(load.minimum),
               maximum = static_cast<double>(load.maximum);
    for (std::size_t i = 0; i < count; ++i) {
      victims_.push_back(static_cast<std::uint32_t>(random() % load.allocated));
      auto const share = static_cast<double>(random() >> 11) * 0x1p-53;
      double const size = load.is_log ? minimum * std::pow(maximum / minimum, share)
                                      : minimum + share * (maximum - minimum + 1);
      sizes_.push_back(std::min(load.maximum, static_cast<bytes>(size)));
    }
  }
  [[nodiscard]] std::uint32_t victim(std::uint64_t step) const { return victims_[step % count]; }
  [[nodiscard]] bytes size(std::uint64_t step) const { return sizes_[(step * 7 + 3) % count]; }

 private:
  std::vector<std::uint32_t> victims_;
  std::vector<bytes> sizes_;
};

/// The live allocations of a pool. `Pool` has `allocate(size)` and `deallocate(pointer, size)`.
template <class Pool>
class live_allocations {
 public:
  /// Allocates all of them.
  live_allocations(Pool& pool, replacing const& load) : pool_{pool}, drawn_{load} {
    for (; step_ < load.allocated; ++step_)
      allocations_.push_back({pool_.allocate(drawn_.size(step_)), drawn_.size(step_)});
  }
  live_allocations(live_allocations const&) = delete;
  live_allocations& operator=(live_allocations const&) = delete;
  ~live_allocations() {
    for (allocation const& last : allocations_) pool_.deallocate(last.address, last.size);
  }

  /// The mean nanoseconds of a deallocation and the allocation after it, over `pairs` pairs.
  [[nodiscard]] double pair_ns(std::uint64_t pairs) {
    auto const begin = std::chrono::steady_clock::now();
    for (std::uint64_t const end = step_ + pairs; step_ < end; ++step_) {
      allocation& victim = allocations_[drawn_.victim(step_)];
      pool_.deallocate(victim.address, victim.size);
      victim.size = drawn_.size(step_);
      victim.address = pool_.allocate(victim.size);
    }
    std::chrono::duration<double, std::nano> const elapsed =
        std::chrono::steady_clock::now() - begin;
    return elapsed.count() / static_cast<double>(pairs);
  }

 private:
  struct allocation {
    void* address;
    bytes size;
  };

  Pool& pool_;
  draws drawn_;
  std::vector<allocation> allocations_;
  std::uint64_t step_ = 0;
};

}  // namespace bench
