// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/detail/heap_handle.hpp"
#include "quarry/device/detail/run_supply.hpp"
#include "quarry/simt/lane_group.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// Waits for the tickets of a class's next run, which other lanes open.
///
/// Thousands of warps find a run used up at once. If each of them then read the words of the class
/// and of the free segments, the lane that opens the next run would wait for these reads. So a lane
/// only polls the class's ticket counters if its own ticket shows that many lanes came before it at
/// its counter. It polls two counters at a time, and seldom, because thousands of warps poll. All
/// lanes of the warp that call together wait together, in little code: when the run is open, all
/// warps execute that code at once.
///
///   label  statement                            partner  guarantee
///   (L)    selects a counter; an RMW decides             none
class ticket_wait {
 public:
  static constexpr std::uint32_t polls = 40;  // their pauses last some 70 us together
  // in attempts of simt::pause: after the first poll 6.4 us, for an opening takes longer; then 1.6
  static constexpr std::uint32_t first_pause = 6;
  static constexpr std::uint32_t pause_of_poll = 4;

  /// Whether many lanes found a counter used up before this lane, which read `counter_word` there.
  /// Then some of those lanes replace the run, or have found that other counters have tickets.
  [[nodiscard]] QUARRY_HD static bool others_replace_run(class_layout const& layout,
                                                         word counter_word, std::uint32_t index) {
    return ticket_counter::ticket_of(counter_word) >
           ticket_counter::tickets_of(layout, ticket_counter::run_of(counter_word), index) +
               lanes_that_replace_run;
  }
  static constexpr std::uint32_t lanes_that_replace_run = 64;  // of each counter

  /// Waits, for each of the lanes that call together, and claims a ticket. Returns nullptr for a
  /// lane that got no ticket: the time is over, no lane replaces the run, or `ticket`, which was
  /// not valid, is so high that the search must rewind the counter.
  QUARRY_HD static void* claim(heap_handle const& heap, size_class id, std::uint32_t ticket) {
    auto const callers = simt::lane_group::coalesced<class ticket_wait_site>();
    auto const group = callers.match(&heap.state(), id);
    void* slice = nullptr;
    simt::lane_mask waiting = callers.ballot(ticket < ticket_counter::ticket_limit);
    QUARRY_NO_UNROLL
    for (std::uint32_t poll = 0; poll < polls && waiting != 0; ++poll) {
      outcome const found =
          simt::indirect_call(&claim_once, heap, callers, waiting & group.members(), id, poll);
      if (slice == nullptr) slice = found.slice;
      waiting &= callers.ballot(!found.ends_wait);
      if (waiting == 0 || callers.ballot(found.was_too_late) != 0) continue;
      std::uint32_t const attempts = poll == 0 ? first_pause : pause_of_poll;
      simt::pause(attempts, attempts);
    }
    return slice;
  }

  /// Looks at two of the class's ticket counters, in each poll at others. Returns the index of a
  /// counter that has tickets; else `run_is_ready` if no lane replaces the run, or `none`. Only
  /// every eighth poll reads whether a lane replaces the run, in other warps in other polls. The
  /// lanes that came before may have been refused long ago.
  QUARRY_SLOW static std::uint32_t look(heap_state& state, size_class id, std::uint32_t poll) {
    class_layout const& layout = state.layouts[id];
    std::uint32_t const first = (simt::warp_hint() + poll + 1) % counters_per_class;
    std::uint32_t const second = (first + counters_per_class / 2) % counters_per_class;
    // the loads are in flight together
    word const words[] = {state.ticket_counter_at(id, first).peek(),
                          state.ticket_counter_at(id, second).peek()};
    if (has_tickets(layout, words[0], first)) return first;
    if (has_tickets(layout, words[1], second)) return second;
    bool const is_ready = asks(poll) && !class_run::is_busy(state.run(id).peek());
    return is_ready ? run_is_ready : none;
  }
  static constexpr std::uint32_t none = counters_per_class;
  static constexpr std::uint32_t run_is_ready = counters_per_class + 1;

  /// Counts ticket counter `index` as used up if `count` tickets, claimed when its word was
  /// `counter_word`, include its last one.
  QUARRY_SLOW static void count_if_last(heap_state& state, size_class id, std::uint32_t index,
                                        word counter_word, std::uint32_t count) {
    segment_run const run = ticket_counter::run_of(counter_word);
    std::uint32_t const tickets = ticket_counter::tickets_of(state.layouts[id], run, index);
    if (tickets - ticket_counter::ticket_of(counter_word) <= count)
      simt::indirect_call(&run_supply::record_used_up, state, id, run);
  }

  [[nodiscard]] QUARRY_HD static bool has_tickets(class_layout const& layout, word counter_word,
                                                  std::uint32_t index) {
    return ticket_counter::slice_of(layout, ticket_counter::run_of(counter_word), index,
                                    ticket_counter::ticket_of(counter_word))
        .is_valid;
  }

 private:
  struct outcome {
    void* slice;        // or nullptr
    bool ends_wait;     // the lane has a slice, or its class has nothing to wait for
    bool was_too_late;  // other lanes took the counter's last tickets: look at others at once
  };

  /// One poll for those lanes of `callers` that are `members`: lanes of one group.
  QUARRY_SLOW static outcome claim_once(heap_handle const& heap, simt::lane_group callers,
                                        simt::lane_mask members, size_class id,
                                        std::uint32_t poll) {
    bool const is_member = (members >> simt::lane_group::own_lane() & 1) != 0;
    std::uint32_t const rank = callers.rank_among(members);
    grant got{0, none};
    if (is_member && rank == 0)
      got = simt::indirect_call(&claim_for_group, heap.state(), id, count_ones(members), poll);
    if (callers.ballot(got.counter != none) == 0) return {nullptr, false, false};
    callers.sync();  // extends the leaders' acquire to all members
    std::uint32_t const leader = members == 0 ? callers.leader() : lowest_one(members);
    got.value = callers.broadcast(got.value, leader);
    got.counter = callers.broadcast(got.counter, leader);
    if (!is_member || got.counter >= counters_per_class)
      return {nullptr, got.counter == run_is_ready, got.counter == last_ticket_is_gone};
    class_layout const layout = heap.state().layouts[id];
    ticket_slice const found =
        ticket_counter::slice_of(layout, ticket_counter::run_of(got.value), got.counter,
                                 ticket_counter::ticket_of(got.value) + rank);
    if (!found.is_valid) return {nullptr, false, true};
    return {heap.address(found.segment, bytes{found.slice} * layout.size), true, false};
  }

  /// A counter's word before tickets were claimed, and its index; or what `look` returned, or
  /// `last_ticket_is_gone`.
  struct grant {
    word value;
    std::uint32_t counter;
  };
  static constexpr std::uint32_t last_ticket_is_gone = counters_per_class + 2;

  QUARRY_SLOW static grant claim_for_group(heap_state& state, size_class id, std::uint32_t count,
                                           std::uint32_t poll) {
    std::uint32_t const index = simt::indirect_call(&look, state, id, poll);
    if (index >= counters_per_class) return {0, index};
    word const value = state.ticket_counter_at(id, index).claim(count);
    if (!has_tickets(state.layouts[id], value, index)) return {0, last_ticket_is_gone};
    // before this lane waits for any other: another warp may wait for the end of this run
    simt::indirect_call(&count_if_last, state, id, index, value, count);
    return {value, index};
  }

  /// Whether a lane asks at this poll whether the run is being replaced. On a GPU it has looked at
  /// each counter by then, and few warps ask at once. On the CPU there are few threads, and a pause
  /// may last as long as other programs run. So there a lane asks before its first pause.
  [[nodiscard]] QUARRY_HD static bool asks(std::uint32_t poll) {
    if (!simt::is_on_gpu()) return poll == 0;
    constexpr std::uint32_t first = counters_per_class / 2, polls_of_warps = 8;
    return poll >= first &&
           poll % polls_of_warps == simt::warp_hint() / counters_per_class % polls_of_warps;
  }
};

}  // namespace quarry::inline QUARRY_ABI::detail
