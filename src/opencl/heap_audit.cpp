// SPDX-License-Identifier: Apache-2.0
#include "opencl/heap_plan.hpp"
#include "quarry/opencl/heap_usage.hpp"
#include "quarry/opencl/live_allocation.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI::opencl {

namespace {

/// A copy of a heap's metadata, whose values may be arbitrary.
class metadata {
 public:
  explicit metadata(heap_copy const& heap) : words_{heap.words}, state_{heap.plan} {}

  /// The host's plan.
  quarry_heap_state const& state() const { return state_; }
  std::uint32_t word(std::size_t index) const { return words_[index]; }
  std::uint32_t span_shift() const { return state_.page_shift + 4; }
  /// What the heap says about the class of a span: 0 if the span is not open, else the class + 1.
  std::uint32_t stored_class_of(std::uint32_t span) const {
    return words_[state_.span_classes + span];
  }
  /// The same, but 0 if there is no such class.
  std::uint32_t class_of(std::uint32_t span) const {
    std::uint32_t const id = stored_class_of(span);
    return id <= state_.classes ? id : 0;
  }
  /// What the heap says about the pages of a large allocation that begins at page `first`.
  std::uint32_t stored_pages_of_large(std::uint32_t first) const {
    return words_[state_.large_pages + first];
  }
  /// The same, but 0 if the buffer does not have as many pages.
  std::uint32_t pages_of_large(std::uint32_t first) const {
    std::uint32_t const count = stored_pages_of_large(first), usable = state_.usable_pages;
    return first < usable && count <= usable - first ? count : 0;
  }
  bool page_bit(std::uint32_t page) const { return bit(state_.page_bits, page); }
  bool slot_bit(std::uint32_t span, std::uint32_t slot) const {
    return bit(state_.slot_bits + span * state_.slot_words, slot);
  }
  std::uint32_t slot_word(std::uint32_t span, std::uint32_t word) const {
    return words_[state_.slot_bits + span * state_.slot_words + word];
  }
  bool is_listed(std::uint32_t id, std::uint32_t span) const {
    return bit(state_.class_trees + id * state_.class_tree_words + state_.span_tree.first[0], span);
  }
  std::uint32_t page_word(std::uint32_t word) const { return words_[state_.page_bits + word]; }
  bool is_page_word_listed(std::uint32_t word) const {
    return bit(state_.page_tree.first[0], word);
  }
  /// Whether each word of a tree that is not 0 has its bit in the level above.
  bool reaches_top(quarry_tree const& tree, std::uint32_t base) const {
    for (std::uint32_t level = 0; level + 1 < QUARRY_TREE_LEVELS; ++level)
      for (std::uint32_t word = 0; word < tree.words[level]; ++word)
        if (words_[base + tree.first[level] + word] != 0 &&
            !bit(base + tree.first[level + 1], word))
          return false;
    return true;
  }
  bool trees_reach_top() const {
    for (std::uint32_t id = 0; id < state_.classes; ++id)
      if (!reaches_top(state_.span_tree, state_.class_trees + id * state_.class_tree_words))
        return false;
    return reaches_top(state_.span_tree, state_.empty_tree) && reaches_top(state_.page_tree, 0);
  }
  bool may_be_empty(std::uint32_t span) const {
    return bit(state_.empty_tree + state_.span_tree.first[0], span);
  }
  bool is_word_listed(std::uint32_t span, std::uint32_t word) const {
    return bit(state_.summaries + span * state_.summary_words, word);
  }

 private:
  bool bit(std::uint32_t first_word, std::uint32_t index) const {
    return (words_[first_word + index / 32] >> index % 32 & 1) != 0;
  }
  std::uint32_t const* words_;
  quarry_heap_state const& state_;
};

/// Sets what the trailer of an allocation in a debug heap says.
void read_trailer(live_allocation& allocation, read_bytes const& read) {
  std::array<std::uint32_t, 4> trailer{};
  bytes const max_size = allocation.slot_size - QUARRY_TRAILER_BYTES;
  bytes const end = bytes{allocation.reference} * QUARRY_UNIT + max_size;
  read(end, sizeof trailer, trailer.data());
  auto const [canary, number, work_item, gap] = trailer;
  if (canary == quarry_vacant_canary(allocation.reference)) {
    allocation.state = allocation_state::reserved;
    return;
  }
  allocation.state = allocation_state::overrun;
  allocation.number = number;
  allocation.work_item = work_item;
  if (gap > max_size) return;
  allocation.requested_size = max_size - gap;
  if (canary != quarry_canary(allocation.reference, number, work_item, gap)) return;
  std::vector<unsigned char> content(gap);
  if (gap != 0) read(end - gap, gap, content.data());
  if (std::count(content.begin(), content.end(), QUARRY_GAP_BYTE) == gap)
    allocation.state = allocation_state::intact;
}

/// The bits of a span's word `word` that are slots, if the span has `slots` slots.
constexpr std::uint32_t mask_of_slots(std::uint32_t slots, std::uint32_t word) {
  std::uint32_t const before = std::min(slots, word * 32), count = std::min(slots - before, 32u);
  return static_cast<std::uint32_t>((std::uint64_t{1} << count) - 1);
}

constexpr std::size_t word_of(std::size_t offset) { return offset / sizeof(std::uint32_t); }

/// Whether a kernel wrote through a null reference.
std::string audit_unused(metadata const& heap) {
  for (std::size_t word = 0; word < QUARRY_UNUSED_BYTES / sizeof(std::uint32_t); ++word)
    if (heap.word(word) != 0)
      return "a kernel wrote through a null reference: byte " + std::to_string(word * 4) +
             " behind it is not 0. Look for an allocation whose result is not checked; heap::reset "
             "clears these bytes";
  return {};
}

}  // namespace

std::string audit_state_of(heap_copy const& heap) {
  std::array<std::uint32_t, sizeof(quarry_heap_state) / sizeof(std::uint32_t)> plan;
  std::memcpy(plan.data(), &heap.plan, sizeof plan);
  constexpr std::size_t first = word_of(offsetof(quarry_heap_state, magic));
  constexpr std::size_t end = word_of(offsetof(quarry_heap_state, top_span));
  for (std::size_t word = first; word < end; ++word)
    if (heap.words[word] != plan[word])
      return "word " + std::to_string(word - first) + " of the heap state was overwritten: it is " +
             std::to_string(heap.words[word]) + ", and the host wrote " +
             std::to_string(plan[word]) + "; the heap is unusable until heap::reset";
  return {};
}

std::vector<live_allocation> live_allocations_of(heap_copy const& copy, std::size_t max_count,
                                                 read_bytes const& read) {
  metadata const heap{copy};
  auto const& state = heap.state();
  std::vector<live_allocation> live;
  auto const add = [&](std::uint32_t unit, bytes slot_size) {
    live.push_back({.reference = state.first_unit + unit, .slot_size = slot_size});
    if (state.has_trailers != 0) read_trailer(live.back(), read);
  };
  for (std::uint32_t page = 0; page < state.usable_pages && live.size() < max_count; ++page) {
    if (bytes const count = heap.pages_of_large(page); count != 0)
      add(page << state.page_shift, count * QUARRY_UNIT << state.page_shift);
    std::uint32_t const span = page / QUARRY_PAGES_PER_SPAN;
    std::uint32_t const id = page % QUARRY_PAGES_PER_SPAN == 0 ? heap.class_of(span) : 0;
    if (id == 0) continue;
    std::uint32_t const units = quarry_units_of_class(id - 1, heap.span_shift());
    for (std::uint32_t slot = 0;
         slot < quarry_slots_of_class(id - 1, heap.span_shift()) && live.size() < max_count; ++slot)
      if (heap.slot_bit(span, slot))
        add((span << heap.span_shift()) + slot * units, bytes{units} * QUARRY_UNIT);
  }
  return live;
}

heap_usage usage_of(heap_copy const& copy) {
  metadata const heap{copy};
  bytes const page = bytes{QUARRY_UNIT} << heap.state().page_shift;
  heap_usage usage;
  usage.usable = heap.state().usable_pages * page;
  for (std::uint32_t span = 0; span < heap.state().spans; ++span) {
    std::uint32_t const id = heap.class_of(span);
    if (id == 0) continue;
    usage.reserved += QUARRY_PAGES_PER_SPAN * page;
    std::uint32_t const slots = quarry_slots_of_class(id - 1, heap.span_shift());
    std::uint64_t in_use = 0;
    for (std::uint32_t word = 0; word * 32 < slots; ++word)
      in_use += static_cast<std::uint64_t>(
          std::popcount(heap.slot_word(span, word) & mask_of_slots(slots, word)));
    usage.allocations_in_use += in_use;
    usage.allocated += in_use * QUARRY_UNIT * quarry_units_of_class(id - 1, heap.span_shift());
  }
  for (std::uint32_t first = 0; first < heap.state().pages; ++first) {
    bytes const count = heap.pages_of_large(first);
    usage.allocations_in_use += count != 0 ? 1 : 0;
    usage.allocated += count * page;
    usage.reserved += count * page;
  }
  return usage;
}

std::string audit_of(heap_copy const& copy) {
  metadata const heap{copy};
  auto const& state = heap.state();
  if (auto problem = audit_state_of(copy); !problem.empty()) return problem;
  std::vector<bool> is_used(state.pages);
  std::fill(is_used.begin() + state.usable_pages, is_used.end(), true);
  for (std::uint32_t span = 0; span < state.spans; ++span) {
    std::uint32_t const id = heap.stored_class_of(span);
    if (id > state.classes) return "span " + std::to_string(span) + " has no class";
    std::uint32_t const slots = id == 0 ? 0 : quarry_slots_of_class(id - 1, heap.span_shift());
    bool has_free = false, is_empty = true;
    for (std::uint32_t word = 0; word < state.slot_words; ++word) {
      std::uint32_t const clear = ~heap.slot_word(span, word), first = word * 32;
      std::uint32_t const mask = mask_of_slots(slots, word);
      std::uint32_t const free = clear & mask, absent = clear & ~mask;
      if (free != mask) is_empty = false;
      if (free != 0) {
        has_free = true;
        if (!heap.is_word_listed(span, word))
          return "span " + std::to_string(span) + ": slot " +
                 std::to_string(first + static_cast<std::uint32_t>(std::countr_zero(free))) +
                 " is free, and the summary does not list its word";
      }
      if (absent != 0)
        return "span " + std::to_string(span) + ": bit " +
               std::to_string(first + static_cast<std::uint32_t>(std::countr_zero(absent))) +
               " is clear, and there is no such slot";
    }
    if (id != 0 && is_empty && !heap.may_be_empty(span))
      return "span " + std::to_string(span) + " is empty, and the tree of empty spans lacks it";
    if (has_free && !heap.is_listed(id - 1, span))
      return "span " + std::to_string(span) + " has a free slot, and its class does not list it";
    for (std::uint32_t i = 0; id != 0 && i < QUARRY_PAGES_PER_SPAN; ++i)
      is_used[span * QUARRY_PAGES_PER_SPAN + i] = true;
  }
  for (std::uint32_t first = 0; first < state.pages; ++first) {
    std::uint64_t const end = std::uint64_t{first} + heap.stored_pages_of_large(first);
    for (std::uint64_t i = first; i < end; ++i) {
      if (i >= state.pages || is_used[i]) return "page " + std::to_string(i) + " has two owners";
      is_used[i] = true;
    }
  }
  for (std::uint32_t word = 0; word < state.page_tree.count; ++word)
    if (heap.page_word(word) != ~0u && !heap.is_page_word_listed(word))
      return "page " + std::to_string(word * 32) + ": its word has a free page and is not listed";
  if (!heap.trees_reach_top()) return "a tree has members that a search from its top does not find";
  for (std::uint32_t page = 0; page < state.pages; ++page) {
    if (heap.page_bit(page) != is_used[page])
      return "page " + std::to_string(page) +
             (is_used[page] ? " is in use, and its bit is clear" : " is lost");
  }
  return audit_unused(heap);
}

}  // namespace quarry::inline QUARRY_ABI::opencl
