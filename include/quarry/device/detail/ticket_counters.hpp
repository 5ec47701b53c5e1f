// SPDX-License-Identifier: Apache-2.0
// Allocation of fresh slices: one addition per lane group, to one of the ticket counters of its
// size class.
#pragma once

#include "quarry/device/detail/segment_table.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// Ticket counters per class. With fewer counters, additions to one counter queue up. With more
/// counters, the allocated addresses are less dense. Warps are distributed over the counters in
/// turn.
inline constexpr std::uint32_t counters_per_class = 12;

/// Consecutive segments that are formatted for one class. The class's ticket counters together
/// allocate their fresh slices.
class segment_run {
 public:
  static constexpr std::uint32_t bits = 36;
  static constexpr std::uint32_t max_segments = 1023;

  QUARRY_HD constexpr explicit segment_run(word encoded = 0) : bits_{encoded} {}

  /// The next run. `count` 0 makes an empty run.
  [[nodiscard]] QUARRY_HD constexpr segment_run next(std::uint32_t first,
                                                     std::uint32_t count) const {
    word const tag = (bits_ >> 30) + 1;
    return segment_run{(tag & 0x3f) << 30 | word{count} << 20 | first};
  }
  [[nodiscard]] QUARRY_HD constexpr std::uint32_t first() const { return bits_ & 0xfffff; }
  [[nodiscard]] QUARRY_HD constexpr std::uint32_t count() const { return bits_ >> 20 & 0x3ff; }
  [[nodiscard]] QUARRY_HD constexpr word encoded() const { return bits_; }

  /// The run's first segment and tag. Segments store them to identify their run.
  [[nodiscard]] QUARRY_HD constexpr std::uint32_t key() const {
    return static_cast<std::uint32_t>(bits_ >> 30) << 20 | first();
  }
  [[nodiscard]] QUARRY_HD static constexpr std::uint32_t first_of_key(std::uint32_t key) {
    return key & 0xfffff;
  }
  QUARRY_HD friend constexpr bool operator==(segment_run a, segment_run b) {
    return a.bits_ == b.bits_;
  }

 private:
  // first: 20, count: 10, tag: 6. The tag distinguishes a run from an earlier run of the same
  // segments. It wraps after 64 runs. Suppose that a lane took a counter's last ticket 64 runs ago,
  // and another class reclaimed the rest of that run. The lane may then count the counter as used
  // up in this run. run_supply::open_run makes that harmless.
  word bits_;
};

/// The layout of a size class for kernels. The host computes it (`make_class_layout`).
///
/// A run assigns its slices to the ticket counters in units of 2^unit_shift slices: unit u belongs
/// to counter u mod counters_per_class. A counter's ticket t is slice t mod 2^unit_shift of its
/// unit t / 2^unit_shift. So the counters are independent until the run is used up, and the
/// allocated addresses stay dense.
struct alignas(16) class_layout {
  // malloc reads these 16 bytes
  std::uint32_t size;             // of a slice, in bytes
  std::uint32_t units;            // per segment
  std::uint32_t unit_multiplier;  // divider by `units`
  std::uint8_t unit_divider_shift;
  std::uint8_t unit_shift;
  std::uint8_t run_segments;  // segments in the first run
  std::uint8_t unused_byte_;

  // each segment's entry has a copy of this member; free reads the copy
  slice_layout slice;
  std::uint64_t unused_word_;

  [[nodiscard]] QUARRY_HD divider by_units() const { return {unit_multiplier, unit_divider_shift}; }
};

/// The slice that a ticket stands for.
struct ticket_slice {
  bool is_valid;  // false: the counter's run is used up
  bool is_last;   // this ticket was the counter's last ticket
  std::uint32_t segment;
  std::uint32_t slice;
};

/// A ticket counter: its run and its next ticket, in one word, so that one addition returns both.
///
/// Problem. A lane may write to a fresh slice only after the slice's segment was claimed and
/// formatted for this class.
/// Race. A lane group whose tickets are invalid has nevertheless added to the counter, and tickets
/// wrap after 2^28.
/// Re-check. Each such group whose tickets are not below `ticket_limit`, 2^27, calls `rewind`,
/// which does not return while the counter's tickets exceed the limit. They exceed it by at most
/// the number of lanes that run at once.
/// Price. One addition for each lane group; `rewind` only for groups that search (slice_supply).
///
///   label  statement                       partner  guarantee
///   (O)    `open` stores a run, release    (T)      claim (bit_tree) and format of its segments,
///   (T)    `claim` adds tickets, acquire   (O)      and old owners' accesses, precede its use
///   (T)    `close` ends a run, acq_rel     (O)      the remaining tickets belong to the caller
///   (L)    reads or rewinds a counter               none
///
/// Between (O) and (T) a counter changes by RMWs only, which continue the release sequence of (O).
class ticket_counter {
 public:
  static constexpr std::uint32_t ticket_bits = 28;
  static constexpr std::uint32_t ticket_limit = 1u << 27;

  QUARRY_HD explicit ticket_counter(word& state) : state_{state} {}

  [[nodiscard]] QUARRY_HD static constexpr segment_run run_of(word state) {
    return segment_run{state >> ticket_bits};
  }
  [[nodiscard]] QUARRY_HD static constexpr std::uint32_t ticket_of(word state) {
    return static_cast<std::uint32_t>(state) & ((1u << ticket_bits) - 1);
  }

  [[nodiscard]] QUARRY_HD word claim(std::uint32_t count) const {
    return state_.fetch_add(count, ticket_claim_order);  // (T)
  }
  [[nodiscard]] QUARRY_HD word peek() const { return state_.load(simt::relaxed); }  // (L) a hint

  /// Opens a run, of which the caller has claimed the first `claimed` tickets. Call
  /// `simt::fence_before_stores` before the first of several calls.
  QUARRY_HD void open(segment_run run, std::uint32_t claimed = 0) const {
    state_.store(run.encoded() << ticket_bits | claimed, ticket_open_order);  // (O)
  }

  /// Ends the counter's run and returns the counter's previous word. The caller owns the remaining
  /// tickets.
  [[nodiscard]] QUARRY_HD word close(segment_run next) const {
    return state_.exchange(next.encoded() << ticket_bits, simt::acq_rel);  // (T)
  }

  /// The maximum number of segments in a run. It keeps a run's tickets far below the limit.
  [[nodiscard]] QUARRY_HD static constexpr std::uint32_t longest_run(class_layout const& layout) {
    std::uint32_t const by_tickets = ticket_limit / 4 / layout.slice.slices() * counters_per_class;
    return by_tickets < segment_run::max_segments ? by_tickets : segment_run::max_segments;
  }

  /// Resets the tickets of a used-up counter if they exceed the limit. Returns when they are within
  /// the limit. Each failed attempt means that another lane added to the counter or reset it.
  QUARRY_HD void rewind() const {
    word current = peek();
    QUARRY_NO_UNROLL
    while (ticket_of(current) >= ticket_limit) {
      word const rewound = (current >> ticket_bits << ticket_bits) | ticket_limit / 2;
      if (state_.compare_exchange(current, rewound, simt::relaxed)) return;  // (L) still used up
    }
  }

  /// The number of tickets of counter `counter` in `run`.
  [[nodiscard]] QUARRY_HD static std::uint32_t tickets_of(class_layout const& layout,
                                                          segment_run run, std::uint32_t counter) {
    std::uint32_t const units = run.count() * layout.units;
    return units <= counter ? 0
                            : ((units - counter - 1) / counters_per_class + 1) << layout.unit_shift;
  }

  /// The slice of ticket `ticket` of counter `counter` in `run`.
  [[nodiscard]] QUARRY_HD static ticket_slice slice_of(class_layout const& layout, segment_run run,
                                                       std::uint32_t counter,
                                                       std::uint32_t ticket) {
    std::uint32_t const unit_offset = ticket & ((1u << layout.unit_shift) - 1);
    std::uint32_t const unit = (ticket >> layout.unit_shift) * counters_per_class + counter;
    std::uint32_t const units = run.count() * layout.units;
    std::uint32_t const segment = layout.by_units().quotient(unit);
    bool const is_last =
        unit + counters_per_class >= units && unit_offset + 1 == 1u << layout.unit_shift;
    return {unit < units, unit < units && is_last, run.first() + segment,
            ((unit - segment * layout.units) << layout.unit_shift) + unit_offset};
  }

 private:
  simt::atomic_ref<word> state_;
};

/// A class's run, the number of its ticket counters that are used up, and whether a lane is
/// replacing the run.
///
/// The lane that takes a counter's last ticket counts that counter as used up. When all counters
/// are used up, one lane sets `busy`, opens the counters for a new run, and clears `busy`. The
/// holder of `busy` never waits. Other lanes that find it set retry for a bounded time.
///
///   label  statement                                 partner  guarantee
///   (B)    `lock` sets `busy`, acquire               (E)      the previous holder's writes
///   (E)    `unlock` clears `busy`, release           (B)      happen before the next holder's
///   (N)    compares and swaps count and run          (N)      drops a late count for an old run
///   (L)    reads a hint; (B) and (N) decide                   none
class class_run {
 public:
  static constexpr word busy_bit = 1;

  QUARRY_HD explicit class_run(word& state) : state_{state} {}

  [[nodiscard]] QUARRY_HD static constexpr segment_run run_of(word state) {
    return segment_run{state >> ticket_counter::ticket_bits};
  }
  [[nodiscard]] QUARRY_HD static constexpr bool is_busy(word state) {
    return (state & busy_bit) != 0;
  }
  [[nodiscard]] QUARRY_HD static constexpr std::uint32_t used_up(word state) {
    return state >> 1 & 0xff;
  }
  [[nodiscard]] QUARRY_HD static constexpr word encode(segment_run run, std::uint32_t used_up,
                                                       bool is_busy) {
    return run.encoded() << ticket_counter::ticket_bits | word{used_up} << 1 |
           (is_busy ? busy_bit : 0);
  }

  [[nodiscard]] QUARRY_HD word peek() const { return state_.load(simt::relaxed); }  // (L)

  /// Counts a ticket counter of `run` as used up. Returns the new word.
  QUARRY_HD word count_used_up(segment_run run) const {
    word current = peek();
    while (run_of(current) == run) {
      if (state_.compare_exchange(current, current + 2, simt::acq_rel)) return current + 2;  // (N)
    }
    return current;
  }

  /// Locks the run for replacement. Returns false if the word is not `current` or another lane
  /// holds the lock.
  [[nodiscard]] QUARRY_HD bool lock(word current) const {
    return !is_busy(current) &&
           state_.compare_exchange(current, current | busy_bit, simt::acquire);  // (B)
  }

  /// Sets the word and keeps `busy` set. Only the holder of `busy` may call it.
  QUARRY_HD void set(segment_run run, std::uint32_t used_up_count) const {
    state_.store(encode(run, used_up_count, true), simt::relaxed);  // (E) before unlock
  }

  QUARRY_HD void unlock() const { state_.fetch_and(~busy_bit, simt::release); }  // (E)

 private:
  simt::atomic_ref<word> state_;
};

}  // namespace quarry::inline QUARRY_ABI::detail
