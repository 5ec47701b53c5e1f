// SPDX-License-Identifier: Apache-2.0
// Memory orders that a test can relax.
//
// A build with QUARRY_MUTANTS reads a label from the environment variable QUARRY_MUTANT when a
// program starts. The program relaxes the orders of this label, and its tests must fail. If they
// pass, an order is not needed or the tests are weak. The headers below argue the labels.
//
//   labels      shared words                        header
//   R, C        the bits of a slice block           slice_bitmap.hpp
//   A, P, H     the state of a slice block          block.hpp
//   T, O        a ticket counter                    ticket_counters.hpp
//   I, J        a set of segments or blocks         bit_tree.hpp
//   S, W        the free blocks of a segment        segment_table.hpp
//   K, Z        the parts of a superblock           superblock.hpp
//   M, F        the map of superblocks              superblock_map.hpp
//   Q           a header in a dynamic superblock    segment_header.hpp
#pragma once

#include "quarry/simt/atomic.hpp"

#include <cstdlib>
#include <cstring>

namespace quarry::inline QUARRY_ABI::detail {

/// Whether this program relaxes the orders labelled `label`.
#ifdef QUARRY_MUTANTS
[[nodiscard]] inline bool is_mutant(char const* label) {
  static char const* const chosen = std::getenv("QUARRY_MUTANT");
  return chosen != nullptr && std::strcmp(label, chosen) == 0;
}
#define QUARRY_MUTABLE inline
#else
[[nodiscard]] consteval bool is_mutant(char const* /*label*/) { return false; }
#define QUARRY_MUTABLE inline constexpr
#endif

QUARRY_MUTABLE simt::memory_order const slice_release_order =
    is_mutant("R") ? simt::relaxed : simt::fenced_release;
QUARRY_MUTABLE simt::memory_order const slice_claim_order =
    is_mutant("C") ? simt::relaxed : simt::acquire;
QUARRY_MUTABLE simt::memory_order const block_count_order =
    is_mutant("A") ? simt::relaxed : simt::fenced_acq_rel;
QUARRY_MUTABLE simt::memory_order const block_reserve_order =
    is_mutant("P") ? simt::relaxed : simt::acquire;
QUARRY_MUTABLE simt::memory_order const block_open_order =
    is_mutant("H") ? simt::relaxed : simt::acq_rel;
QUARRY_MUTABLE simt::memory_order const block_close_order =
    is_mutant("H") ? simt::relaxed : simt::fenced_acq_rel;
QUARRY_MUTABLE simt::memory_order const ticket_claim_order =
    is_mutant("T") ? simt::relaxed : simt::acquire;
QUARRY_MUTABLE simt::memory_order const ticket_open_order =
    is_mutant("O") ? simt::relaxed : simt::fenced_release;
QUARRY_MUTABLE simt::memory_order const tree_insert_order =
    is_mutant("I") ? simt::relaxed : simt::release;
QUARRY_MUTABLE simt::memory_order const tree_claim_order =
    is_mutant("J") ? simt::relaxed : simt::acquire;
QUARRY_MUTABLE simt::memory_order const segment_count_order =
    is_mutant("S") ? simt::relaxed : simt::fenced_acq_rel;
QUARRY_MUTABLE simt::memory_order const superblock_count_order =
    is_mutant("K") ? simt::relaxed : simt::acq_rel;
QUARRY_MUTABLE simt::memory_order const map_insert_order =
    is_mutant("M") ? simt::relaxed : simt::release;
QUARRY_MUTABLE simt::memory_order const map_find_order =
    is_mutant("F") ? simt::relaxed : simt::acquire;
QUARRY_MUTABLE simt::memory_order const header_change_order =
    is_mutant("Q") ? simt::relaxed : simt::acq_rel;
QUARRY_MUTABLE simt::memory_order const header_load_order =
    is_mutant("Q") ? simt::relaxed : simt::acquire;
QUARRY_MUTABLE simt::memory_order const segment_reserve_order =
    is_mutant("W") ? simt::relaxed : simt::acquire;
QUARRY_MUTABLE simt::memory_order const superblock_leave_order =
    is_mutant("Z") ? simt::relaxed : simt::acq_rel;

}  // namespace quarry::inline QUARRY_ABI::detail
