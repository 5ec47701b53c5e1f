// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/bit_tree.hpp"
#include "quarry/device/block.hpp"
#include "quarry/device/fault.hpp"
#include "quarry/device/segment_table.hpp"
#include "quarry/device/ticket_counters.hpp"

namespace quarry::inline QUARRY_ABI {

/// Frees that are held back in hardened mode, of allocations of at most so many bytes: 4 MiB in
/// all.
inline constexpr std::uint32_t quarantine_slots = 1024;
inline constexpr bytes quarantine_limit = 4096;

/// How many segments a class has, and the most it had since the heap was reset: for `heap::reset`.
struct segment_count {
  std::uint32_t now;
  std::uint32_t maximum;

  QUARRY_HD void add(std::uint32_t count) {
    std::uint32_t const before =
        simt::atomic_ref<std::uint32_t>{now}.fetch_add(count, simt::relaxed);  // (L) a statistic
    std::uint32_t const sum = before + count;
    simt::atomic_ref<std::uint32_t>{maximum}.fetch_max(sum, simt::relaxed);  // (L)
  }
  [[nodiscard]] QUARRY_HD std::uint32_t read_most() {
    return simt::atomic_ref<std::uint32_t>{maximum}.load(simt::relaxed);  // (L)
  }
  QUARRY_HD void subtract(std::uint32_t count) {
    simt::atomic_ref<std::uint32_t>{now}.fetch_sub(count, simt::relaxed);  // (L)
  }
};

/// The shared state of a heap, in memory that kernels see. The host creates it; kernels reach it
/// through a `heap_ref`.
///
/// All metadata lies here or behind the pointers here, never in the region. What each part is for:
///   segment_tree   free segments
///   segments       what each segment is used for
///   runs, slots    fresh slices of each class (ticket_counters.hpp)
///   bits           slices that came back, and the states of blocks (slice_bitmap.hpp, block.hpp)
///   advertised     a bit for each block: may hold something to claim
///   class_trees    for each class, the segments with an advertised block
struct heap_state {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t segment_shift;
  std::uint64_t base;                // address of the region
  std::uint32_t segments_mapped;     // segments that have memory
  std::uint32_t segments_reserved;   // segments that the region can grow to
  std::uint32_t classes;             // size classes that the segment size allows
  std::uint32_t blocks_per_segment;  // entries of `blocks`, not all used by every class
  std::uint32_t free_segments;       // in the segment tree; a hint
  std::uint32_t quarantine_next;
  std::uint32_t secret;         // of the randomised start
  std::uint32_t canary_secret;  // another after each reset, and in each heap
  word returns;                 // of segments that a class had and did not hand out: see below
  word* bits;                   // of each segment: its slices' bits, then its blocks' states
  word* advertised;
  word* segment_tree_words;
  word* class_tree_words;
  std::uint64_t* quarantine;
  std::uint32_t* formats;  // hardened: how often each segment was cut into slices
  // bit c: class c has a run that another class may take memory back from
  word with_run[2];
  // bit c: nothing was handed out of some of its segments, as far as is known
  word with_untouched[2];
  fault_log faults;
  segment_count held[max_size_classes];
  class_layout layouts[max_size_classes];
  struct alignas(64) padded_word {
    word value;
  };
  padded_word runs[max_size_classes];
  // a class's slots far apart: atomics close by share an L2 slice
  padded_word slots[counters_per_class * max_size_classes];
  // as many as `segments_reserved`, rounded up to a power of two
  segment_entry segments[1];

  /// How many segments are free: a hint. Lanes count later than they claim or insert, so the number
  /// may be below zero for a moment, which is given as 0.
  [[nodiscard]] QUARRY_HD std::uint32_t count_free_segments() {
    auto const now = static_cast<std::int32_t>(
        simt::atomic_ref<std::uint32_t>{free_segments}.load(simt::relaxed));  // (L)
    return now < 0 ? 0 : static_cast<std::uint32_t>(now);
  }
  QUARRY_HD void change_free_segments(std::int32_t by) {
    simt::atomic_ref<std::uint32_t>{free_segments}.fetch_add(static_cast<std::uint32_t>(by),
                                                             simt::relaxed);  // (L)
  }

  /// Around the return of segments that a class had and did not hand out: between the two they are
  /// in no tree and no class's run.
  ///
  /// Memory order. (B) comes before all that the return does, and (E), which releases, after it. A
  /// look that read the count before, with acquire (S), and finds it the same after a fence (V),
  /// with no return under way, saw all that was back by then, and nothing left a run meanwhile. On
  /// the CPU (V) is an RMW, of which the later one of two sees what the earlier one's lane did.
  QUARRY_HD void begin_return() {
    simt::atomic_ref<word>{returns}.fetch_add(one_return_begun + 1, simt::acq_rel);  // (B)
  }
  QUARRY_HD void end_return() {
    simt::atomic_ref<word>{returns}.fetch_sub(1, simt::release);  // (E)
  }

  /// For a lane that looks for memory everywhere: what to ask `missed_none` with after that.
  [[nodiscard]] QUARRY_HD word begin_look() {
    return simt::atomic_ref<word>{returns}.load(simt::acquire);  // (S)
  }
  /// Whether no return was under way since `begin_look` gave `before`: then all was in sight. The
  /// returns that began are counted to 2^32; a lane whose look lasts for a multiple of that misses
  /// some.
  [[nodiscard]] QUARRY_HD bool missed_none(word before) {
    simt::fence_after_loads();
    return static_cast<std::uint32_t>(before) == 0 &&
           simt::atomic_ref<word>{returns}.look(simt::acquire) == before;  // (V)
  }

  /// Bytes of a state for so many segments.
  [[nodiscard]] static constexpr std::size_t bytes_for(std::uint32_t reserved) {
    return sizeof(heap_state) + (std::bit_ceil(reserved) - 1) * sizeof(segment_entry);
  }

  static constexpr word one_return_begun = word{1} << 32;

  static constexpr std::uint64_t magic_alive = 0x5152524145485131;      // "1QHEARRQ"
  static constexpr std::uint64_t magic_destroyed = 0x5152524144454144;  // "DAEDARRQ"

  [[nodiscard]] QUARRY_HD bytes segment_bytes() const { return bytes{1} << segment_shift; }
  [[nodiscard]] QUARRY_HD std::uint32_t words_per_segment() const {
    return 1u << (segment_shift - 10);
  }
  /// Words from one segment's bits to the next one's: bits, then a state for each block.
  [[nodiscard]] QUARRY_HD static constexpr std::uint32_t stride_of_bits(std::uint32_t shift) {
    return (1u << (shift - 10)) + (1u << (shift - 14));
  }
  [[nodiscard]] QUARRY_HD std::uint32_t stride_of_bits() const {
    return stride_of_bits(segment_shift);
  }
  [[nodiscard]] QUARRY_HD std::uint32_t masks_per_segment() const {
    return (blocks_per_segment + bits_per_word - 1) / bits_per_word;
  }

  [[nodiscard]] QUARRY_HD bit_tree segment_tree() const {
    return {segment_tree_words, segments_reserved};
  }
  [[nodiscard]] QUARRY_HD bit_tree class_tree(size_class id) const {
    return {class_tree_words + std::size_t{id} * bit_tree::words_for(segments_reserved),
            segments_reserved};
  }

  [[nodiscard]] QUARRY_HD word& word_at(std::uint32_t segment, std::uint32_t index) const {
    return bits[std::size_t{segment} * stride_of_bits() + index];
  }

  [[nodiscard]] QUARRY_HD std::uint32_t blocks_of(size_class id) const {
    return (layouts[id].slice.slices() + slices_per_block - 1) / slices_per_block;
  }

  /// Block `index` of `segment`, as class `id` cuts it.
  [[nodiscard]] QUARRY_HD block block_at(size_class id, std::uint32_t segment,
                                         std::uint32_t index) const {
    return block_in(&word_at(segment, 0), segment_shift, layouts[id].slice.slices(), index);
  }

  /// Block `index` of a segment of 2^shift bytes and `slices` slices, whose bits begin at `words`.
  [[nodiscard]] QUARRY_HD static block block_in(word* words, std::uint32_t shift,
                                                std::uint32_t slices, std::uint32_t index) {
    std::uint32_t const rest = slices - index * slices_per_block;
    return {words + index * words_per_block, state_of_block(words, shift, index),
            rest < slices_per_block ? rest : slices_per_block};
  }

  /// States of neighbours lie in different cache lines: slots hand out neighbours at the same time,
  /// they often come back at the same time, and atomics on one line queue up.
  [[nodiscard]] QUARRY_HD static word& state_of_block(word* words, std::uint32_t shift,
                                                      std::uint32_t index) {
    std::uint32_t const index_bits = shift - 14;
    std::uint32_t const turn = index_bits < 4 ? index_bits : 4;
    return words[(1u << (shift - 10)) +
                 ((index << turn | index >> (index_bits - turn)) & ((1u << index_bits) - 1))];
  }

  [[nodiscard]] QUARRY_HD simt::atomic_ref<word> advertised_at(std::uint32_t segment,
                                                               std::uint32_t index) const {
    return simt::atomic_ref<word>{advertised[std::size_t{segment} * masks_per_segment() + index]};
  }

  [[nodiscard]] QUARRY_HD ticket_counter slot(size_class id, std::uint32_t index) {
    return ticket_counter{slots[index * max_size_classes + id].value};
  }
  [[nodiscard]] QUARRY_HD class_run run(size_class id) { return class_run{runs[id].value}; }

  /// Whether the slice was ever handed out in this use of its segment. Exact for a slice in use;
  /// one that is back already is found by its bit.
  [[nodiscard]] QUARRY_HD bool handed_out(size_class id, std::uint32_t segment,
                                          std::uint32_t slice) {
    class_layout const& layout = layouts[id];
    std::uint32_t const key = segments[segment].run_key();
    std::uint32_t const unit =
        (segment - segment_run::first_of_key(key)) * layout.units + (slice >> layout.unit_shift);
    std::uint32_t const ticket = (unit / counters_per_class << layout.unit_shift) +
                                 (slice & ((1u << layout.unit_shift) - 1));
    // both loads are on their way before either is looked at
    word const taken = slot(id, unit % counters_per_class).peek();
    bool const free_block = block_at(id, segment, slice / slices_per_block).peek().is_free();
    segment_run const run = ticket_counter::run_of(taken);
    // Keys come round again after 64 runs; but a later run with this key cannot hold a segment that
    // the slice keeps in use.
    bool const in_run = run.key() == key && segment - run.first() < run.count();
    return !free_block && (!in_run || ticket < ticket_counter::ticket_of(taken));
  }
};

}  // namespace quarry::inline QUARRY_ABI
