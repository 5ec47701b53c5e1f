// SPDX-License-Identifier: Apache-2.0
// The table of open requests against a list of them.
#include "mpi/open_requests.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <vector>

namespace quarry::test {
namespace open_requests_test {

/// Entries in the order in which they were added.
class naive_table {
 public:
  explicit naive_table(unsigned seed) : numbers_{seed} {}

  void add(mpi::open_requests& tested) {
    auto made = std::make_unique<mpi::open_request>();
    bool const is_further = !entries_.empty() && below(4) == 0;
    made->number = is_further ? any()->number : next_++;
    made->is_further = is_further;
    made->writes = below(2) == 0;
    made->span = random_span();
    tested.add(*made);
    entries_.push_back(std::move(made));
  }
  void remove(mpi::open_requests& tested) {
    auto const gone =
        entries_.begin() + static_cast<std::ptrdiff_t>(below(static_cast<int>(entries_.size())));
    tested.remove(**gone);
    entries_.erase(gone);
  }
  void change(mpi::open_requests& tested) { tested.set_active(*any(), below(3) != 0); }

  /// As open_requests does: by number, then in the order in which they were added.
  [[nodiscard]] std::vector<mpi::open_request*> in_order() const {
    std::vector<mpi::open_request*> result;
    for (auto const& each : entries_) result.push_back(each.get());
    std::stable_sort(result.begin(), result.end(),
                     [](auto const* a, auto const* b) { return a->number < b->number; });
    return result;
  }
  [[nodiscard]] std::size_t touching(mpi::byte_span const& asked, bool writes) const {
    return static_cast<std::size_t>(
        std::count_if(entries_.begin(), entries_.end(), [&](auto const& each) {
          return each->is_active && each->writes == writes && each->span.begin < each->span.end &&
                 each->span.begin < asked.end && asked.begin < each->span.end;
        }));
  }
  [[nodiscard]] mpi::byte_span random_span() {
    std::int64_t const begin = below(1000);
    return {begin, begin + below(10) * below(10)};  // some have no bytes
  }
  [[nodiscard]] int below(int end) { return std::uniform_int_distribution{0, end - 1}(numbers_); }
  [[nodiscard]] bool is_empty() const { return entries_.empty(); }

 private:
  [[nodiscard]] mpi::open_request* any() {
    return entries_[static_cast<std::size_t>(below(static_cast<int>(entries_.size())))].get();
  }

  std::mt19937 numbers_;
  std::vector<std::unique_ptr<mpi::open_request>> entries_;
  std::uint32_t next_ = 0;
};

/// The entries that `first_touching` offers, which are all that touch.
std::size_t offered(mpi::open_requests const& tested, mpi::byte_span const& asked, bool writes) {
  std::size_t count = 0;
  std::int64_t last = INT64_MIN;
  mpi::open_request const* const wanted = tested.first_touching(asked, writes, [&](auto& each) {
    EXPECT_TRUE(each.is_active && each.writes == writes && each.span.begin < asked.end &&
                asked.begin < each.span.end);
    EXPECT_LE(last, each.span.begin);
    last = each.span.begin;
    ++count;
    return false;
  });
  EXPECT_EQ(wanted, nullptr);
  return count;
}

TEST(OpenRequests, AreFoundByNumberAndBytesAsInAList) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    naive_table expected{seed};
    mpi::open_requests tested;
    for (int step = 0; step < 600; ++step) {
      int const chosen = expected.below(10);
      int const removals = step < 400 ? 2 : 6;  // at last they become fewer
      if (expected.is_empty() || chosen >= removals + 3)
        expected.add(tested);
      else if (chosen < removals)
        expected.remove(tested);
      else
        expected.change(tested);
      mpi::open_request* at = tested.first();
      std::vector<mpi::open_request*> const all = expected.in_order();
      for (mpi::open_request* const each : all) {
        ASSERT_EQ(at, each);
        at = mpi::open_requests::next(*at);
      }
      ASSERT_EQ(at, nullptr);
      EXPECT_EQ(tested.is_empty(), all.empty());
      for (mpi::open_request* const each : all)
        ASSERT_EQ(tested.first_of(each->number),
                  *std::find_if(all.begin(), all.end(),
                                [&](auto const* other) { return other->number == each->number; }));
      EXPECT_EQ(tested.first_of(1u << 20), nullptr);
      mpi::byte_span asked = expected.random_span();
      if (asked.begin == asked.end) ++asked.end;
      for (bool const writes : {false, true})
        ASSERT_EQ(offered(tested, asked, writes), expected.touching(asked, writes));
    }
  }
}

/// A depth of O(log n) also for entries that come in the order of numbers and addresses.
TEST(OpenRequests, LieNotDeepInATree) {
  struct node {
    std::uint32_t key;
    mpi::tree_links<node> links = {};
  };
  struct order {
    static mpi::tree_links<node>& links(node& of) { return of.links; }
    static bool is_before(node const& left, node const& right) { return left.key < right.key; }
    static std::uint32_t priority(node const& of) { return mpi::mixed_bits(of.key); }
    static void update(node const&) {}
  };
  mpi::search_tree<node, order> tree;
  std::vector<node> nodes(100'000);
  for (std::uint32_t i = 0; i < nodes.size(); ++i) {
    nodes[i].key = i;
    tree.insert(nodes[i]);
  }
  int deepest = 0;
  for (node& each : nodes) {
    int depth = 0;
    for (node* at = &each; at != nullptr; at = tree.above(*at)) ++depth;
    deepest = std::max(deepest, depth);
  }
  EXPECT_LT(deepest, 70);  // four times the least depth
}

}  // namespace open_requests_test
}  // namespace quarry::test
