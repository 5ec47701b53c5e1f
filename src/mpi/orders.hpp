// SPDX-License-Identifier: Apache-2.0
// Memory orders of the runtime that a test can relax (quarry/device/detail/orders.hpp says how).
#pragma once

#include "quarry/device/detail/orders.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

using quarry::detail::is_mutant;

QUARRY_MUTABLE simt::memory_order const ordered_store =
    is_mutant("mpi-K") ? simt::relaxed : simt::release;
QUARRY_MUTABLE simt::memory_order const ordered_load =
    is_mutant("mpi-G") ? simt::relaxed : simt::acquire;
QUARRY_MUTABLE simt::memory_order const return_order =
    is_mutant("mpi-D") ? simt::relaxed : simt::release;
QUARRY_MUTABLE simt::memory_order const returned_order =
    is_mutant("mpi-E") ? simt::relaxed : simt::acquire;

// shared_once.hpp
QUARRY_MUTABLE simt::memory_order const once_made_order =
    is_mutant("mpi-O") ? simt::relaxed : simt::release;
QUARRY_MUTABLE simt::memory_order const once_found_order =
    is_mutant("mpi-I") ? simt::relaxed : simt::acquire;
// immediate_copies.cpp
QUARRY_MUTABLE simt::memory_order const copy_made_order =
    is_mutant("mpi-M") ? simt::relaxed : simt::release;
QUARRY_MUTABLE simt::memory_order const copy_seen_order =
    is_mutant("mpi-S") ? simt::relaxed : simt::acquire;
QUARRY_MUTABLE simt::memory_order const copy_taken_order =
    is_mutant("mpi-T") ? simt::relaxed : simt::acq_rel;
// context_numbers.cpp
QUARRY_MUTABLE simt::memory_order const context_freed_order =
    is_mutant("mpi-F") ? simt::relaxed : simt::release;
QUARRY_MUTABLE simt::memory_order const context_taken_order =
    is_mutant("mpi-C") ? simt::relaxed : simt::acquire;

}  // namespace quarry::inline QUARRY_ABI::mpi
