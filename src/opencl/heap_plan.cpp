// SPDX-License-Identifier: Apache-2.0
#include "opencl/heap_plan.hpp"

#include "quarry/core/errors.hpp"

#include <algorithm>
#include <bit>
#include <string>

namespace quarry::inline QUARRY_ABI::opencl {

namespace {

constexpr std::uint32_t max_hints = 65'536;
constexpr bytes large_heap = 64_MiB;  // from here on pages have 4 KiB, else 1 KiB

std::uint32_t words_for(std::uint32_t bits) { return (bits + 31) / 32; }

/// Places a tree for numbers below `count` at `next`, and returns the word behind it.
std::uint32_t place_tree(quarry_tree& tree, std::uint32_t count, std::uint32_t next) {
  tree.count = count;
  for (std::uint32_t level = 0; level < QUARRY_TREE_LEVELS; ++level) {
    count = words_for(count);
    tree.first[level] = next;
    tree.words[level] = count;
    next += count;
  }
  return next;
}

/// Places everything for `pages` pages.
void place(quarry_heap_state& state, std::uint32_t pages, std::uint32_t hints) {
  std::uint32_t const span_shift = state.page_shift + 4;
  state.pages = pages;
  state.spans = pages / QUARRY_PAGES_PER_SPAN;
  state.classes = quarry_class_count(span_shift);
  state.slot_words = (1u << span_shift) / 32;
  // GPUs: a few words, for thousands of hints. CPUs: a cache line, so that two threads share none.
  state.lease_words = state.claims_unread != 0 ? 4 : 16;
  state.summary_words = (state.slot_words + 31) / 32;
  std::uint32_t const limit = state.claims_unread != 0 ? 16384 : 64;
  if (hints == 0) hints = std::clamp(std::bit_floor(state.spans * 4), 1u, limit);
  std::uint32_t const areas =
      std::clamp(std::bit_floor(state.spans / 64), 1u, std::min(hints, 64u));
  state.place_mask = hints - 1;
  state.area_mask = areas - 1;

  std::uint32_t next = sizeof(quarry_heap_state) / 4;
  auto const take = [&](std::uint64_t words) {
    std::uint32_t const first = next;
    next += static_cast<std::uint32_t>(words);
    return first;
  };
  state.class_tree_words = place_tree(state.span_tree, state.spans, 0);
  state.class_trees = take(std::uint64_t{state.class_tree_words} * state.classes);
  state.empty_tree = take(state.class_tree_words);
  state.hints = take(std::uint64_t{hints} * state.classes);
  state.tickets = take(std::uint64_t{areas} * state.classes);
  state.openers = take(std::uint64_t{areas} * state.classes);
  next = place_tree(state.page_tree, words_for(pages), next);
  state.page_bits = take(words_for(pages));
  state.large_pages = take(pages);
  state.span_classes = take(state.spans);
  state.summaries = take(std::uint64_t{state.spans} * state.summary_words);
  next = (next + 31) / 32 * 32;
  state.slot_bits = take(std::uint64_t{state.spans} * state.slot_words);
  state.words = next;
  std::uint32_t const page_units = 1u << state.page_shift;
  state.first_unit = (next / 4 + 1 + page_units - 1) / page_units * page_units;
}

}  // namespace

quarry_heap_state plan_heap(bytes size, std::uint32_t hints, bool claims_unread, bytes max_size) {
  max_size = std::max(size, max_size);
  if (max_size / QUARRY_UNIT > 0xffffffffu)
    throw bad_argument{"opencl::heap: " + std::to_string(max_size) +
                       " bytes are not less than 64 GiB"};
  if (hints != 0 && (!std::has_single_bit(hints) || hints > max_hints))
    throw bad_argument{"opencl::heap: " + std::to_string(hints) +
                       " hints are not a power of two up to " + std::to_string(max_hints)};
  quarry_heap_state state{};
  state.magic = QUARRY_OPENCL_MAGIC;
  state.layout = QUARRY_OPENCL_LAYOUT;
  state.claims_unread = claims_unread ? 1 : 0;
  auto const max_units = static_cast<std::uint32_t>(max_size / QUARRY_UNIT);
  state.page_shift = max_size >= large_heap ? 8 : 6;
  auto pages = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(max_units >> state.page_shift, 0xffffffffu >> 5));
  pages -= pages % QUARRY_PAGES_PER_SPAN;
  for (; pages != 0; pages -= QUARRY_PAGES_PER_SPAN) {
    place(state, pages, hints);
    if (state.first_unit + (std::uint64_t{pages} << state.page_shift) <= max_units) break;
  }
  if (!resize(state, size))
    throw bad_argument{"opencl::heap: " + std::to_string(size) +
                       " bytes are too few for a span of 16 pages and the metadata" +
                       (max_size != size ? " for " + std::to_string(max_size) + " bytes" : "")};
  return state;
}

bool resize(quarry_heap_state& state, bytes size) {
  state.units = static_cast<std::uint32_t>(size / QUARRY_UNIT);
  if (state.pages == 0 || state.units <= state.first_unit) return false;
  auto const pages = (state.units - state.first_unit) >> state.page_shift;
  state.usable_pages = std::min(pages - pages % QUARRY_PAGES_PER_SPAN, state.pages);
  return state.usable_pages != 0;
}

}  // namespace quarry::inline QUARRY_ABI::opencl
