// SPDX-License-Identifier: Apache-2.0
// Sets of the numbers of spans or page words, which work-items search and change at the same time;
// see quarry_tree.
//
// Insertions and removals are single atomics on level 0. The upper levels only speed up searches.
// An insertion into a word that was 0 sets the bit above. A search may find a word that is 0
// although its bit above is set. It then clears this bit, looks at the word again, and sets the bit
// again if the word is no longer 0. So a search may miss a member for a moment, and callers decide
// by other words.
//
// Memory order. Race: an inserter changes the lower word and then sets the bit above (release RMW).
// A clearer clears the bit above (acquire RMW) and then looks at the lower word. Re-check: if the
// inserter's RMW comes first, the clearer sees the change of the lower word, and sets the bit
// again. If the clearer's RMW comes first, the inserter's bit stays set.
// The same holds for each bit that summarises other words, as a span's summary does.
#pragma once

#include "orders.cl"
#include "size_classes.cl"

static inline __global uint* quarry_tree_word(__global uint* base, __global quarry_tree* tree,
                                              uint level, uint word) {
  return base + quarry_load_constant(&tree->first[level]) + word;
}

// Sets the bit `position` of a level. Sets the bits above it, up to the first word that was not 0
// before. The tree's word offsets count from `base`.
static inline void quarry_tree_set(__global uint* base, __global quarry_tree* tree, uint level,
                                   uint position) {
  QUARRY_NOT_UNROLLED
  for (; level < QUARRY_TREE_LEVELS; ++level) {
    uint const bit = 1u << (position & 31u);
    position >>= 5u;
    if (quarry_or_release(quarry_tree_word(base, tree, level, position), bit) != 0u) return;
  }
}
static inline void quarry_tree_insert(__global uint* base, __global quarry_tree* tree,
                                      uint member) {
  quarry_tree_set(base, tree, 0u, member);
}
static inline void quarry_tree_remove(__global uint* base, __global quarry_tree* tree,
                                      uint member) {
  (void)quarry_and_acquire(quarry_tree_word(base, tree, 0, member >> 5u), ~(1u << (member & 31u)));
}

// Clears the bit for word `word` of `level - 1`, which was 0. Sets the bit again if the word is no
// longer 0.
static inline void quarry_tree_repair(__global uint* base, __global quarry_tree* tree, uint level,
                                      uint word) {
  (void)quarry_and_acquire(quarry_tree_word(base, tree, level, word >> 5u), ~(1u << (word & 31u)));
  if (quarry_load_relaxed(quarry_tree_word(base, tree, level - 1u, word)) != 0u)
    quarry_tree_set(base, tree, level, word);  // the words above may be 0 now, too
}

// Returns the smallest member that is at least `from`, or QUARRY_NONE. Takes at most one step for
// each word of each level.
static inline uint quarry_tree_next(__global uint* base, __global quarry_tree* tree, uint from) {
  uint level = 0u, position = from;  // a bit of this level
  while ((position >> 5u) < quarry_load_constant(&tree->words[level])) {
    uint const word = position >> 5u;
    uint const bits =
        quarry_load_relaxed(quarry_tree_word(base, tree, level, word)) & (~0u << (position & 31u));
    if (bits == 0u) {
      position = word + 1u;  // a bit of the level above
      if (level + 1u == QUARRY_TREE_LEVELS)
        position <<= 5u;
      else
        ++level;
      continue;
    }
    uint const found = word * 32u + quarry_lowest_bit(bits);
    if (level == 0u) return found;
    if (quarry_load_relaxed(quarry_tree_word(base, tree, level - 1u, found)) == 0u) {
      quarry_tree_repair(base, tree, level, found);
      position = found + 1u;
      continue;
    }
    --level;
    position = found << 5u;
  }
  return QUARRY_NONE;
}
