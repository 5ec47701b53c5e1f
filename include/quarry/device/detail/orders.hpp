// SPDX-License-Identifier: Apache-2.0
// Memory orders that a test can relax.
//
// A build with QUARRY_MUTANT set to a label relaxes the orders of this label, and its tests must
// fail. If they pass, an order is not needed or the tests are weak. The headers below argue the
// labels.
//
//   labels      shared words                        header
//   R, C, A     the bits of a slice block           slice_bitmap.hpp
//   A, P, H     the state of a slice block          block.hpp
//   T, O        a ticket counter                    ticket_counters.hpp
//   I, J        a set of segments or blocks         bit_tree.hpp
//   S, W        the free blocks of a segment        segment_table.hpp
//   K, Z        the parts of a superblock           coalescing/superblock.hpp
//   M, F        the map of superblocks              coalescing/superblock_map.hpp
//   Q           a header in a dynamic superblock    coalescing/segment_header.hpp
#pragma once

#include "quarry/simt/atomic.hpp"

namespace quarry::inline QUARRY_ABI::detail {

#ifndef QUARRY_MUTANT
#define QUARRY_MUTANT ""
#endif

/// Whether this build relaxes the orders labelled `label`.
[[nodiscard]] consteval bool is_mutant(char const* label) {
  char const* chosen = QUARRY_MUTANT;
  while (*label != 0 && *label == *chosen) ++label, ++chosen;
  return *label == *chosen;
}

inline constexpr simt::memory_order slice_release_order =
    is_mutant("R") ? simt::relaxed : simt::fenced_release;
inline constexpr simt::memory_order slice_claim_order =
    is_mutant("C") ? simt::relaxed : simt::acquire;
inline constexpr simt::memory_order slice_observe_order =
    is_mutant("A") ? simt::relaxed : simt::fenced_acquire;
// The lane that completes a block may have acquired all releases through (G), which would hide the
// loss of (A). So the label A relaxes both orders.
inline constexpr simt::memory_order block_count_order =
    is_mutant("A") ? simt::relaxed : simt::fenced_acq_rel;
inline constexpr simt::memory_order block_reserve_order =
    is_mutant("P") ? simt::relaxed : simt::acquire;
inline constexpr simt::memory_order block_open_order =
    is_mutant("H") ? simt::relaxed : simt::acq_rel;
inline constexpr simt::memory_order block_close_order =
    is_mutant("H") ? simt::relaxed : simt::fenced_acq_rel;
inline constexpr simt::memory_order ticket_claim_order =
    is_mutant("T") ? simt::relaxed : simt::acquire;
inline constexpr simt::memory_order ticket_open_order =
    is_mutant("O") ? simt::relaxed : simt::fenced_release;
inline constexpr simt::memory_order tree_insert_order =
    is_mutant("I") ? simt::relaxed : simt::release;
inline constexpr simt::memory_order tree_claim_order =
    is_mutant("J") ? simt::relaxed : simt::acquire;
inline constexpr simt::memory_order segment_count_order =
    is_mutant("S") ? simt::relaxed : simt::acq_rel;
inline constexpr simt::memory_order superblock_count_order =
    is_mutant("K") ? simt::relaxed : simt::acq_rel;
inline constexpr simt::memory_order map_insert_order =
    is_mutant("M") ? simt::relaxed : simt::release;
inline constexpr simt::memory_order map_find_order = is_mutant("F") ? simt::relaxed : simt::acquire;
inline constexpr simt::memory_order header_change_order =
    is_mutant("Q") ? simt::relaxed : simt::acq_rel;
inline constexpr simt::memory_order header_load_order =
    is_mutant("Q") ? simt::relaxed : simt::acquire;
inline constexpr simt::memory_order segment_reserve_order =
    is_mutant("W") ? simt::relaxed : simt::acquire;
inline constexpr simt::memory_order superblock_leave_order =
    is_mutant("Z") ? simt::relaxed : simt::acq_rel;

}  // namespace quarry::inline QUARRY_ABI::detail
