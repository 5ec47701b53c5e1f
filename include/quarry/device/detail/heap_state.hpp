// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/detail/bit_tree.hpp"
#include "quarry/device/detail/block.hpp"
#include "quarry/device/detail/segment_table.hpp"
#include "quarry/device/detail/ticket_counters.hpp"
#include "quarry/device/fault.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// Hardened mode: the maximum number of allocations in the quarantine, and the maximum size of
/// each. Together they are at most 4 MiB.
inline constexpr std::uint32_t quarantine_entries = 1024;
inline constexpr bytes quarantine_limit = 4096;

/// The number of segments that a class has, and its peak since the heap was reset. `heap::reset`
/// uses the peak.
struct segment_count {
  std::uint32_t current;
  std::uint32_t peak;

  QUARRY_HD void add(std::uint32_t count) {
    std::uint32_t const previous =
        simt::atomic_ref{current}.fetch_add(count, simt::relaxed);  // (L) a statistic
    std::uint32_t const sum = previous + count;
    simt::atomic_ref{peak}.fetch_max(sum, simt::relaxed);  // (L)
  }
  [[nodiscard]] QUARRY_HD std::uint32_t load_peak() {
    return simt::atomic_ref{peak}.load(simt::relaxed);  // (L)
  }
  QUARRY_HD void subtract(std::uint32_t count) {
    simt::atomic_ref{current}.fetch_sub(count, simt::relaxed);  // (L)
  }
};

/// The number of free segments, and how often segments became free. Both are in one word, so that
/// one addition changes both.
///
/// Lanes claim and insert segments first and count them later. So the number may be negative
/// briefly: it is signed, in the lower half, and borrows from the upper half. The number of returns
/// wraps after 2^32.
struct free_segment_count {
  word bits;

  QUARRY_HD void add(std::int32_t difference) {
    simt::atomic_ref{bits}.fetch_add(
        static_cast<word>(std::int64_t{difference}) + (difference > 0 ? one_return : 0),
        simt::relaxed);  // (L)
  }
  /// About how many segments are free.
  [[nodiscard]] QUARRY_HD std::uint32_t count() {
    auto const current = static_cast<std::int32_t>(static_cast<std::uint32_t>(load()));
    return current < 0 ? 0 : static_cast<std::uint32_t>(current);
  }
  /// How often segments became free.
  [[nodiscard]] QUARRY_HD std::uint32_t returns() {
    return static_cast<std::uint32_t>((load() + one_return / 2) >> 32);
  }

 private:
  static constexpr word one_return = word{1} << 32;

  [[nodiscard]] QUARRY_HD word load() {
    return simt::atomic_ref{bits}.load(simt::relaxed);  // (L)
  }
};

/// The shared state of a heap, in memory that kernels can access. The host creates it; kernels
/// reach it through a `heap_ref`.
///
/// All metadata lies here or behind the pointers here, never in the region. Its parts:
///   segment_tree_words     free segments
///   segments               the use of each segment
///   runs, ticket_counters  fresh slices of each class (ticket_counters.hpp)
///   bits                   freed slices, and states of slice blocks (slice_bitmap.hpp, block.hpp)
///   advertised             a bit for each block: the block may have slices to claim
///   class_tree_words       for each class, the segments with an advertised block
///   joins                  slices that continue an allocation (joined_slices.hpp)
struct heap_state {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t segment_shift;
  std::uint64_t base;                // address of the region
  std::uint32_t segments_mapped;     // segments that have memory
  std::uint32_t max_segments;        // segments that the region can grow to
  std::uint32_t classes;             // size classes that the segment size allows
  std::uint32_t blocks_per_segment;  // slice blocks; a class may use fewer
  std::uint32_t words_per_tree;      // bit_tree::words_for(max_segments)
  std::uint32_t secret;              // determines the randomised start
  std::uint32_t canary_secret;       // differs between heaps and between resets
  word* bits;                        // of each segment: its slices' bits, then its blocks' states
  word* advertised;
  word* segment_tree_words;
  word* class_tree_words;
  word* joins;
  std::uint64_t* quarantine;
  std::uint32_t* formats;  // hardened: how often each segment was cut into slices

  // Lanes change what follows, and read what precedes. A load waits for changes of its cache line.
  alignas(128) free_segment_count free_segments;  // in the segment tree; a hint
  word returns;  // counts returns of unused segments of a class (begin_return)
  std::uint32_t quarantine_next;
  // bit c: class c may have a run whose unused slices another class can reclaim; a hint
  word classes_with_run[2];
  // bit c: the run of class c may have a segment of which no slice was allocated; a hint
  word classes_with_untouched[2];
  fault_log faults;
  // When a search of all memory found nothing for a class: `free_segments.returns()` + 1 at that
  // time; 0: never
  std::uint32_t full_since[max_size_classes];
  // How often a lane that waited long began or ended to take a segment for the class alone: odd
  // while it takes one. Wraps after 2^32, which does no harm
  std::uint32_t takes[max_size_classes];
  segment_count segment_counts[max_size_classes];
  class_layout layouts[max_size_classes];
  struct alignas(64) padded_word {
    word value;
  };
  padded_word runs[max_size_classes];
  // `ticket_counter_at` scatters the counters, because near addresses share a slice of the L2 cache
  static constexpr std::uint32_t counter_lines = 1024;
  padded_word ticket_counters[counter_lines];
  // Of each class, also those of which the heap has no slices (slice_request::exceeds_slices): the
  // class whose slices last served a request for it (0: none), and 256 times the number of searches
  // for such a class. Wraps after 2^24 searches, which does no harm
  std::uint32_t last_donors[max_size_classes];
  // as many as `max_segments`, rounded up to a power of two
  segment_entry segments[1];

  /// Records that a search of all memory found no slice of class `id`. It began when segments had
  /// become free `returns_before` times.
  QUARRY_HD void set_full(size_class id, std::uint32_t returns_before) {
    simt::atomic_ref{full_since[id]}.store(returns_before + 1, simt::relaxed);  // (L)
  }
  /// Whether class `id` is full: a search of all memory found no slice of it, and no segment was
  /// counted as free since then. Also, no slice of the class and no segment is free now. The result
  /// is a hint only. A slice or a segment that becomes free at this moment may be in no tree yet,
  /// and a large request that fails holds segments briefly without counting them.
  /// slice_supply::stays_full says what else is necessary. (The number of returns wraps after
  /// 2^32.)
  [[nodiscard]] QUARRY_HD bool is_full(size_class id) {
    std::uint32_t const since = simt::atomic_ref{full_since[id]}.load(simt::relaxed);  // (L)
    return since != 0 && since == free_segments.returns() + 1 && class_tree(id).empty() &&
           segment_tree().empty();
  }

  /// `begin_return` and `end_return` enclose the return of segments of which a class allocated no
  /// slice. Between the two calls these segments are in no tree and in no segment run.
  ///
  /// Problem. A search must not conclude that the heap is full while segments are in return.
  /// Re-check. (V) checks that the count is still that of (S), and that no return is in progress.
  /// Then the search saw all segments that were returned before it began, and no segment left a run
  /// during the search.
  ///
  ///   label  statement                            partner  guarantee
  ///   (B)    counts before all changes, acq_rel   (V)      of two RMWs of the count, the later one
  ///   (E)    counts after all changes, release    (S)      sees what the lane of the earlier one
  ///   (S)    begins a search, acquire             (E)      did; on the CPU (V) is an RMW
  ///   (V)    ends a search, after a fence         (B)
  QUARRY_HD void begin_return() {
    simt::atomic_ref{returns}.fetch_add(one_return_begun + 1, simt::acq_rel);  // (B)
  }
  QUARRY_HD void end_return() {
    simt::atomic_ref{returns}.fetch_sub(1, simt::release);  // (E)
  }

  /// Call before a search of the whole heap; pass the result to `search_saw_all` after the search.
  [[nodiscard]] QUARRY_HD word begin_search() {
    return simt::atomic_ref{returns}.load(simt::acquire);  // (S)
  }
  /// Whether no return was in progress since `begin_search` returned `previous`, so that the search
  /// could see all segments. The count of returns wraps after 2^32: a search during which exactly a
  /// multiple of 2^32 returns happen would not notice them.
  [[nodiscard]] QUARRY_HD bool search_saw_all(word previous) {
    simt::fence_after_loads();
    return static_cast<std::uint32_t>(previous) == 0 &&
           simt::atomic_ref{returns}.look(simt::acquire) == previous;  // (V)
  }

  /// The size in bytes of a state for a region of at most `max_segments` segments.
  [[nodiscard]] static constexpr std::size_t bytes_for(std::uint32_t max_segments) {
    return sizeof(heap_state) + (std::bit_ceil(max_segments) - 1) * sizeof(segment_entry);
  }

  static constexpr word one_return_begun = word{1} << 32;

  static constexpr std::uint64_t magic_alive = 0x5152524145485131;      // "1QHEARRQ"
  static constexpr std::uint64_t magic_destroyed = 0x5152524144454144;  // "DAEDARRQ"

  [[nodiscard]] QUARRY_HD bytes segment_bytes() const { return bytes{1} << segment_shift; }
  [[nodiscard]] QUARRY_HD std::uint32_t words_per_segment() const {
    return 1u << (segment_shift - 10);
  }
  /// The words of `joins` that a segment has: slices of 16 B are not joined.
  [[nodiscard]] QUARRY_HD std::uint32_t joins_per_segment() const {
    return 1u << (segment_shift - 11);
  }
  /// The distance in words between the bits of adjacent segments of 2^shift bytes: each segment has
  /// bits for its slices, then a state for each block.
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
    return {segment_tree_words, max_segments, words_per_tree};
  }
  [[nodiscard]] QUARRY_HD bit_tree class_tree(size_class id) const {
    return {class_tree_words + std::size_t{id} * words_per_tree, max_segments, words_per_tree};
  }

  [[nodiscard]] QUARRY_HD word& word_at(std::uint32_t segment, std::uint32_t index) const {
    return bits[std::size_t{segment} * stride_of_bits() + index];
  }

  [[nodiscard]] QUARRY_HD std::uint32_t blocks_of(size_class id) const {
    return (layouts[id].slice.slices() + slices_per_block - 1) / slices_per_block;
  }

  /// Block `index` of `segment` if the segment is cut into slices of class `id`.
  [[nodiscard]] QUARRY_HD block block_at(size_class id, std::uint32_t segment,
                                         std::uint32_t index) const {
    return block_in(&word_at(segment, 0), segment_shift, layouts[id].slice.slices(), index);
  }

  /// Block `index` of a segment of 2^shift bytes and `slices` slices, whose bits begin at `words`.
  [[nodiscard]] QUARRY_HD static block block_in(word* words, std::uint32_t shift,
                                                std::uint32_t slices, std::uint32_t index) {
    std::uint32_t const remaining = slices - index * slices_per_block;
    return {words + index * words_per_block, state_of_block(words, shift, index),
            remaining < slices_per_block ? remaining : slices_per_block};
  }

  /// The joins of the slices of word `index` of a segment. Requires slices of at least 32 B.
  [[nodiscard]] QUARRY_HD simt::atomic_ref<word> joins_at(std::uint32_t segment,
                                                          std::uint32_t index) const {
    return simt::atomic_ref{joins[std::size_t{segment} * joins_per_segment() + index]};
  }

  /// The states of adjacent blocks lie in different cache lines. Lanes often allocate and free
  /// slices of adjacent blocks at the same time, and atomics on one cache line queue up.
  [[nodiscard]] QUARRY_HD static word& state_of_block(word* words, std::uint32_t shift,
                                                      std::uint32_t index) {
    return words[(1u << (shift - 10)) +
                 rotated(index, shift - 14, shift - 14 < 4 ? shift - 14 : 4)];
  }
  /// The block whose state is number `place` of the states of a segment of 2^shift bytes.
  [[nodiscard]] QUARRY_HD static std::uint32_t block_with_state(std::uint32_t shift,
                                                                std::uint32_t place) {
    return rotated(place, shift - 14, shift - 14 < 4 ? 0 : shift - 18);
  }

  [[nodiscard]] QUARRY_HD simt::atomic_ref<word> advertised_at(std::uint32_t segment,
                                                               std::uint32_t index) const {
    return simt::atomic_ref{advertised[std::size_t{segment} * masks_per_segment() + index]};
  }

  /// Counter `index` of class `id`. Atomics on lines of one slice of the L2 cache queue up, and the
  /// mapping of lines to slices is not documented. So the counters lie in pseudo-random lines: an
  /// odd factor permutes the lines of a table whose size is a power of two. Rejected: rows of
  /// classes. There a shift of the table by a few lines made kernels with four to forty classes up
  /// to 40 % slower or faster (docs/design/measurement_log.md).
  [[nodiscard]] QUARRY_HD ticket_counter ticket_counter_at(size_class id, std::uint32_t index) {
    static_assert(counters_per_class * max_size_classes <= counter_lines);
    std::uint32_t const line = (index * max_size_classes + id) * 23 % counter_lines;
    return ticket_counter{ticket_counters[line].value};
  }
  [[nodiscard]] QUARRY_HD class_run run(size_class id) { return class_run{runs[id].value}; }

  /// Whether the slice was allocated in this use of its segment. Exact for a slice in use. The
  /// caller must detect a slice that is already free by its bit.
  [[nodiscard]] QUARRY_HD bool was_handed_out(size_class id, std::uint32_t segment,
                                              std::uint32_t slice) {
    class_layout const& layout = layouts[id];
    std::uint32_t const key = segments[segment].run_key();
    std::uint32_t const unit =
        (segment - segment_run::first_of_key(key)) * layout.units + (slice >> layout.unit_shift);
    std::uint32_t const ticket = (unit / counters_per_class << layout.unit_shift) +
                                 (slice & ((1u << layout.unit_shift) - 1));
    // both loads are in flight before the lane uses the result of either
    word const counter = ticket_counter_at(id, unit % counters_per_class).peek();
    bool const is_free_block = block_at(id, segment, slice / slices_per_block).peek().is_free();
    segment_run const run = ticket_counter::run_of(counter);
    // Keys repeat after 64 runs. But a later run with this key cannot contain the segment, because
    // the slice keeps the segment in use.
    bool const is_in_run = run.key() == key && segment - run.first() < run.count();
    return !is_free_block && (!is_in_run || ticket < ticket_counter::ticket_of(counter));
  }
};

}  // namespace quarry::inline QUARRY_ABI::detail
