// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/detail/bit_tree.hpp"

#include "quarry/simt/launch.hpp"
#include "quarry/simt/this_lane.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <set>
#include <vector>

namespace quarry {

using namespace detail;
namespace bit_tree_test {

constexpr std::uint32_t none = bit_tree::none;

std::uint32_t claim_smallest(bit_tree const& tree) {
  auto const found = tree.claim_range(1);
  return found.count == 0 ? none : found.first;
}

/// A tree and its words.
struct owned_tree {
  explicit owned_tree(std::uint32_t size)
      : words(bit_tree::words_for(size)), tree{words.data(), size} {}

  std::vector<word> words;
  bit_tree tree;
};

TEST(BitTree, TakesAWordForEach64NumbersOnEachLevel) {
  EXPECT_EQ(bit_tree::words_for(1), 1u);
  EXPECT_EQ(bit_tree::words_for(64), 1u);
  EXPECT_EQ(bit_tree::words_for(65), 3u);
  EXPECT_EQ(bit_tree::words_for(4096), 65u);
  EXPECT_EQ(bit_tree::words_for(4097), 65u + 2 + 1);
}

TEST(BitTree, IsEmptyAtFirst) {
  owned_tree const a{4097};
  EXPECT_TRUE(a.tree.empty());
  EXPECT_TRUE(a.tree.audit());
  EXPECT_EQ(a.tree.count(), 0u);
  EXPECT_EQ(a.tree.successor(0), none);
  EXPECT_EQ(a.tree.claim_range(1).count, 0u);
  EXPECT_EQ(a.tree.claim_back(1), none);
  EXPECT_EQ(a.tree.claim_range(64).count, 0u);
}

TEST(BitTree, InsertsANumberOnce) {
  owned_tree const a{200};
  EXPECT_TRUE(a.tree.insert(130));
  EXPECT_FALSE(a.tree.insert(130));
  EXPECT_EQ(a.tree.count(), 1u);
  EXPECT_TRUE(a.tree.contains(130));
}

TEST(BitTree, RefusesToClaimAnAbsentNumber) {
  owned_tree const a{200};
  a.tree.insert(130);
  EXPECT_FALSE(a.tree.claim(131));
  EXPECT_TRUE(a.tree.claim(130));
  EXPECT_FALSE(a.tree.claim(130));
  EXPECT_TRUE(a.tree.empty());
}

TEST(BitTree, SearchesFromANumberAndWrapsAround) {
  owned_tree const a{4200};
  a.tree.insert(5);
  a.tree.insert(4100);
  EXPECT_EQ(a.tree.successor(5), 5u);
  EXPECT_EQ(a.tree.successor(6), 4100u);
  EXPECT_EQ(a.tree.successor(4101), none);
  EXPECT_EQ(a.tree.successor(4200), none) << "just past the end";
  EXPECT_EQ(a.tree.successor_round(4101), 5u);
  EXPECT_EQ(a.tree.successor_round(6), 4100u);
}

TEST(BitTree, AnyReturnsEachOfItsNumbersForSomeRandomValue) {
  for (std::uint32_t const size : {64u, 200u, 4200u, 300000u}) {
    SCOPED_TRACE("size " + std::to_string(size));
    owned_tree const a{size};
    EXPECT_EQ(a.tree.random_member(0), none);
    EXPECT_EQ(a.tree.random_member(~0u), none);
    std::set<std::uint32_t> numbers;
    for (std::uint32_t i = 1; i <= 10; ++i) {
      numbers.insert(size / 10 * i - 1);
      a.tree.insert(size / 10 * i - 1);
    }
    std::set<std::uint32_t> results;
    for (std::uint32_t i = 0; i < 500; ++i) results.insert(a.tree.random_member(mix(i)));
    EXPECT_EQ(results, numbers) << "each number of the set, and no other";
    EXPECT_TRUE(a.tree.audit());
    EXPECT_EQ(a.tree.count(), 10u);
  }
}

/// A search may run between the last claim from a word and the clearing of its parent's bit.
TEST(BitTree, AnyRepairsAParentWhoseWordIsEmpty) {
  owned_tree a{4200};
  a.tree.insert(10);
  a.tree.insert(640);
  constexpr std::uint32_t leaves = 66;
  a.words[leaves] |= word{1} << 5;  // the parent's bit of numbers 320 to 383, which are absent
  std::set<std::uint32_t> results;
  for (std::uint32_t i = 0; i < 100; ++i) results.insert(a.tree.random_member(mix(i)));
  EXPECT_EQ(results, (std::set<std::uint32_t>{10, 640}));
  EXPECT_EQ(a.words[leaves], word{1} << 10 | 1);
  a.words[leaves + 2] |= 2;  // the parent's bit of the second word of the middle level
  for (std::uint32_t i = 0; i < 100; ++i)
    EXPECT_TRUE(results.contains(a.tree.random_member(mix(i))));
  EXPECT_EQ(a.words[leaves + 2], 1u);
  EXPECT_TRUE(a.tree.claim(10) && a.tree.claim(640));
  a.words[leaves] |= word{1} << 5;
  a.words[leaves + 2] |= 1;
  EXPECT_EQ(a.tree.random_member(77), none);
  EXPECT_TRUE(a.tree.empty());
}

TEST(BitTree, ClaimRangeReturnsARunThatContinuesInTheNextWord) {
  owned_tree const a{300};
  a.tree.insert_range(30, 180);
  auto const first = a.tree.claim_range(130);
  EXPECT_EQ(first.first, 30u);
  EXPECT_EQ(first.count, 130u)
      << "the end of a word, a whole word, and the beginning of a third word";
  auto const second = a.tree.claim_range(3);
  EXPECT_EQ(second.first, 160u);
  EXPECT_EQ(second.count, 3u);
  EXPECT_EQ(a.tree.claim_range(1).first, 163u);
  EXPECT_EQ(a.tree.claim_range(1000).count, 46u);
  EXPECT_TRUE(a.tree.empty());
  EXPECT_TRUE(a.tree.audit());
}

TEST(BitTree, ClaimRangeReturnsARunThatEndsWithItsWord) {
  owned_tree const a{300};
  a.tree.insert_range(60, 4);
  EXPECT_EQ(a.tree.claim_range(64).count, 4u) << "the next word is empty";
  a.tree.insert_range(0, 64);
  a.tree.insert(65);
  EXPECT_EQ(a.tree.claim_range(128).count, 64u) << "the next word begins with a gap";
  a.tree.insert_range(256, 44);
  EXPECT_EQ(a.tree.claim_range(64, 66).count, 44u) << "the tree ends";
  EXPECT_EQ(a.tree.count(), 1u);
}

TEST(BitTree, ClaimRangeSearchesFromANumberAndWrapsAround) {
  owned_tree const a{300};
  a.tree.insert_range(10, 5);
  a.tree.insert_range(200, 5);
  auto const found = a.tree.claim_range(3, 100);
  EXPECT_EQ(found.first, 200u);
  EXPECT_EQ(found.count, 3u);
  EXPECT_EQ(a.tree.claim_range(9, 204).first, 204u);
  EXPECT_EQ(a.tree.claim_range(9, 205).first, 10u) << "wraps around to the beginning";
}

TEST(BitTree, ClaimRangePrefersTheFirstRangeOfHalfOfTheMaximum) {
  owned_tree const a{800};
  for (auto const& [first, count] : {std::pair{3u, 2u}, {10u, 7u}, {70u, 8u}, {200u, 30u}})
    a.tree.insert_range(first, count);
  auto const found = a.tree.claim_range(16);
  EXPECT_EQ(found.first, 70u);
  EXPECT_EQ(found.count, 8u);
  EXPECT_EQ(a.tree.claim_range(2).first, 3u);
  EXPECT_EQ(a.tree.claim_range(1000).first, 200u) << "a range cannot be longer than a word here";
}

TEST(BitTree, ClaimRangeTakesTheLongestRangeIfNoneHasHalfOfTheMaximum) {
  owned_tree const a{800};
  for (auto const& [first, count] : {std::pair{3u, 2u}, {10u, 4u}, {70u, 4u}, {600u, 3u}})
    a.tree.insert_range(first, count);
  EXPECT_EQ(a.tree.claim_range(16).first, 10u) << "the first of two equal ranges";
  EXPECT_EQ(a.tree.claim_range(16).first, 70u);
  EXPECT_EQ(a.tree.claim_range(16).first, 3u) << "number 600 is more than eight words away";
  EXPECT_EQ(a.tree.claim_range(16).first, 600u);
  EXPECT_TRUE(a.tree.empty());
}

TEST(BitTree, ClaimBackReturnsTheHighestRun) {
  owned_tree const a{300};
  a.tree.insert_range(0, 300);
  EXPECT_TRUE(a.tree.claim(250));
  EXPECT_EQ(a.tree.claim_back(49), 251u) << "all numbers above the gap";
  EXPECT_EQ(a.tree.claim_back(50), 200u) << "below the gap";
  EXPECT_EQ(a.tree.claim_back(200), 0u) << "over several words";
  EXPECT_EQ(a.tree.claim_back(1), none);
  EXPECT_TRUE(a.tree.audit());
}

TEST(BitTree, ClaimBackReturnsNoneIfNoRunIsLongEnough) {
  owned_tree const a{300};
  a.tree.insert_range(0, 300);
  EXPECT_TRUE(a.tree.claim(150));
  EXPECT_EQ(a.tree.claim_back(151), none);
  EXPECT_EQ(a.tree.claim_back(301), none);
  EXPECT_EQ(a.tree.count(), 299u);
}

/// Where claim_range(maximum) claims.
std::uint32_t naive_start_of_range(std::set<std::uint32_t> const& numbers, std::uint32_t maximum) {
  if (numbers.empty()) return 0;
  std::uint32_t const enough = std::min((maximum + 1) / 2, 32u);
  std::uint32_t const end = (*numbers.begin() / 64 + bit_tree::words_compared) * 64;
  std::uint32_t longest = 0;
  std::uint32_t best = 0;
  std::uint32_t length = 0;  // of the range that ends with the last number, in the word
  for (auto i = numbers.begin(); i != numbers.end() && *i < end && longest < enough; ++i) {
    length = *i % 64 != 0 && numbers.contains(*i - 1) ? length + 1 : 1;
    if (length > longest) {
      longest = length;
      best = *i + 1 - length;
    }
  }
  return best;
}

/// The first of the highest `count` consecutive numbers of a set.
std::uint32_t naive_last_run(std::set<std::uint32_t> const& numbers, std::uint32_t count) {
  std::uint32_t length = 0;
  std::uint32_t last = none;
  for (auto number = numbers.rbegin(); number != numbers.rend(); ++number) {
    length = last != none && *number + 1 == last ? length + 1 : 1;
    last = *number;
    if (length == count) return last;
  }
  return none;
}

TEST(BitTree, BreadthIsTheNumberOfWordsBelowTheRootThatHaveNumbers) {
  owned_tree const large{4096};
  EXPECT_EQ(large.tree.breadth(), 0u);
  for (std::uint32_t const number : {0u, 1u, 63u, 64u, 4095u}) large.tree.insert(number);
  EXPECT_EQ(large.tree.breadth(), 3u);
  large.tree.claim(64);
  EXPECT_EQ(large.tree.breadth(), 2u);
  owned_tree const small{64};
  small.tree.insert_range(10, 5);
  EXPECT_EQ(small.tree.breadth(), 5u) << "the root has the numbers themselves";
}

class BitTreeOfSize : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(BitTreeOfSize, AgreesWithASet) {
  std::uint32_t const size = GetParam();
  std::uint64_t const seed = 7000 + size;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random{seed};
  owned_tree const a{size};
  std::set<std::uint32_t> model;
  auto const random_below = [&](std::uint32_t bound) {
    return static_cast<std::uint32_t>(random() % bound);
  };
  for (int step = 0; step < 1500 && !HasFailure(); ++step) {
    std::uint32_t const number = random_below(size);
    std::uint32_t const count = 1 + random_below(std::min(size, 1u << random_below(8)));
    switch (random_below(9)) {
      case 0:
        EXPECT_EQ(a.tree.insert(number), model.insert(number).second);
        break;
      case 1: {
        for (std::uint32_t i = number; i < std::min(size, number + count); ++i) {
          if (model.insert(i).second) a.tree.insert_range(i, 1);
        }
        break;
      }
      case 2: {
        auto const begin = model.lower_bound(number);
        if (begin != model.end() || number + count > size) break;
        a.tree.insert_range(number, count);
        for (std::uint32_t i = number; i < number + count; ++i) model.insert(i);
        break;
      }
      case 3:
        EXPECT_EQ(a.tree.claim(number), model.erase(number) == 1);
        break;
      case 4: {
        auto const expected = model.empty() ? none : *model.begin();
        EXPECT_EQ(claim_smallest(a.tree), expected);
        model.erase(expected);
        break;
      }
      case 5: {
        std::uint32_t const first = naive_start_of_range(model, count);
        std::uint32_t expected = 0;
        while (expected < count && model.contains(first + expected)) ++expected;
        auto const found = a.tree.claim_range(count);
        EXPECT_EQ(found.count, expected);
        if (expected != 0) {
          EXPECT_EQ(found.first, first);
        }
        for (std::uint32_t i = 0; i < expected; ++i) model.erase(first + i);
        break;
      }
      case 6: {
        auto const expected = naive_last_run(model, count);
        EXPECT_EQ(a.tree.claim_back(count), expected) << "of " << count;
        if (expected == none) break;
        for (std::uint32_t i = 0; i < count; ++i) model.erase(expected + i);
        break;
      }
      case 7: {
        auto const found = model.lower_bound(number);
        EXPECT_EQ(a.tree.successor(number), found == model.end() ? none : *found);
        break;
      }
      default:
        EXPECT_EQ(a.tree.contains(number), model.contains(number));
        EXPECT_EQ(a.tree.empty(), model.empty());
        EXPECT_EQ(a.tree.count(), model.size());
    }
    EXPECT_TRUE(a.tree.audit());
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, BitTreeOfSize,
                         ::testing::Values(1, 2, 63, 64, 65, 127, 128, 129, 1000, 4095, 4096, 4097,
                                           5000),
                         ::testing::PrintToStringParamName());

/// Lanes claim and insert at random, and each lane keeps its claimed numbers. Checks that no number
/// is lost or claimed twice.
class contested_tree {
 public:
  explicit contested_tree(std::uint32_t size) : owned_{size}, held_(size) {
    owned_.tree.insert_range(0, size);
  }

  void work(std::uint64_t seed, int steps) {
    std::mt19937_64 random{seed};
    std::vector<std::uint32_t> own;
    bit_tree const tree = owned_.tree;
    for (int step = 0; step < steps; ++step) {
      auto const count = static_cast<std::uint32_t>(1 + random() % 3);
      switch (random() % 5) {
        case 0:
          keep(own, claim_smallest(tree), 1);
          break;
        case 1: {
          auto const found = tree.claim_range(count);
          keep(own, found.first, found.count);
          break;
        }
        case 2:
          keep(own, tree.claim_back(count), count);
          break;
        case 3: {
          auto const seen =
              tree.successor_round(static_cast<std::uint32_t>(random() % tree.size()));
          if (seen != none && tree.claim(seen)) keep(own, seen, 1);
          break;
        }
        default:
          while (own.size() > random() % 4) return_one(own);
      }
    }
    while (!own.empty()) return_one(own);
  }

  void expect_complete() const {
    EXPECT_EQ(claimed_twice_, 0u);
    EXPECT_EQ(inserted_twice_, 0u);
    EXPECT_TRUE(owned_.tree.audit());
    EXPECT_EQ(owned_.tree.count(), owned_.tree.size());
    for (std::uint32_t number = 0; number < owned_.tree.size(); ++number) {
      ASSERT_EQ(owned_.tree.successor(number), number);
    }
  }

 private:
  /// `held_` is plain memory: a claim must happen after the insert by the lane that held the number
  /// before.
  void keep(std::vector<std::uint32_t>& own, std::uint32_t first, std::uint32_t count) {
    if (first == none) return;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (std::exchange(held_[first + i], 1) != 0) ++claimed_twice_;
      own.push_back(first + i);
    }
  }
  void return_one(std::vector<std::uint32_t>& own) {
    held_[own.back()] = 0;
    if (!owned_.tree.insert(own.back())) ++inserted_twice_;
    own.pop_back();
  }

  owned_tree owned_;
  std::vector<std::uint32_t> held_;
  std::atomic<std::uint32_t> claimed_twice_{0};
  std::atomic<std::uint32_t> inserted_twice_{0};
};

TEST(BitTree, LosesNoNumberAndReturnsNoneTwiceInFibers) {
  QUARRY_TEST_USES_FIBERS();
  for (std::uint32_t const size : {3u, 65u, 130u, 4100u}) {
    for (std::uint64_t seed = 1; seed <= 200 && !HasFailure(); ++seed) {
      SCOPED_TRACE("size " + std::to_string(size) + " seed " + std::to_string(seed));
      contested_tree contested{size};
      simt::launch_fibers({2, 3}, {.seed = seed, .switches = 96},
                          [&] { contested.work(seed * 100 + simt::this_place().rank(), 20); });
      contested.expect_complete();
    }
  }
}

TEST(BitTree, LosesNoNumberAndReturnsNoneTwiceOnThreads) {
  for (std::uint32_t const size : {3u, 65u, 4100u}) {
    SCOPED_TRACE("size " + std::to_string(size));
    contested_tree contested{size};
    simt::launch_threads({4, 1}, 4, [&] { contested.work(simt::this_place().rank(), 1500); });
    contested.expect_complete();
  }
}

}  // namespace bit_tree_test
}  // namespace quarry
