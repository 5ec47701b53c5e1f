// SPDX-License-Identifier: Apache-2.0
// The slow paths of small allocations: slices that came back, new runs, memory taken back from other classes.
#pragma once

#include "quarry/device/heap_state.hpp"
#include "quarry/simt/far_call.hpp"

namespace quarry {

/// Slices granted to a lane group by its leader's work.
struct slice_grant {
  enum class source : std::uint32_t { nothing, tickets, bits, contended };
  source from = source::nothing;
  std::uint32_t slot = 0;     // tickets: which slot
  word value = 0;             // tickets: the slot before; bits: which slices of the word
  std::uint32_t segment = 0;  // bits
  std::uint32_t index = 0;    // bits: of the word in its segment
};

/// Gives slices back, and finds slices, for one lane on behalf of its group. Everything here is lock-free but for the
/// replacement of a class's run, on which others wait for a bounded time only (class_run).
///
/// Memory order of the advertisement. Whoever makes a word non-zero, or a block free, then sets the block's bit in
/// `advertised` (U); whoever finds a block empty clears the bit (D) and looks at the block again (V). Both are acquire-release
/// RMWs of one word, so the argument of bit_tree holds: a hint may be wrong, but is never lost. The same holds between
/// `advertised` and the class's tree.
class slice_supply {
 public:
  /// Up to `count` slices of class `id`; `nothing` if none is to be had. A call takes from one place, so it may give fewer.
  QUARRY_SLOW static slice_grant acquire(heap_state& state, size_class id, std::uint32_t count) {
    class_run const run = state.run(id);
    bool gave_up_run = false;
    for (std::uint32_t waited = 0; waited < wait_limit;) {
      word const seen = run.peek();
      if (class_run::is_busy(seen)) {
        simt::pause();
        ++waited;
        continue;
      }
      if (class_run::used_up(seen) < state.shapes[id].slots) {
        slice_grant const grant = simt::far_call(&state, &take_tickets, state, id, count);
        if (grant.from != slice_grant::source::nothing) return grant;
        simt::pause();  // the last ticket was taken a moment ago, and is about to be counted
        ++waited;
        continue;
      }
      slice_grant const reused = simt::far_call(&state, &claim_returned, state, id, count, gave_up_run ? all_tries : few_tries);
      if (reused.from != slice_grant::source::nothing) return reused;
      if (gave_up_run) return {};
      if (state.segment_tree().empty() && !others_have_run(state, id)) {
        gave_up_run = true;
        continue;
      }
      if (run.lock(seen)) {
        bool const opened = simt::far_call(&state, &open_run, state, id);
        run.unlock();
        if (!opened && !simt::far_call(&state, &take_back_from_others, state, id)) gave_up_run = true;
      }
    }
    slice_grant contended;
    contended.from = slice_grant::source::contended;
    return contended;
  }

  /// The last ticket of one of the slots of `run` was taken.
  QUARRY_SLOW static void slot_used_up(heap_state& state, size_class id, segment_run run) {
    class_run const of_class = state.run(id);
    word const seen = of_class.count_used_up(run);
    if (class_run::run_of(seen) != run || class_run::used_up(seen) != state.shapes[id].slots) return;
    if (!state.class_tree(id).empty() || state.segment_tree().empty()) return;
    if (of_class.lock(seen)) {  // fetch ahead: others will be here in a moment
      (void)simt::far_call(&state, &open_run, state, id);
      of_class.unlock();
    }
  }

  /// Gives back `slices` of word `index`. Gives those that were back already: double frees. Requires that the others are
  /// in use, so that the segment's class `id` is stable.
  QUARRY_HD static word release(heap_state& state, size_class id, std::uint32_t segment, std::uint32_t index, word slices) {
    std::uint32_t const block_index = index / words_per_block;
    word const before = slice_word{state.word_at(segment, index)}.release(slices);
    word const twice = before & slices;
    if (twice == slices) return twice;
    bool const partial_word = ~word{0} != (before | slices);
    bool const first_hole = (before & ~state.block_at(id, segment, block_index).empty(index % words_per_block)) == 0;
    if (first_hole) simt::far_call(&state, &advertise, state, id, segment, block_index);
    if (!partial_word) simt::far_call(&state, &complete_word, state, id, segment, block_index);
    return twice;
  }

  /// Takes back what the runs of other classes have not handed out. True if a segment became free by it.
  QUARRY_SLOW static bool take_back_from_others(heap_state& state, size_class id) {
    for (std::uint32_t part = 0; part < 2; ++part) {
      word classes = simt::atomic_ref<word>{state.with_run[part]}.load(simt::relaxed);  // (L)
      for (; classes != 0; classes &= classes - 1) {
        size_class const other = part * bits_per_word + lowest_one(classes);
        if (other != id && simt::far_call(&state, &take_back, state, other) && !state.segment_tree().empty()) return true;
      }
    }
    return !state.segment_tree().empty();
  }

  /// Ends the run of class `id` and gives back what it had not handed out. False if the run was being replaced.
  QUARRY_SLOW static bool take_back(heap_state& state, size_class id) {
    class_run const of_class = state.run(id);
    word const seen = of_class.peek();
    if (!of_class.lock(seen)) return false;
    set_has_run(state, id, false);
    class_shape const& shape = state.shapes[id];
    segment_run const run = class_run::run_of(seen);
    segment_run const nothing = run.next(0, 0);
    of_class.set(nothing, shape.slots);
    std::uint32_t tickets[max_slots];
    std::uint32_t units_used = 0;  // of the whole run: none at or above this was touched
    for (std::uint32_t i = 0; i < shape.slots; ++i) {
      word const last = state.slot(id, i).close(nothing);
      tickets[i] = block_slot::run_of(last) == run ? block_slot::ticket_of(last) : ~0u;
      if (tickets[i] == 0) continue;
      std::uint32_t const touched = ((tickets[i] - 1) >> shape.unit_shift) * shape.slots + i + 1;
      if (touched > units_used) units_used = touched;
    }
    std::uint32_t const given_out = class_run::used_up(seen) == shape.slots ? run.count() : 0;  // segments to skip
    for (std::uint32_t i = given_out; i < run.count(); ++i) {
      std::uint32_t const segment = run.first() + i;
      if (i * shape.units >= units_used) {
        simt::far_call(&state, &give_back_segment, state, id, segment);
      } else {
        simt::far_call(&state, &give_back_unused, state, id, segment, i * shape.units, tickets);
      }
    }
    of_class.unlock();
    return true;
  }

 private:
  static constexpr std::uint32_t few_tries = 4;
  static constexpr std::uint32_t all_tries = 1u << 20;
  static constexpr std::uint32_t wait_limit = 1u << 20;

  /// Tickets of any slot that has some, from this processor's on.
  QUARRY_SLOW static slice_grant take_tickets(heap_state& state, size_class id, std::uint32_t count) {
    class_shape const& shape = state.shapes[id];
    std::uint32_t const home = shape.slot_of(simt::processor());
    for (std::uint32_t i = 0; i < shape.slots; ++i) {
      std::uint32_t const index = home + i < shape.slots ? home + i : home + i - shape.slots;
      block_slot const slot = state.slot(id, index);
      word const seen = slot.peek();
      if (!block_slot::place_of(shape, block_slot::run_of(seen), index, block_slot::ticket_of(seen)).valid) {
        slot.rewind(seen);
        continue;
      }
      word const taken = slot.take(count);
      if (block_slot::place_of(shape, block_slot::run_of(taken), index, block_slot::ticket_of(taken)).valid) {
        slice_grant grant;
        grant.from = slice_grant::source::tickets;
        grant.slot = index;
        grant.value = taken;
        return grant;
      }
    }
    return {};
  }

  /// Slices that came back, looking at no more than `tries` blocks that hold none.
  QUARRY_SLOW static slice_grant claim_returned(heap_state& state, size_class id, std::uint32_t count, std::uint32_t tries) {
    bit_tree const tree = state.class_tree(id);
    if (tree.empty()) return {};
    auto const here = simt::this_place();
    std::uint32_t const random = mix(static_cast<std::uint32_t>(here.rank() / simt::warp_size) + here.thread % simt::warp_size);
    std::uint32_t from = random % tree.size();
    for (std::uint32_t failed = 0; failed < tries;) {
      std::uint32_t const segment = tree.successor_round(from);
      if (segment == bit_tree::none) return {};
      slice_grant const grant = simt::far_call(&state, &claim_in_segment, state, id, segment, count, random, tries - failed, failed);
      if (grant.from != slice_grant::source::nothing) return grant;
      ++failed;
      from = segment + 1 < tree.size() ? segment + 1 : 0;
    }
    return {};
  }

  QUARRY_SLOW static slice_grant claim_in_segment(heap_state& state, size_class id, std::uint32_t segment, std::uint32_t count,
                                                       std::uint32_t random, std::uint32_t tries, std::uint32_t& failed) {
    segment_use const use = state.segments[segment].load();
    if (use.is_slices() && use.slices_class() == id) {
      for (std::uint32_t i = 0; i < state.masks_per_segment(); ++i) {
        std::uint32_t const mask = (random + i) % state.masks_per_segment();
        for (std::uint32_t n = 0; n < tries; ++n) {
          std::uint32_t const bit = one_from(state.advertised_at(segment, mask).load(simt::relaxed), random >> 26);  // (L)
          if (bit == bits_per_word) break;
          std::uint32_t const block_index = mask * bits_per_word + bit;
          slice_grant const grant = simt::far_call(&state, &claim_in_block, state, id, use, segment, block_index, count, random >> 16);
          if (grant.from != slice_grant::source::nothing) return grant;
          ++failed;
          simt::far_call(&state, &withdraw, state, segment, block_index);
        }
      }
    }
    simt::far_call(&state, &withdraw_segment, state, id, segment);
    return {};
  }

  QUARRY_SLOW static slice_grant claim_in_block(heap_state& state, size_class id, segment_use use, std::uint32_t segment,
                                                     std::uint32_t block_index, std::uint32_t count, std::uint32_t random) {
    block const from = state.block_at(id, segment, block_index);
    slice_grant grant;
    grant.segment = segment;
    if (from.is_free()) {
      if (!state.segments[segment].reserve_free_block()) return {};
      if (!(state.segments[segment].load() == use)) {  // reserved in a later use of the segment: stable now, not ours
        simt::far_call(&state, &add_free_block, state, state.segments[segment].load().slices_class(), segment);
        return {};
      }
      grant.value = from.revive(count);
      if (grant.value == 0) {
        simt::far_call(&state, &add_free_block, state, id, segment);
        return {};
      }
      grant.index = block_index * words_per_block;
      grant.from = slice_grant::source::bits;
      simt::far_call(&state, &advertise, state, id, segment, block_index);
      return grant;
    }
    std::uint32_t const words = from.words();
    for (std::uint32_t i = 0; i < words; ++i) {
      std::uint32_t const index = (random + i) % words;
      word seen = from.at(index).peek();
      while ((seen & ~from.empty(index)) != 0) {
        bool const whole = seen == ~word{0};
        if (whole && !from.reserve_word()) break;
        word const wanted = lowest_ones(seen & ~from.empty(index), count);
        if (from.at(index).claim(seen, wanted)) {
          if (!(state.segments[segment].load() == use)) {  // claimed in a later use of the segment: stable now, not ours
            release(state, state.segments[segment].load().slices_class(), segment, block_index * words_per_block + index, wanted);
            return {};
          }
          grant.value = wanted;
          grant.index = block_index * words_per_block + index;
          grant.from = slice_grant::source::bits;
          return grant;
        }
        if (whole) simt::far_call(&state, &complete_word, state, state.segments[segment].load().slices_class(), segment, block_index);
      }
    }
    return {};
  }

  QUARRY_SLOW static void complete_word(heap_state& state, size_class id, std::uint32_t segment, std::uint32_t block_index) {
    if (!state.block_at(id, segment, block_index).complete_word()) return;
    simt::far_call(&state, &advertise, state, id, segment, block_index);
    simt::far_call(&state, &add_free_block, state, id, segment);
  }

  QUARRY_SLOW static void add_free_block(heap_state& state, size_class id, std::uint32_t segment) {
    if (state.segments[segment].add_free_block(state.blocks_of(id))) simt::far_call(&state, &give_back_segment, state, id, segment);
  }

  /// Requires that no slice of the segment is out and that nobody can hand one out.
  QUARRY_SLOW static void give_back_segment(heap_state& state, size_class id, std::uint32_t segment) {
    segment_entry& entry = state.segments[segment];
    entry.store(entry.load().next_free());
    for (std::uint32_t i = 0; i < state.masks_per_segment(); ++i) {
      state.advertised_at(segment, i).exchange(0, simt::acq_rel);  // (D) a late (U) sees the use just stored
    }
    std::uint32_t const count = state.blocks_of(id);
    for (std::uint32_t i = 0; i < count; ++i) {
      simt::atomic_ref<std::uint32_t>{state.blocks[std::size_t{segment} * state.blocks_per_segment + i]}.store(0, simt::relaxed);  // (E)
    }
    slice_word{state.word_at(segment, (state.shapes[id].slices - 1) / bits_per_word)}.reset(0);
    simt::atomic_ref<std::uint32_t>{entry.free_blocks}.store(0, simt::relaxed);  // (E) the tree's insert publishes all of it
    state.class_tree(id).claim(segment);
    state.segment_tree().insert(segment);
  }

  /// Gives back those slices of `segment` whose tickets were not taken.
  QUARRY_SLOW static void give_back_unused(heap_state& state, size_class id, std::uint32_t segment, std::uint32_t first_unit, std::uint32_t const* tickets) {
    class_shape const& shape = state.shapes[id];
    std::uint32_t const unit_slices = 1u << shape.unit_shift;
    for (std::uint32_t i = 0; i < shape.units; ++i) {
      std::uint32_t const unit = first_unit + i;
      std::uint32_t const begin_ticket = unit / shape.slots << shape.unit_shift;
      std::uint32_t const next = tickets[unit % shape.slots];
      if (next >= begin_ticket + unit_slices) continue;
      std::uint32_t const used = next > begin_ticket ? next - begin_ticket : 0;
      give_back_slices(state, id, segment, (i << shape.unit_shift) + used, (i + 1) << shape.unit_shift);
    }
  }

  QUARRY_HD static void give_back_slices(heap_state& state, size_class id, std::uint32_t segment, std::uint32_t begin, std::uint32_t end) {
    while (begin < end) {
      if (begin % slices_per_block == 0 && end - begin >= slices_per_block) {
        std::uint32_t const block_index = begin / slices_per_block;
        state.block_at(id, segment, block_index).retire_unused();
        simt::far_call(&state, &advertise, state, id, segment, block_index);
        simt::far_call(&state, &add_free_block, state, id, segment);
        begin += slices_per_block;
        continue;
      }
      std::uint32_t const bit = begin % bits_per_word;
      std::uint32_t const here = end - begin < bits_per_word - bit ? end - begin : bits_per_word - bit;
      release(state, id, segment, begin / bits_per_word, low_bits(here) << bit);
      begin += here;
    }
  }

  /// Claims segments, formats them for class `id` and opens its slots on them. Requires the class's lock.
  QUARRY_SLOW static bool open_run(heap_state& state, size_class id) {
    class_shape const& shape = state.shapes[id];
    bit_tree::run const found = state.segment_tree().claim_front(shape.run_segments);
    if (found.count == 0) return false;
    std::uint32_t const last_word = (shape.slices - 1) / bits_per_word;
    for (std::uint32_t i = 0; i < found.count; ++i) {
      segment_entry& entry = state.segments[found.first + i];
      entry.store(entry.load().next_slices(id));
      slice_word{state.word_at(found.first + i, last_word)}.reset(~low_bits(shape.slices - last_word * bits_per_word));
    }
    class_run const of_class = state.run(id);
    segment_run const run = class_run::run_of(of_class.peek()).next(found.first, found.count);
    of_class.set(run, 0);
    for (std::uint32_t i = 0; i < shape.slots; ++i) state.slot(id, i).open(run);
    set_has_run(state, id, true);
    return true;
  }

  QUARRY_HD static void set_has_run(heap_state& state, size_class id, bool has) {
    simt::atomic_ref<word> classes{state.with_run[id / bits_per_word]};
    word const bit = word{1} << id % bits_per_word;
    if (has) {
      classes.fetch_or(bit, simt::relaxed);  // (L) a hint; the class's lock decides
    } else {
      classes.fetch_and(~bit, simt::relaxed);  // (L)
    }
  }

  [[nodiscard]] QUARRY_HD static bool others_have_run(heap_state& state, size_class id) {
    word found = 0;
    for (std::uint32_t part = 0; part < 2; ++part) {
      word classes = simt::atomic_ref<word>{state.with_run[part]}.load(simt::relaxed);  // (L)
      if (id / bits_per_word == part) classes &= ~(word{1} << id % bits_per_word);
      found |= classes;
    }
    return found != 0;
  }

  /// Says that the block may hold something to claim.
  QUARRY_SLOW static void advertise(heap_state& state, size_class id, std::uint32_t segment, std::uint32_t block_index) {
    word const bit = word{1} << block_index % bits_per_word;
    word const before = state.advertised_at(segment, block_index / bits_per_word).fetch_or(bit, simt::acq_rel);  // (U)
    if (before != 0) return;
    state.class_tree(id).insert(segment);
    segment_use const use = state.segments[segment].load();
    if (use.is_slices() && use.slices_class() == id) return;
    // The caller's slices came back, and with them the whole segment, before it got here: a later use of the segment must
    // not find a bit set of which its own class tree knows nothing.
    if (simt::far_call(&state, &withdraw, state, segment, block_index) == 0) return;
    segment_use const now = state.segments[segment].load();
    if (now.is_slices()) state.class_tree(now.slices_class()).insert(segment);
  }

  /// The block was found to hold nothing: says so, and looks again. Gives the other blocks' bits.
  QUARRY_SLOW static word withdraw(heap_state& state, std::uint32_t segment, std::uint32_t block_index) {
    word const bit = word{1} << block_index % bits_per_word;
    word const before = state.advertised_at(segment, block_index / bits_per_word).fetch_and(~bit, simt::acq_rel);  // (D)
    segment_use const use = state.segments[segment].load();
    if (use.is_slices() && block_index < state.blocks_of(use.slices_class()) &&
        state.block_at(use.slices_class(), segment, block_index).has_something()) {  // (V)
      simt::far_call(&state, &advertise, state, use.slices_class(), segment, block_index);
    }
    return before & ~bit;
  }

  /// None of the segment's blocks was found to hold anything for this class.
  QUARRY_SLOW static void withdraw_segment(heap_state& state, size_class id, std::uint32_t segment) {
    bit_tree const tree = state.class_tree(id);
    tree.claim(segment);  // (D)
    segment_use const use = state.segments[segment].load();
    if (!use.is_slices() || use.slices_class() != id) return;
    for (std::uint32_t i = 0; i < state.masks_per_segment(); ++i) {
      if (state.advertised_at(segment, i).load(simt::acquire) != 0) {  // (V)
        tree.insert(segment);
        return;
      }
    }
  }

};

}  // namespace quarry
