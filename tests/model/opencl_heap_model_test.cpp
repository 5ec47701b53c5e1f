// SPDX-License-Identifier: Apache-2.0
// Runs the interleavings of the OpenCL heap's own code for slots and spans, in heaps of one or two
// spans. `expect_every_schedule_holds` says what the models exclude.
#include "model/opencl_model_heap.hpp"
#include "support/fibers_allowed.hpp"

namespace quarry::test {
namespace opencl_heap_model_test {

namespace cl = opencl_c;

// Sizes by the number of their slots in a span. 34 slots have two words of slot bits. The first
// word of an empty span is 0 for 32 slots and for 34 slots.
constexpr bytes size_of_4 = 4096, size_of_8 = 2048, size_of_32 = 512, size_of_34 = 480;
std::uint32_t class_of(bytes size) { return cl::quarry_class_of(cl::quarry_units_of(size), 10); }
constexpr bytes one_span = 24_KiB, two_spans = 40_KiB;

TEST(OpenclHeapModel, ClaimsAndAFreeInOneWordNeverShareASlot) {
  QUARRY_TEST_USES_FIBERS();
  opencl_model_heap heap{one_span};
  auto const id = class_of(size_of_4);
  heap.open(id, 0b0111);
  heap.keep_as_start();
  expect_every_schedule_holds(
      heap,
      {[&] { heap.claim(id, 0, 0, 0, 2); }, [&] { heap.claim(id, 0, 0, ~0u << 4 | 0b0111, 1, 3); },
       [&] { heap.free(heap.slot(id, 0, 1)); }},
      100);
}

/// Searches the listed words of a class, as a malloc does.
void search(opencl_model_heap& heap, std::uint32_t id) {
  auto const request = cl::quarry_search_of(heap(), id);
  auto const hint = cl::quarry_find_listed(heap(), &request);
  if (hint != 0) heap.claim(id, cl::quarry_span_of_hint(hint), cl::quarry_word_of_hint(hint), 0, 1);
}

TEST(OpenclHeapModel, AClaimerWithOldKnowledgeLeavesTheNextClassIntact) {
  QUARRY_TEST_USES_FIBERS();
  for (auto const& [first_size, second_size] : {std::pair{size_of_4, size_of_8},
                                                {size_of_8, size_of_4},
                                                {size_of_34, size_of_4},
                                                {size_of_4, size_of_34},
                                                {size_of_8, size_of_8}}) {
    for (std::uint32_t const count : {1u, 32u}) {
      opencl_model_heap heap{one_span};
      auto const first = class_of(first_size), second = class_of(second_size);
      heap.open(first, 0);
      heap.keep_as_start();
      expect_every_schedule_holds(heap,
                                  {[&] { heap.claim(first, 0, 0, 0, count); },
                                   [&] {
                                     if (cl::quarry_return_span(heap(), first, 0))
                                       heap.open(second, 1);
                                   },
                                   [&] { heap.claim(second, 0, 0, 0, 1); }},
                                  3);
    }
  }
}

TEST(OpenclHeapModel, AClaimBesideTheFreeOfTheLastSlotKeepsTheSpanOrGetsNothing) {
  QUARRY_TEST_USES_FIBERS();
  opencl_model_heap heap{two_spans};
  auto const id = class_of(size_of_4);
  heap.open(id, 1);
  heap.open(id, 1);
  heap.keep_as_start();
  expect_every_schedule_holds(heap,
                              {[&] { heap.free(heap.slot(id, 1, 0)); },
                               [&] { heap.claim(id, 1, 0, 1, 1); }, [&] { heap.malloc(16_KiB); }},
                              3);
}

TEST(OpenclHeapModel, OneOfTwoLanesClosesASpan) {
  QUARRY_TEST_USES_FIBERS();
  for (bytes const size : {size_of_4, size_of_34}) {
    opencl_model_heap heap{one_span};
    auto const id = class_of(size), other = class_of(size_of_8);
    heap.open(id, 0);
    heap.keep_as_start();
    std::array<bool, 2> closed{};
    auto const close = [&](std::size_t lane) {
      closed[lane] = cl::quarry_return_span(heap(), id, 0);
    };
    auto const problem = [&] { return closed[0] && closed[1] ? "both closed the span" : ""; };
    expect_every_schedule_holds(heap,
                                {[&] { close(0); }, [&] { close(1); },
                                 [&] { heap.claim(id, 0, size == size_of_34 ? 1 : 0, 0, 1); }},
                                4, problem);
    expect_every_schedule_holds(
        heap, {[&] { close(0); }, [&] { close(1); }, [&] { heap.open(other, 1); }}, 4, problem);
  }
}

TEST(OpenclHeapModel, ACloserWithOldKnowledgeLeavesTheNextClassOpen) {
  QUARRY_TEST_USES_FIBERS();
  for (auto const& [first_size, second_size] :
       {std::pair{size_of_32, size_of_34}, {size_of_34, size_of_32}, {size_of_4, size_of_8}}) {
    opencl_model_heap heap{one_span};
    auto const first = class_of(first_size), second = class_of(second_size);
    heap.open(first, 0);
    heap.keep_as_start();
    expect_every_schedule_holds(heap,
                                {[&] { (void)cl::quarry_return_span(heap(), first, 0); },
                                 [&] {
                                   if (cl::quarry_return_span(heap(), first, 0))
                                     heap.open(second, 0);
                                 },
                                 [&] { search(heap, second); }},
                                3);
  }
}

/// The closer sets the bits of the first word, and finds a slot of the second word in use.
TEST(OpenclHeapModel, ACloseThatFailsListsTheWordsAgain) {
  QUARRY_TEST_USES_FIBERS();
  opencl_model_heap heap{one_span};
  auto const id = class_of(size_of_34);
  heap.open(id, 0);
  heap.keep_as_start();
  expect_every_schedule_holds(
      heap,
      {[&] { (void)cl::quarry_return_span(heap(), id, 0); },
       [&] { heap.claim(id, 0, 1, ~0u << 2, 1); }, [&] { search(heap, id); }},
      4);
}

TEST(OpenclHeapModel, AFreeSlotIsListedThoughASearchUnlistsItsWord) {
  QUARRY_TEST_USES_FIBERS();
  for (bool const is_listed : {true, false}) {
    opencl_model_heap heap{one_span};
    auto const id = class_of(size_of_34);
    heap.open(id, ~0u);
    heap.claim(id, 0, 1, 0, 2);
    if (!is_listed) search(heap, id);
    heap.keep_as_start();
    expect_every_schedule_holds(heap,
                                {[&] { heap.free(heap.slot(id, 0, 0)); }, [&] { search(heap, id); },
                                 [&] { heap.free(heap.slot(id, 0, 33)); }},
                                3);
  }
}

TEST(OpenclHeapModel, AClaimThatIsUndoneListsTheWordAgain) {
  QUARRY_TEST_USES_FIBERS();
  opencl_model_heap heap{one_span};
  auto const old = class_of(size_of_4), id = class_of(size_of_8);
  heap.open(id, 0x3f);
  heap.keep_as_start();
  expect_every_schedule_holds(
      heap,
      {[&] { heap.claim(old, 0, 0, 0, 32); }, [&] { search(heap, id); }, [&] { search(heap, id); }},
      3);
}

/// A lane frees a slot of a full word, and others close the span and open it for another class
/// before this lane lists the word.
TEST(OpenclHeapModel, AFreeThatListsLateHidesNoSlotOfTheNextClass) {
  QUARRY_TEST_USES_FIBERS();
  opencl_model_heap heap{one_span};
  auto const first = class_of(size_of_4), second = class_of(size_of_8);
  heap.open(first, 0xf);
  heap.keep_as_start();
  expect_every_schedule_holds(heap,
                              {[&] { heap.free(heap.slot(first, 0, 0)); },
                               [&] {
                                 for (std::uint32_t i = 1; i < 4; ++i)
                                   heap.free(heap.slot(first, 0, i));
                                 (void)cl::quarry_return_span(heap(), first, 0);
                                 if (!heap.open(second, 0xff)) return;
                                 search(heap, second);
                                 heap.free(heap.slot(second, 0, 0));
                               }},
                              3);
}

/// A lane has stored the slot bits of a span that it opens, and not its summary. Meanwhile another
/// lane tries to close the span and to open it for a class with more words.
TEST(OpenclHeapModel, NoLaneClosesASpanBeforeItsOpenerIsDone) {
  QUARRY_TEST_USES_FIBERS();
  opencl_model_heap heap{one_span};
  auto const first = class_of(size_of_4), second = class_of(size_of_34);
  heap.keep_as_start();
  expect_every_schedule_holds(heap,
                              {[&] { heap.open(first, 0); },
                               [&] {
                                 if (cl::quarry_return_span(heap(), first, 0)) heap.open(second, 1);
                               }},
                              3);
}

TEST(OpenclHeapModel, AFreeThatListsLateHidesNoSlotThatAThirdLaneFrees) {
  QUARRY_TEST_USES_FIBERS();
  opencl_model_heap heap{one_span};
  auto const first = class_of(size_of_4), second = class_of(size_of_8);
  heap.open(first, 0xf);
  heap.keep_as_start();
  auto const freed = heap.slot(second, 0, 1);  // no slot of the first class
  expect_every_schedule_holds(heap,
                              {[&] { heap.free(heap.slot(first, 0, 0)); },
                               [&] {
                                 for (std::uint32_t i = 1; i < 4; ++i)
                                   heap.free(heap.slot(first, 0, i));
                                 (void)cl::quarry_return_span(heap(), first, 0);
                                 if (heap.open(second, 0xff)) search(heap, second);
                               },
                               [&] {
                                 if (heap.owns(freed)) heap.free(freed);
                                 search(heap, second);
                               }},
                              3);
}

TEST(OpenclHeapModel, ALaneThatUnlistsLateHidesNoSlotOfTheNextClass) {
  QUARRY_TEST_USES_FIBERS();
  opencl_model_heap heap{one_span};
  auto const first = class_of(size_of_4), second = class_of(size_of_8);
  heap.open(first, 0);
  heap.keep_as_start();
  expect_every_schedule_holds(
      heap,
      {[&] { cl::quarry_unlist_words(heap(), first, 0, 0, 1); },
       [&] {
         if (!cl::quarry_return_span(heap(), first, 0) || !heap.open(second, 1)) return;
         search(heap, second);
       }},
      3);
}

TEST(OpenclHeapModel, TwoFreesOfOneSlotFreeItOnce) {
  QUARRY_TEST_USES_FIBERS();
  for (bytes const size : {size_of_4, size_of_34}) {
    opencl_model_heap heap{one_span};
    auto const id = class_of(size);
    heap.open(id, size == size_of_4 ? 0b1111 : ~0u);
    double_free twice{heap, heap.slot(id, 0, 0)};
    expect_every_schedule_holds(
        heap,
        {[&] { twice.free(0); }, [&] { twice.free(1); }, [&] { heap.free(heap.slot(id, 0, 1)); }},
        4, [&] { return twice.problem(); });
  }
}

/// Both frees may succeed. The late one may clear a bit of a span that the other one closed. Until
/// the span opens again, the bit stays clear, and nothing else is wrong. No lane claims meanwhile:
/// it could get the slot of the closed span.
TEST(OpenclHeapModel, TwoFreesOfTheLastSlotLeaveAtMostABitOfAClosedSpan) {
  QUARRY_TEST_USES_FIBERS();
  for (bytes const size : {size_of_4, size_of_34}) {
    opencl_model_heap heap{two_spans};
    auto const id = class_of(size);
    heap.open(id, 1);
    heap.open(id, 1);
    double_free twice{heap, heap.slot(id, 1, 0)};
    expect_every_schedule_holds(heap, {[&] { twice.free(0); }, [&] { twice.free(1); }}, 4, [&] {
      if (*cl::quarry_span_class(heap(), 1) == 0) *cl::quarry_slot_word(heap(), 1, 0) |= 1;
      return twice.problem(true);
    });
  }
}

/// A malloc and a free of what it returned.
void allocate_and_free(opencl_model_heap& heap, bytes size) {
  if (auto const ref = heap.malloc(size); ref != 0) heap.free(ref);
}

TEST(OpenclHeapModel, MallocsAndFreesOfTwoClassesShareASpan) {
  QUARRY_TEST_USES_FIBERS();
  for (bool const claims_unread : {false, true}) {
    opencl_model_heap heap{one_span};
    heap.set_claims_unread(claims_unread);
    auto const first = heap.malloc(size_of_4), second = heap.malloc(size_of_4);
    heap.keep_as_start();
    expect_every_schedule_holds(
        heap,
        {[&] {
           heap.free(first);
           heap.free(second);
         },
         [&] { allocate_and_free(heap, size_of_4); }, [&] { allocate_and_free(heap, size_of_8); }},
        2);
  }
}

/// The second span has one slot in use. Its free returns the span, or a malloc keeps it.
TEST(OpenclHeapModel, AMallocALargeMallocAndFreesShareTwoSpans) {
  QUARRY_TEST_USES_FIBERS();
  for (bool const claims_unread : {false, true}) {
    opencl_model_heap heap{two_spans};
    heap.set_claims_unread(claims_unread);
    std::array<cl::quarry_ref, 5> full{};
    for (auto& ref : full) ref = heap.malloc(size_of_4);
    heap.keep_as_start();
    expect_every_schedule_holds(
        heap,
        {[&] {
           heap.free(full[0]);
           heap.free(full[4]);
         },
         [&] { allocate_and_free(heap, size_of_4); }, [&] { allocate_and_free(heap, 16_KiB); }},
        2);
  }
}

/// Lanes of one class open spans in an empty heap: by the hint, the ticket and the opener's mark.
TEST(OpenclHeapModel, MallocsInAnEmptyHeapLoseNoSpan) {
  QUARRY_TEST_USES_FIBERS();
  opencl_model_heap heap{two_spans};
  expect_every_schedule_holds(heap,
                              {[&] { heap.malloc(size_of_4); }, [&] { heap.malloc(size_of_4); },
                               [&] { heap.malloc(size_of_8); }},
                              2);
}

}  // namespace opencl_heap_model_test
}  // namespace quarry::test
