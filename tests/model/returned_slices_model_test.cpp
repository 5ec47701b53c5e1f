// SPDX-License-Identifier: Apache-2.0
// Runs every interleaving of threads that free slices while their owner takes them. The model runs
// the protocol itself, with atomics before which the explorer may change to another lane.
#include "support/explore.hpp"
#include "support/fibers_allowed.hpp"

#include "quarry/host/detail/returned_slices.hpp"
#include "quarry/simt/atomic.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace quarry::test {
namespace returned_slices_model_test {

/// The operations of std::atomic that the protocol uses.
class explored_word {
 public:
  explicit explored_word(std::uint64_t value = 0) : value_{value} {}
  [[nodiscard]] std::uint64_t load(std::memory_order) const {
    simt::interleave();
    return value_;
  }
  std::uint64_t exchange(std::uint64_t value, std::memory_order) {
    simt::interleave();
    return std::exchange(value_, value);
  }
  std::uint64_t fetch_or(std::uint64_t bits, std::memory_order) {
    simt::interleave();
    return std::exchange(value_, value_ | bits);
  }
  bool compare_exchange_weak(std::uint64_t& expected, std::uint64_t wanted, std::memory_order,
                             std::memory_order) {
    simt::interleave();
    bool const is_equal = value_ == expected;
    (is_equal ? value_ : expected) = is_equal ? wanted : value_;
    return is_equal;
  }

 private:
  std::uint64_t value_;
};

struct explored_group {
  static constexpr std::uint32_t size = 64;
  using word = explored_word;
  word freed;
  std::uint64_t next = 0;
};
struct alignas(64) explored_block {
  using group_type = explored_group;
  explored_group groups[2];
  [[nodiscard]] explored_group& group_of(std::uint32_t number) {
    return groups[number / explored_group::size];
  }
};

using slice = std::pair<std::uint32_t, std::uint32_t>;  // the number of the block, of the slice

/// Slices in use, and what became of them.
class observed_slices {
 public:
  /// Frees a slice. `freed` counts what the protocol accepted.
  void free(slice const& freed) {
    if (returned_.add(blocks_[freed.first], freed.second)) accepted_.push_back(freed);
  }
  /// Takes slices `count` times, as their owner. Each slice is in use again afterwards.
  void take(int count) {
    for (int i = 0; i < count; ++i) (void)take_group();
  }
  /// Frees a slice that the owner has used again, if there is one.
  void free_reused() {
    if (in_use_.empty()) return;
    slice const freed = in_use_.back();
    in_use_.pop_back();
    free(freed);
  }
  /// Takes what is left. Describes the first slice that was lost, or taken twice.
  [[nodiscard]] std::string check() {
    for (int i = 0; take_group(); ++i) {
      if (i == 100) return "the list does not end";
    }
    if (!returned_.is_empty()) return "the list is not empty";
    std::sort(accepted_.begin(), accepted_.end());
    std::sort(taken_.begin(), taken_.end());
    return accepted_ == taken_ ? "" : "the owner took other slices than were freed";
  }
  [[nodiscard]] std::size_t accepted() const { return accepted_.size(); }

 private:
  bool take_group() {
    return returned_.take([](explored_block const&) { return true; },
                          [&](explored_block& block, std::uint32_t first, std::uint64_t bits) {
                            for (std::uint32_t i = 0; i < 64; ++i) {
                              if ((bits >> i & 1) == 0) continue;
                              taken_.emplace_back(&block == &blocks_[0] ? 0 : 1, first + i);
                              in_use_.push_back(taken_.back());
                            }
                          });
  }

  explored_block blocks_[2];
  detail::returned_slices_of<explored_block> returned_;
  std::vector<slice> accepted_, taken_, in_use_;
};

/// Explores lanes that are made for each schedule. `accepted`: the number of frees that the
/// protocol must accept in each schedule, unless it varies.
void explore_lanes(std::function<std::vector<std::function<void()>>(observed_slices&)> const& make,
                   explore_options options, std::optional<std::size_t> accepted) {
  QUARRY_TEST_USES_FIBERS();
  std::optional<observed_slices> observed;
  auto const result = explore(
      [&] {
        observed.emplace();
        scenario run;
        run.lanes = make(*observed);
        run.check = [&] {
          bool const is_right = !accepted || observed->accepted() == *accepted;
          return is_right ? observed->check()
                          : std::string{"a free was accepted or refused wrongly"};
        };
        return run;
      },
      options);
  EXPECT_EQ(result.failure, "");
  EXPECT_TRUE(result.complete);
  std::cout << "  " << result.schedules << " schedules with at most " << options.preemptions
            << " preemptions\n";
}

/// Slices of one group and of several groups and blocks, and an owner that takes them meanwhile.
TEST(ReturnedSlicesModel, EachSliceIsTakenOnce) {
  explore_lanes(
      [](observed_slices& all) -> std::vector<std::function<void()>> {
        return {[&] {
                  all.free({0, 0});
                  all.free({0, 64});
                  all.free({1, 3});
                },
                [&] {
                  all.free({0, 1});
                  all.free({0, 127});
                },
                [&] { all.take(3); }};
      },
      {.preemptions = 5}, 5);
}

/// Without the owner, exactly one of two frees of a slice is accepted.
TEST(ReturnedSlicesModel, ASecondFreeOfASliceIsRefused) {
  explore_lanes(
      [](observed_slices& all) -> std::vector<std::function<void()>> {
        auto const free_all = [&] {
          all.free({0, 0});
          all.free({0, 1});
          all.free({1, 1});
        };
        return {free_all, free_all, free_all};
      },
      {.preemptions = 5}, 3);
}

/// The owner uses a slice again, and another thread frees it again: the group is added to the list
/// while threads that added it before may still be in their calls.
TEST(ReturnedSlicesModel, SlicesMayBeUsedAndFreedAgain) {
  explore_lanes(
      [](observed_slices& all) -> std::vector<std::function<void()>> {
        return {[&] {
                  all.free({0, 0});
                  all.free_reused();
                  all.free_reused();
                },
                [&] {
                  all.free({0, 1});
                  all.free({0, 70});
                  all.free_reused();
                },
                [&] { all.take(4); }};
      },
      {.preemptions = 5}, std::nullopt);
}

}  // namespace returned_slices_model_test
}  // namespace quarry::test
