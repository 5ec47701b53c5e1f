// SPDX-License-Identifier: Apache-2.0
// Runs every interleaving of a few operations of a bit tree with two and three levels.
#include "support/explore.hpp"
#include "support/fibers_allowed.hpp"

#include "quarry/device/detail/bit_tree.hpp"

#include <gtest/gtest.h>

#include <initializer_list>
#include <map>
#include <memory>
#include <vector>

namespace quarry::test {

using namespace detail;
namespace bit_tree_model_test {

constexpr std::uint32_t two_levels = 130;
constexpr std::uint32_t three_levels = 4096 + 130;

/// A tree, and the number of times that it should contain each number according to the operations'
/// results.
class watched_tree {
 public:
  watched_tree(std::uint32_t size, std::initializer_list<std::uint32_t> numbers)
      : words_(bit_tree::words_for(size)), tree_{words_.data(), size} {
    for (std::uint32_t const number : numbers) insert(number);
  }

  void insert(std::uint32_t number) {
    ++expected_[number];  // first: another lane may claim the number before `insert` returns
    if (!tree_.insert(number)) problem_ = "insert reports that an absent number is present";
  }
  void claim(std::uint32_t number) {
    if (tree_.claim(number)) record_claim(number, 1);
  }
  void claim_first() {
    auto const found = tree_.claim_range(1);
    if (found.count != 0) record_claim(found.first, 1);
  }
  void claim_range(std::uint32_t maximum) {
    auto const found = tree_.claim_range(maximum);
    if (found.count > maximum) problem_ = "claim_range claimed more than `maximum` numbers";
    record_claim(found.first, found.count);
  }
  void claim_back(std::uint32_t count) {
    auto const first = tree_.claim_back(count);
    if (first != bit_tree::none) record_claim(first, count);
  }
  void successor(std::uint32_t start) {
    auto const found = tree_.successor(start);
    if (found != bit_tree::none && (found < start || !expected_.contains(found))) {
      problem_ = "successor returned a number that was never inserted";
    }
  }

  [[nodiscard]] bit_tree const& tree() const { return tree_; }

  /// The first problem when no operation runs; empty if there is none.
  [[nodiscard]] std::string check() const {
    if (!problem_.empty()) return problem_;
    if (!tree_.audit()) return "audit() fails";
    std::uint32_t expected = 0;
    for (auto const& [number, times] : expected_) {
      if (times != (tree_.contains(number) ? 1 : 0)) {
        return "number " + std::to_string(number) + " was " + (times > 0 ? "lost" : "not removed");
      }
      expected += static_cast<std::uint32_t>(times);
    }
    if (tree_.count() != expected) return "the tree contains a number that was never inserted";
    std::uint32_t reached = 0;
    for (auto number = tree_.successor(0); number != bit_tree::none;
         number = tree_.successor(number + 1))
      ++reached;
    return reached == expected ? "" : "a search from the root does not reach every number";
  }

 private:
  void record_claim(std::uint32_t first, std::uint32_t count) {
    for (std::uint32_t number = first; number < first + count; ++number) {
      if (--expected_[number] < 0)
        problem_ = "number " + std::to_string(number) + " was claimed twice";
    }
  }

  std::vector<word> words_;
  bit_tree tree_;
  std::map<std::uint32_t, int> expected_;
  std::string problem_;
};

using operation = void (*)(watched_tree&);

void expect_all_interleavings_hold(std::uint32_t size, std::initializer_list<std::uint32_t> numbers,
                                   std::vector<operation> const& operations,
                                   std::uint32_t preemptions) {
  expect_all_schedules_hold(
      [&] {
        auto const observed = std::make_shared<watched_tree>(size, numbers);
        scenario run;
        for (operation const function : operations)
          run.lanes.emplace_back([observed, function] { function(*observed); });
        run.check = [observed] { return observed->check(); };
        return run;
      },
      {.preemptions = preemptions});
}

TEST(BitTreeModel, AnInsertIntoAWordThatAClaimEmptiesIsVisible) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(
      two_levels, {70},
      {[](watched_tree& tree) { tree.claim(70); }, [](watched_tree& tree) { tree.insert(71); }},
      100);
}

TEST(BitTreeModel, AnInsertIntoAWordThatAClaimEmptiesIsVisibleThroughThreeLevels) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(
      three_levels, {4100},
      {[](watched_tree& tree) { tree.claim(4100); }, [](watched_tree& tree) { tree.insert(4101); }},
      100);
  expect_all_interleavings_hold(
      three_levels, {4100},
      {[](watched_tree& tree) { tree.claim(4100); }, [](watched_tree& tree) { tree.insert(4200); }},
      100);
}

TEST(BitTreeModel, TwoClaimsAndAnInsertInOneWordLoseNoNumber) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(
      two_levels, {70, 71},
      {[](watched_tree& tree) { tree.claim(70); }, [](watched_tree& tree) { tree.claim(71); },
       [](watched_tree& tree) { tree.insert(72); }},
      4);
}

TEST(BitTreeModel, OneOfThreeClaimersGetsANumber) {
  QUARRY_TEST_USES_FIBERS();
  operation const claim = [](watched_tree& tree) { tree.claim_first(); };
  expect_all_interleavings_hold(two_levels, {100}, {claim, claim, claim}, 3);
}

TEST(BitTreeModel, ASearchThatRepairsAParentDoesNotHideAnInsert) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(
      two_levels, {70},
      {[](watched_tree& tree) {
         tree.claim(70);
         tree.insert(70);
       },
       [](watched_tree& tree) { tree.successor(0); }, [](watched_tree& tree) { tree.insert(129); }},
      3);
}

TEST(BitTreeModel, ClaimsAndAnInsertUnderOneParentLoseNoNumber) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(three_levels, {10, 4100},
                                {[](watched_tree& tree) {
                                   tree.claim(4100);
                                   tree.insert(4170);
                                 },
                                 [](watched_tree& tree) { tree.claim_first(); },
                                 [](watched_tree& tree) { tree.claim_first(); }},
                                3);
}

TEST(BitTreeModel, ClaimsFromTheFrontGetDisjointRuns) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(
      two_levels, {62, 63, 64, 65},
      {[](watched_tree& tree) { tree.claim_range(2); },
       [](watched_tree& tree) { tree.claim_range(3); }, [](watched_tree& tree) { tree.claim(63); }},
      3);
}

TEST(BitTreeModel, AClaimFromTheFrontEndsBeforeAWordThatAnotherLaneClaimed) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(
      three_levels, {63, 64, 65},
      {[](watched_tree& tree) { tree.claim_range(3); },
       [](watched_tree& tree) { tree.claim_back(2); }, [](watched_tree& tree) { tree.insert(66); }},
      3);
}

TEST(BitTreeModel, ClaimsFromTheBackAcrossWordsGetAllOrNothing) {
  QUARRY_TEST_USES_FIBERS();
  operation const claim_two = [](watched_tree& tree) { tree.claim_back(2); };
  expect_all_interleavings_hold(two_levels, {62, 63, 64},
                                {claim_two, claim_two, [](watched_tree& tree) { tree.claim(64); }},
                                3);
}

TEST(BitTreeModel, AClaimFromTheBackReturnsARunThatItCannotComplete) {
  QUARRY_TEST_USES_FIBERS();
  expect_all_interleavings_hold(three_levels, {127, 128, 129},
                                {[](watched_tree& tree) { tree.claim_back(3); },
                                 [](watched_tree& tree) { tree.claim_first(); },
                                 [](watched_tree& tree) { tree.insert(126); }},
                                3);
}

}  // namespace bit_tree_model_test
}  // namespace quarry::test
