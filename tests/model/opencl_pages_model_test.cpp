// SPDX-License-Identifier: Apache-2.0
// Runs the interleavings of the OpenCL heap's own code for pages and for the trees that searches
// read. `expect_every_schedule_holds` says what the models exclude.
#include "model/opencl_model_heap.hpp"
#include "support/fibers_allowed.hpp"

#include <memory>
#include <set>

namespace quarry::test {
namespace opencl_pages_model_test {

namespace cl = opencl_c;

/// Four spans: 64 pages, whose bits are two words.
class model_pages : public opencl_model_heap {
 public:
  model_pages() : opencl_model_heap{73_KiB} {}

  /// Claims the run as a large allocation does. Returns whether it did.
  bool claim_run(std::uint32_t first, std::uint32_t count) {
    if (cl::quarry_claim_run((*this)(), first, count) != QUARRY_NONE) return false;
    (*this)()->used_pages += count;
    cl::quarry_words((*this)())[(*this)()->large_pages + first] = count;
    own(page(first), count << (*this)()->page_shift);
    return true;
  }
  [[nodiscard]] cl::quarry_ref page(std::uint32_t index) {
    return (*this)()->first_unit + (index << (*this)()->page_shift);
  }
};

constexpr bytes bytes_per_page = 1_KiB;
std::uint32_t class_of_4_slots() { return cl::quarry_class_of(256, 10); }

TEST(OpenclPagesModel, OfRunsThatOverlapOneIsClaimed) {
  QUARRY_TEST_USES_FIBERS();
  model_pages heap;
  ASSERT_EQ(heap()->spans, 4u);
  std::array<bool, 3> claimed{};
  auto const claim = [&](std::size_t lane, std::uint32_t first, std::uint32_t count) {
    claimed[lane] = heap.claim_run(first, count);
  };
  expect_every_schedule_holds(
      heap, {[&] { claim(0, 20, 24); }, [&] { claim(1, 30, 20); }, [&] { claim(2, 40, 24); }}, 100,
      [&] { return claimed[0] || claimed[1] || claimed[2] ? "" : "no run was claimed"; });
}

/// The first lane's claim fails. Its bits and the second lane's fill the word for a moment, so the
/// second lane removes the word from the tree.
TEST(OpenclPagesModel, AClaimThatIsUndoneListsItsWordAgain) {
  QUARRY_TEST_USES_FIBERS();
  model_pages heap;
  heap.claim_run(0, 26);
  heap.claim_run(28, 2);
  heap.keep_as_start();
  expect_every_schedule_holds(heap,
                              {[&] { heap.claim_run(24, 4); }, [&] { heap.claim_run(30, 2); },
                               [&] { heap.claim_run(26, 2); }},
                              100);
}

/// The second lane's claim fails, and fills the word for a moment.
TEST(OpenclPagesModel, AFreePageIsListedThoughAClaimOfItsWordIsUndone) {
  QUARRY_TEST_USES_FIBERS();
  model_pages heap;
  heap.claim_run(0, 4);
  heap.claim_run(4, 24);
  heap.keep_as_start();
  expect_every_schedule_holds(heap,
                              {[&] { heap.free(heap.page(0)); }, [&] { heap.claim_run(26, 6); },
                               [&] { heap.claim_run(28, 4); }},
                              100);
  expect_every_schedule_holds(heap,
                              {[&] { heap.free(heap.page(0)); }, [&] { heap.claim_run(28, 8); },
                               [&] { heap.claim_run(32, 4); }},
                              100);
}

TEST(OpenclPagesModel, ALargeAllocationAndASpanShareNoPage) {
  QUARRY_TEST_USES_FIBERS();
  model_pages heap;
  heap.claim_run(0, 16);
  heap.claim_run(48, 16);
  heap.keep_as_start();
  expect_every_schedule_holds(
      heap,
      {[&] { heap.malloc(20 * bytes_per_page); }, [&] { heap.open(class_of_4_slots(), 1); },
       [&] { heap.free(heap.page(0)); }},
      3);
}

TEST(OpenclPagesModel, LargeAllocationsThatComeAndGoLoseNoPage) {
  QUARRY_TEST_USES_FIBERS();
  model_pages heap;
  heap.claim_run(0, 30);
  heap.keep_as_start();
  auto const pair = [&](bytes size) {
    if (auto const ref = heap.malloc(size); ref != 0) heap.free(ref);
  };
  expect_every_schedule_holds(
      heap,
      {[&] { pair(34 * bytes_per_page); }, [&] { pair(20 * bytes_per_page); },
       [&] { heap.free(heap.page(0)); }},
      2);
}

TEST(OpenclPagesModel, ASpanIsOpenedByOneLane) {
  QUARRY_TEST_USES_FIBERS();
  model_pages heap;
  heap.claim_run(0, 16);
  heap.claim_run(32, 32);
  heap.keep_as_start();
  auto const id = class_of_4_slots();
  expect_every_schedule_holds(
      heap,
      {[&] { heap.open(id, 1); }, [&] { heap.open(id, 1); }, [&] { heap.free(heap.page(0)); }}, 3);
}

TEST(OpenclPagesModel, TwoFreesOfALargeAllocationFreeItOnce) {
  QUARRY_TEST_USES_FIBERS();
  model_pages heap;
  heap.claim_run(20, 24);
  double_free twice{heap, heap.page(20)};
  expect_every_schedule_holds(
      heap,
      {[&] { twice.free(0); }, [&] { twice.free(1); }, [&] { heap.malloc(30 * bytes_per_page); }},
      3, [&] { return twice.problem(); });
}

/// A tree of 40,000 numbers. Its top level has two words.
class model_tree {
 public:
  model_tree() {
    shape_.count = 40'000;
    std::uint32_t count = shape_.count, next = 0;
    for (std::uint32_t level = 0; level < QUARRY_TREE_LEVELS; ++level) {
      count = (count + 31) / 32;
      shape_.first[level] = next;
      shape_.words[level] = count;
      next += count;
    }
    words_.resize(next);
  }

  void insert(std::uint32_t member) {
    members_.insert(member);
    ever_.insert(member);
    cl::quarry_tree_insert(words_.data(), &shape_, member);
  }
  void remove(std::uint32_t member) {
    members_.erase(member);
    cl::quarry_tree_remove(words_.data(), &shape_, member);
  }
  std::uint32_t next(std::uint32_t first) {
    auto const found = cl::quarry_tree_next(words_.data(), &shape_, first);
    if (found != QUARRY_NONE && (found < first || !ever_.contains(found)))
      problem_ = "a search found " + std::to_string(found);
    return found;
  }
  /// Searches when no lane does.
  [[nodiscard]] std::string check() {
    std::set<std::uint32_t> found;
    for (auto member = next(0); member != QUARRY_NONE; member = next(member + 1))
      found.insert(member);
    if (!problem_.empty()) return problem_;
    return found == members_ ? "" : "a quiet search does not find the members";
  }

 private:
  quarry::opencl_c::quarry_tree shape_{};
  std::vector<std::uint32_t> words_;
  std::set<std::uint32_t> members_, ever_;
  std::string problem_;
};

using tree_operation = void (*)(model_tree&);

void expect_every_schedule_of_trees_holds(tree_operation prepare,
                                          std::vector<tree_operation> const& lanes,
                                          std::uint32_t preemptions) {
  expect_all_schedules_hold(
      [&] {
        auto const tree = std::make_shared<model_tree>();
        prepare(*tree);
        scenario run;
        for (auto const lane : lanes) run.lanes.emplace_back([tree, lane] { lane(*tree); });
        run.check = [tree] { return tree->check(); };
        return run;
      },
      {.preemptions = preemptions});
}

/// The words above a member that was removed stay until a search repairs them.
TEST(OpenclTreeModel, AMemberIsFoundThoughSearchesRepairTheWordsAbove) {
  QUARRY_TEST_USES_FIBERS();
  auto const prepare = [](model_tree& tree) {
    tree.insert(3000);
    tree.remove(3000);
  };
  tree_operation const search = [](model_tree& tree) { tree.next(0); };
  tree_operation const insert = [](model_tree& tree) { tree.insert(3001); };
  expect_every_schedule_of_trees_holds(prepare, {insert, search}, 100);
  expect_every_schedule_of_trees_holds(prepare, {insert, search, search}, 4);
}

TEST(OpenclTreeModel, MembersUnderOneBitAreFoundThoughOneIsRemoved) {
  QUARRY_TEST_USES_FIBERS();
  expect_every_schedule_of_trees_holds(
      [](model_tree& tree) { tree.insert(3000); },
      {[](model_tree& tree) { tree.remove(3000); }, [](model_tree& tree) { tree.insert(3040); },
       [](model_tree& tree) { tree.next(0); }},
      4);
}

TEST(OpenclTreeModel, AMemberThatComesAndGoesIsFoundOrNot) {
  QUARRY_TEST_USES_FIBERS();
  expect_every_schedule_of_trees_holds(
      [](model_tree& tree) { tree.insert(39'000); },
      {[](model_tree& tree) {
         tree.remove(39'000);
         tree.insert(39'000);
       },
       [](model_tree& tree) { tree.next(0); }, [](model_tree& tree) { tree.next(38'000); }},
      3);
}

}  // namespace opencl_pages_model_test
}  // namespace quarry::test
