// SPDX-License-Identifier: Apache-2.0
// Runs the interleavings of the OpenCL containers' own code, for two or three work-items: chains of
// a map, rings of a queue, claims of a vector, and memory that several work-items need at once. The
// memory that they need is allocated before, so the heap's own steps multiply no schedules.
#include "opencl/container_fixture.hpp"
#include "support/explore.hpp"
#include "support/fibers_allowed.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace quarry::test {
namespace opencl_containers_model_test {

using namespace opencl_fixture;

/// A container in a small heap that the explorer runs again and again from one state.
template <class Container>
class model : public fixture<Container> {
 public:
  model() : fixture<Container>{heap_bytes} {}

  void keep_as_start() {
    auto const* const words = quarry_words(this->heap);
    start_.assign(words, words + heap_bytes / sizeof(uint));
  }
  /// Runs every schedule that leaves a lane at most `preemptions` times while it could continue.
  void expect_every_schedule_holds(std::vector<std::function<void()>> const& lanes,
                                   std::uint32_t preemptions,
                                   std::function<std::string()> const& check) {
    keep_as_start();
    expect_all_schedules_hold(
        [&] {
          std::copy(start_.begin(), start_.end(), quarry_words(this->heap));
          return scenario{lanes, check};
        },
        {.preemptions = preemptions});
  }

 private:
  static constexpr bytes heap_bytes = 40_KiB;  // two spans
  std::vector<uint> start_;
};

// --- map

/// A map with one place, and what its lanes did.
class model_map : public model<quarry_map> {
 public:
  explicit model_map(uint keys) {
    make_table(*this, 1);
    bool is_new = false;
    for (uint key = 1; key <= keys; ++key)
      (void)quarry_map_ensure(heap, container, key, key, &is_new);
    keys_ = keys;
    for (auto& spare : spares_) spare = quarry_malloc(heap, sizeof(quarry_map_entry));
  }
  void erase(uint key) {
    if (quarry_map_erase(heap, container, key)) --balance_[key];
  }
  void ensure(uint key, std::size_t lane) {
    quarry_ref spare = spares_[lane];
    bool is_new = false;
    auto const entry = quarry_map_ensure_with(heap, container, key, key, &spare, &is_new);
    if (entry == 0 || quarry_map_entry_at(heap, entry)->key != key) problem_ = "a wrong entry";
    if (is_new != (spare == 0)) problem_ = "a new entry is not the spare one";
    if (is_new) ++balance_[key];
  }
  void find(uint key) {
    if (quarry_map_find(heap, container, key) == 0) problem_ = "a key that stays was not found";
  }
  void expect_every_schedule_holds(std::vector<std::function<void()>> const& lanes,
                                   std::uint32_t preemptions) {
    model::expect_every_schedule_holds(lanes, preemptions, [&] {
      auto result = check();
      balance_.clear();
      problem_.clear();
      return result;
    });
  }

 private:
  std::string check() {
    if (!problem_.empty()) return problem_;
    std::map<uint, int> wanted = balance_, found;
    for (uint key = 1; key <= keys_; ++key) ++wanted[key];
    std::erase_if(wanted, [](auto const& one) { return one.second == 0; });
    uint size = 0;
    for (auto entry = *quarry_map_bucket(heap, container, 0); entry != 0; ++size) {
      auto const* const one = quarry_map_entry_at(heap, entry);
      if (entry <= QUARRY_MAP_RETIRED || one->next != 0) return "an erased entry is in the chain";
      ++found[one->key];
      entry = one->chain;
    }
    if (found != wanted) return "the chain has not the keys that lanes added and did not erase";
    if (container->size != size) return "size is " + std::to_string(container->size);
    uint erased = 0;
    for (auto entry = container->erased; entry > QUARRY_MAP_END; ++erased) {
      auto const* const one = quarry_map_entry_at(heap, entry);
      if (one->chain != QUARRY_MAP_RETIRED)
        return "an entry in the list of erased ones is in a chain";
      entry = one->next;
    }
    return erased > 6 ? "the list of erased entries has a cycle" : "";
  }

  uint keys_;
  std::array<quarry_ref, 3> spares_;
  std::map<uint, int> balance_;  // additions less removals, of each key
  std::string problem_;
};

TEST(OpenclMapModel, NeighboursInAChainAreErasedWhileAnEntryIsAppended) {
  QUARRY_TEST_USES_FIBERS();
  model_map map{2};
  map.expect_every_schedule_holds(
      {[&] { map.erase(1); }, [&] { map.erase(2); }, [&] { map.ensure(3, 2); }}, 3);
}
TEST(OpenclMapModel, AKeyThatIsErasedAndAddedByTwoHasOneEntry) {
  QUARRY_TEST_USES_FIBERS();
  model_map map{1};
  map.expect_every_schedule_holds(
      {[&] { map.erase(1); }, [&] { map.ensure(1, 1); }, [&] { map.ensure(1, 2); }}, 4);
}
TEST(OpenclMapModel, AKeyIsErasedOnce) {
  QUARRY_TEST_USES_FIBERS();
  model_map map{2};
  map.expect_every_schedule_holds(
      {[&] { map.erase(1); }, [&] { map.erase(1); }, [&] { map.ensure(1, 2); }}, 3);
}
TEST(OpenclMapModel, AKeyBehindErasedEntriesIsFound) {
  QUARRY_TEST_USES_FIBERS();
  model_map map{3};
  map.expect_every_schedule_holds(
      {[&] { map.erase(1); }, [&] { map.erase(2); }, [&] { map.find(3); }}, 3);
}
TEST(OpenclMapModel, AnEntryThatIsErasedWhileOthersStandAtItLeadsThemBackToTheChain) {
  QUARRY_TEST_USES_FIBERS();
  model_map map{3};
  map.expect_every_schedule_holds({[&] {
                                     map.erase(2);
                                     map.erase(1);
                                   },
                                   [&] { map.ensure(2, 1); }, [&] { map.find(3); }},
                                  3);
}

// --- queue

/// A queue of two rings with two places each.
class model_queue : public model<quarry_queue> {
 public:
  explicit model_queue(uint values, uint popped = 0) {
    container->oldest = container->first = container->last = quarry_queue_make_ring(heap, 1, 0);
    auto const second = quarry_queue_make_ring(heap, 1, 0);
    quarry_queue_ring_at(heap, container->first)->next = second;
    quarry_queue_ring_at(heap, second)->next = quarry_queue_make_ring(heap, 3, 0);
    uint value = 0;
    for (uint i = 0; i < popped; ++i) {
      (void)quarry_queue_push(heap, container, 100);
      (void)quarry_queue_pop(heap, container, &value);
    }
    for (uint i = 0; i < values; ++i) (void)quarry_queue_push(heap, container, i);
    values_ = values;
  }
  /// `value`: ten times the lane, and the number of the push.
  void push(uint value) {
    if (!quarry_queue_push(heap, container, value)) problem_ = "a push failed";
    pushed_.push_back(value);
  }
  void pop() {
    uint value = 0;
    if (quarry_queue_pop(heap, container, &value))
      popped_.push_back(value);
    else if (pushed_.empty() && popped_.size() < values_)
      problem_ = "a pop missed a value";
  }
  void expect_every_schedule_holds(std::vector<std::function<void()>> const& lanes,
                                   std::uint32_t preemptions) {
    model::expect_every_schedule_holds(lanes, preemptions, [&] {
      auto result = check();
      pushed_.clear();
      popped_.clear();
      problem_.clear();
      return result;
    });
  }

 private:
  std::string check() {
    if (!problem_.empty()) return problem_;
    uint value = 0;
    std::vector<uint> left;
    while (quarry_queue_pop(heap, container, &value)) left.push_back(value);
    for (std::size_t i = 1; i < left.size(); ++i)
      if (left[i - 1] / 10 == left[i] / 10 && left[i - 1] > left[i])
        return "values of one lane are out of order";
    std::vector<uint> all = popped_, wanted = pushed_;
    all.insert(all.end(), left.begin(), left.end());
    for (uint i = 0; i < values_; ++i) wanted.push_back(i);
    std::sort(all.begin(), all.end());
    std::sort(wanted.begin(), wanted.end());
    if (all != wanted)
      return std::to_string(all.size()) + " values came out, " + std::to_string(wanted.size()) +
             " went in";
    return "";
  }

  uint values_ = 0;
  std::vector<uint> pushed_, popped_;
  std::string problem_;
};

TEST(OpenclQueueModel, PushesThatFillARingGoOnInTheNextOne) {
  QUARRY_TEST_USES_FIBERS();
  model_queue queue{0};
  queue.expect_every_schedule_holds({[&] {
                                       queue.push(10);
                                       queue.push(11);
                                     },
                                     [&] { queue.push(20); }, [&] { queue.pop(); }},
                                    3);
}
TEST(OpenclQueueModel, APlaceIsUsedAgainWhileOthersPop) {
  QUARRY_TEST_USES_FIBERS();
  for (uint const popped : {0u, 1u, 2u, 3u}) {
    model_queue queue{2, popped};
    queue.expect_every_schedule_holds({[&] {
                                         queue.pop();
                                         queue.push(10);
                                       },
                                       [&] { queue.pop(); }, [&] { queue.push(20); }},
                                      3);
  }
}
TEST(OpenclQueueModel, ARingThatIsClosedWhileAPushLooksAtItGetsNoValue) {
  QUARRY_TEST_USES_FIBERS();
  model_queue queue{2};
  queue.expect_every_schedule_holds({[&] {
                                       queue.pop();
                                       queue.push(10);
                                     },
                                     [&] {
                                       queue.pop();
                                       queue.pop();
                                     },
                                     [&] { queue.push(20); }},
                                    3);
}
TEST(OpenclQueueModel, PopsLeaveARingThatIsClosedAndEmpty) {
  QUARRY_TEST_USES_FIBERS();
  model_queue queue{3};
  queue.expect_every_schedule_holds({[&] {
                                       queue.pop();
                                       queue.pop();
                                     },
                                     [&] { queue.pop(); }, [&] { queue.push(10); }},
                                    3);
}

// --- vector

TEST(OpenclVectorModel, ClaimsNeverExceedTheSegmentsAndLeaveNoGap) {
  QUARRY_TEST_USES_FIBERS();
  for (auto const& counts :
       {std::vector<uint>{1, 1, 1}, {2, 1, 2}, {2, 3, 1}, {300, 150, 180}, {300, 300, 300}}) {
    model<quarry_vector> vector;
    uint const has = counts[0] >= 300 ? 480 : 32, start = has == 32 ? 30 : 100;
    vector.container->size = vector.container->claimed = start;
    for (uint segment = 0; segment <= quarry_segment_of(has - 1); ++segment)
      vector.container->segments[segment] = 1000 + segment;
    std::vector<std::pair<uint, uint>> got;
    uint failed = 0;
    auto const push = [&](uint count) {
      if (!quarry_vector_claim(vector.container, count)) {
        ++failed;
        return;
      }
      uint const first = quarry_add_relaxed(&vector.container->size, count);
      got.emplace_back(first, first + count);
    };
    vector.expect_every_schedule_holds(
        {[&] { push(counts[0]); }, [&] { push(counts[1]); }, [&] { push(counts[2]); }}, 4,
        [&]() -> std::string {
          std::sort(got.begin(), got.end());
          uint end = start;
          bool has_gap = false;
          for (auto const& [first, last] : got) {
            has_gap = has_gap || first != end;
            end = last;
          }
          bool const all_failed = got.empty();
          got.clear();
          failed = 0;
          if (has_gap) return "an index was given twice or to nobody";
          if (end > has) return "an element has no memory";
          if (vector.container->claimed != end) return "a push that failed kept its claim";
          return all_failed && counts[1] <= has - start ? "all failed" : "";
        });
  }
}

// --- memory that several work-items need

TEST(OpenclPublishedModel, OfTheMemoryThatLanesAllocateOnePartStaysAndTheOthersAreFreed) {
  QUARRY_TEST_USES_FIBERS();
  struct word {
    uint at;
  };
  for (bool const last_has_memory : {true, false}) {
    model<word> shared;
    std::vector<quarry_ref> fresh(3), found(3);
    for (auto& one : fresh) one = quarry_malloc(shared.heap, 100);
    std::vector<bool> has_used(3);
    auto const need = [&](std::size_t lane, bool has_memory) {
      bool is_first = false;
      found[lane] = quarry_await_published(&shared.container->at, 0, &is_first);
      if (found[lane] != 0) return;
      has_used[lane] = has_memory;
      if (has_memory && !quarry_publish(&shared.container->at, fresh[lane]))
        (void)quarry_free(shared.heap, fresh[lane]);
      found[lane] = has_memory ? quarry_published(&shared.container->at)
                               : quarry_cancel(&shared.container->at, is_first);
    };
    shared.expect_every_schedule_holds(
        {[&] { need(0, true); }, [&] { need(1, true); }, [&] { need(2, last_has_memory); }}, 2,
        [&]() -> std::string {
          quarry_ref const published = shared.container->at;
          std::string problem;
          for (std::size_t lane = 0; lane < 3; ++lane) {
            bool const is_live = quarry_is_allocated(shared.heap, fresh[lane]);
            if (is_live != (!has_used[lane] || fresh[lane] == published))
              problem = "memory that is not published was not freed";
            if (found[lane] != published && (lane < 2 || last_has_memory))
              problem = "a lane has other memory than the published one";
          }
          if (published <= QUARRY_ALLOCATING) problem = "no memory is published";
          has_used.assign(3, false);
          return problem;
        });
  }
}

}  // namespace opencl_containers_model_test
}  // namespace quarry::test
