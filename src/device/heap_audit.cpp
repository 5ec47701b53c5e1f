// SPDX-License-Identifier: Apache-2.0
// Inspects a heap while no kernel uses it: statistics, allocations that are not freed, and whether
// every invariant holds.
#include "heap_implementation.hpp"

#include "quarry/device/detail/joined_slices.hpp"

#include <algorithm>
#include <functional>

namespace quarry::inline QUARRY_ABI {

using namespace detail;
namespace {

/// An allocation of one or more slices, by its offset in the region.
struct live_slices {
  std::uint64_t offset;
  bytes size;
  std::uint32_t segment;
  std::uint32_t count;  // of slices
};

/// Calls `visit(live_slices)` for each allocation of slices.
void for_each_live_slice(heap_state& state, std::function<void(live_slices)> const& visit) {
  for (std::uint32_t segment = 0; segment < state.segments_mapped; ++segment) {
    segment_use const use = state.segments[segment].load();
    if (!use.is_slices()) continue;
    size_class const id = use.slices_class();
    for (std::uint32_t slice = 0; slice < state.layouts[id].slice.slices(); ++slice) {
      bool const is_free =
          (state.word_at(segment, slice / bits_per_word) >> slice % bits_per_word & 1) != 0;
      if (is_free || !state.was_handed_out(id, segment, slice)) continue;
      std::uint32_t const count = joined_slices::count_at(state, id, segment, slice);
      if (count == 0) continue;  // the slice continues another allocation
      std::uint32_t const unused = count > 1 ? joined_slices::offset : 0;
      bytes const size = state.layouts[id].size;
      visit({(std::uint64_t{segment} << state.segment_shift) + slice * size + unused,
             count * size - unused, segment, count});
    }
  }
}

/// Whether the quarantine contains the allocation at `address`. Such an allocation counts as freed.
bool is_quarantined(heap_state const& state, std::uint64_t address) {
  if constexpr (!is_on(mitigation::quarantine)) return false;
  return std::find(state.quarantine, state.quarantine + quarantine_entries, address) !=
         state.quarantine + quarantine_entries;
}

class auditor {
 public:
  explicit auditor(heap_state& state) : state_{state} {}

  std::vector<std::string> run() {
    expect(state_.segment_tree().audit(),
           "the segment tree's upper levels do not cover its leaves");
    for (size_class id = 0; id < state_.classes; ++id) {
      expect(state_.class_tree(id).audit(),
             "a class tree's upper levels do not cover its leaves, class", id);
      expect(!class_run::is_busy(state_.runs[id].value), "a class's run is locked, class", id);
      check_counters(id);
    }
    for (std::uint32_t segment = 0; segment < state_.max_segments; ++segment)
      check_segment(segment);
    return std::move(problems_);
  }

 private:
  /// Checks that all ticket counters of a class have its run, that the run's segments belong to the
  /// class, and that the count of used-up counters is right.
  void check_counters(size_class id) {
    segment_run const run = class_run::run_of(state_.runs[id].value);
    std::uint32_t used_up = 0;
    for (std::uint32_t i = 0; i < counters_per_class; ++i) {
      word const counter = state_.ticket_counter_at(id, i).peek();
      expect(ticket_counter::run_of(counter) == run,
             "a ticket counter has another run than its class, class", id);
      expect(ticket_counter::ticket_of(counter) < ticket_counter::ticket_limit + (1u << 20),
             "a ticket counter's tickets were not rewound, class", id);
      bool const has_tickets = ticket_counter::ticket_of(counter) <
                               ticket_counter::tickets_of(state_.layouts[id], run, i);
      if (!has_tickets) ++used_up;
    }
    expect(used_up == class_run::used_up(state_.runs[id].value),
           "a class's count of used-up ticket counters is wrong, class", id);
    for (std::uint32_t i = 0; i < run.count(); ++i) {
      segment_use const use = state_.segments[run.first() + i].load();
      expect(!is_dealt_from(id, i) ||
                 (use.is_slices_of(id) && state_.segments[run.first() + i].run_key() == run.key()),
             "a run allocates from a segment that is not its own, segment", run.first() + i);
    }
  }

  /// Whether the ticket counters of class `id` have tickets for segment `index` of the class's run.
  [[nodiscard]] bool is_dealt_from(size_class id, std::uint32_t index) {
    class_layout const& layout = state_.layouts[id];
    for (std::uint32_t unit = index * layout.units; unit < (index + 1) * layout.units; ++unit) {
      std::uint32_t const next =
          ticket_counter::ticket_of(state_.ticket_counter_at(id, unit % counters_per_class).peek());
      if (next < (unit / counters_per_class + 1) << layout.unit_shift) return true;
    }
    return false;
  }

  void check_segment(std::uint32_t segment) {
    segment_use const use = state_.segments[segment].load();
    bool const is_claimable = state_.segment_tree().contains(segment);
    expect(is_claimable == (use.is_free() && segment < state_.segments_mapped),
           "the segment tree and the segment's use disagree, segment", segment);
    auto const idle = state_.segments[segment].load_idle_state();
    for (std::uint32_t i = 0; i < state_.blocks_per_segment && idle.knows(i + 1); ++i)
      expect(state_.block_at(0, segment, i).generation() == idle.generation(),
             "a block has another generation than its segment, segment", segment);
    if (use.is_slices()) {
      check_blocks(segment, use.slices_class());
      return;
    }
    bool is_clean = true;
    for (std::uint32_t i = 0; i < state_.words_per_segment(); ++i)
      is_clean = is_clean && state_.word_at(segment, i) == 0;
    expect(is_clean, "a segment without slices has bits set, segment", segment);
    for (std::uint32_t i = 0; i < state_.joins_per_segment(); ++i)
      expect(state_.joins_at(segment, i).load(simt::relaxed) == 0,
             "a segment without slices has joined slices, segment", segment);
    check_unused_blocks(segment, 0);
    if (use.is_head()) {
      for (std::uint32_t i = 1; i < use.count(); ++i) {
        segment_use const tail = state_.segments[segment + i].load();
        expect(tail.is_tail() && tail.count() == i,
               "a large allocation's tail has a wrong entry, segment", segment + i);
      }
    }
  }

  void check_blocks(std::uint32_t segment, size_class id) {
    std::uint32_t free_blocks = 0;
    std::uint32_t const generation = state_.segments[segment].load().generation();
    expect(generation == state_.segments[segment].generation(),
           "a segment's use has another generation than the segment, segment", segment);
    for (std::uint32_t index = 0; index < state_.blocks_of(id); ++index) {
      block const current = state_.block_at(id, segment, index);
      block_state const current_state = current.peek();
      std::uint32_t free_slices = 0;
      bool has_stray_bits = false;
      std::int32_t full_words = 0;
      for (std::uint32_t i = 0; i < current.words(); ++i) {
        word const bits = current.word_at(i).peek();
        has_stray_bits = has_stray_bits || (bits & ~current.mask(i)) != 0;
        if (!current_state.is_free()) {  // the bits of a free block have no meaning
          full_words += bits == current.mask(i) ? 1 : 0;
          free_slices += count_ones(bits);
        }
        if (id >= joined_slices::smallest_class)
          check_joins(segment, index * words_per_block + i,
                      current_state.is_free() ? current.mask(i) : bits, current.mask(i));
      }
      expect(!has_stray_bits, "bits that stand for no slice are set, segment", segment);
      expect(current_state.generation() == generation, "a block has another generation, segment",
             segment);
      expect(
          current_state.lanes_inside() == 0 && current_state.is_closed() == current_state.is_free(),
          "a lane is still in a block, segment", segment);
      expect(current_state.count() == static_cast<std::int32_t>(free_slices),
             "a block's count of slices is wrong, segment", segment);
      expect(current_state.full_words() == full_words,
             "a block's count of full words is wrong, segment", segment);
      if (current_state.is_free()) ++free_blocks;
      expect(current_state.is_free() || free_slices < current.slices(),
             "a block without allocated slices is not free, segment", segment);
      bool const is_advertised =
          (state_.advertised_at(segment, index / bits_per_word).load(simt::relaxed) >>
               index % bits_per_word &
           1) != 0;
      expect(is_advertised || (free_slices == 0 && !current_state.is_free()),
             "a block with claimable slices is not advertised, segment", segment);
      expect(!is_advertised || state_.class_tree(id).contains(segment),
             "a class tree lacks a segment with an advertised block, segment", segment);
    }
    check_unused_blocks(segment, state_.blocks_of(id));
    bool const may_join = id >= joined_slices::smallest_class;
    for (std::uint32_t i = may_join ? state_.blocks_of(id) * words_per_block : 0;
         i < state_.joins_per_segment(); ++i)
      expect(state_.joins_at(segment, i).load(simt::relaxed) == 0,
             "slices that a segment does not have are joined, segment", segment);
    expect(free_blocks == state_.segments[segment].free_blocks(),
           "a segment's count of free blocks is wrong, segment", segment);
    expect(free_blocks < state_.blocks_of(id),
           "a segment without allocated slices was not returned, segment", segment);
  }

  /// Checks that only allocated slices of word `index` are joined, and not the first of a word.
  void check_joins(std::uint32_t segment, std::uint32_t index, word free_slices, word mask) {
    word const joins = state_.joins_at(segment, index).load(simt::relaxed);
    expect((joins & 1) == 0 && (joins & ~mask) == 0, "slices of two words are joined, segment",
           segment);
    expect(((joins | joins >> 1) & free_slices) == 0, "a joined slice is free, segment", segment);
  }

  /// Checks the blocks from `first` on, which the segment does not have in its current use.
  void check_unused_blocks(std::uint32_t segment, std::uint32_t first) {
    for (std::uint32_t index = first; index < state_.blocks_per_segment; ++index) {
      block_state const current_state = state_.block_at(0, segment, index).peek();
      expect((current_state.bits() & ~word{block_state::last_generation}) == 0,
             "a block that its segment does not have counts slices, segment", segment);
      bool const is_advertised =
          (state_.advertised_at(segment, index / bits_per_word).load(simt::relaxed) >>
               index % bits_per_word &
           1) != 0;
      expect(!is_advertised, "a block that its segment does not have is advertised, segment",
             segment);
    }
  }

  void expect(bool holds, char const* problem) {
    if (!holds) problems_.emplace_back(problem);
  }
  void expect(bool holds, char const* problem, std::uint32_t number) {
    if (!holds) problems_.push_back(std::string{problem} + ' ' + std::to_string(number));
  }

  heap_state& state_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> heap::audit() const {
  auto const copy = implementation_->snapshot();
  return auditor{*copy.state}.run();
}

heap_stats heap::stats() const {
  auto const copy = implementation_->snapshot();
  heap_state& state = *copy.state;
  heap_stats result;
  result.reserved = bytes{state.segments_mapped} << state.segment_shift;
  result.metadata = copy.metadata.size() + heap_state::bytes_for(state.max_segments);
  std::vector<bool> has_live(state.segments_mapped);
  std::vector<std::uint32_t> free_slices(state.segments_mapped);  // of each segment
  for (std::uint32_t segment = 0; segment < state.segments_mapped; ++segment) {
    segment_use const use = state.segments[segment].load();
    if (use.is_free()) result.free_segments += state.segment_bytes();
    if (use.is_slices()) {
      free_slices[segment] = state.layouts[use.slices_class()].slice.slices();
    } else if (use.is_head()) {
      result.allocated += bytes{use.count()} << state.segment_shift;
      ++result.allocations_in_use;
    }
    has_live[segment] = use.is_head() || use.is_tail();
  }
  for_each_live_slice(state, [&](live_slices const& each) {
    if (is_quarantined(state, state.base + each.offset)) return;
    result.allocated += each.size;
    ++result.allocations_in_use;
    has_live[each.segment] = true;
    free_slices[each.segment] -= each.count;
  });
  bytes largest_slice = 0;
  for (std::uint32_t segment = 0; segment < state.segments_mapped; ++segment) {
    if (free_slices[segment] == 0) continue;
    bytes const size = state.layouts[state.segments[segment].load().slices_class()].size;
    result.free_slices += free_slices[segment] * size;
    largest_slice = std::max(largest_slice, size);
  }
  // A large malloc can reclaim unused slices of a class's run, and allocations in the quarantine
  // (malloc_path::claim_segments). So it can use every segment without an allocation in use.
  std::uint32_t run = 0;
  std::uint32_t longest = 0;
  for (bool const is_live : has_live) {
    run = is_live ? 0 : run + 1;
    longest = std::max(longest, run);
  }
  result.largest_free = longest != 0 ? bytes{longest} << state.segment_shift : largest_slice;
  return result;
}

std::vector<live_allocation> heap::live_allocations() const {
  auto const copy = implementation_->snapshot();
  heap_state& state = *copy.state;
  std::vector<live_allocation> result;
  auto const add = [&](std::uint64_t offset, quarry::bytes size) {
    std::uint64_t const address = state.base + offset;
    if (!is_quarantined(state, address)) result.push_back({reinterpret_cast<void*>(address), size});
  };
  for (std::uint32_t segment = 0; segment < state.segments_mapped; ++segment) {
    segment_use const use = state.segments[segment].load();
    if (use.is_head())
      add(std::uint64_t{segment} << state.segment_shift,
          quarry::bytes{use.count()} << state.segment_shift);
  }
  for_each_live_slice(state, [&](live_slices const& each) { add(each.offset, each.size); });
  std::sort(result.begin(), result.end(),
            [](auto const& a, auto const& b) { return a.address < b.address; });
  return result;
}

}  // namespace quarry::inline QUARRY_ABI
