// SPDX-License-Identifier: Apache-2.0
// Memory orders of the runtime that a test can relax (quarry/device/detail/orders.hpp says how).
#pragma once

#include "quarry/device/detail/orders.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

using quarry::detail::is_mutant;

inline constexpr simt::memory_order ordered_store =
    is_mutant("mpi-K") ? simt::relaxed : simt::release;
inline constexpr simt::memory_order ordered_load =
    is_mutant("mpi-G") ? simt::relaxed : simt::acquire;
inline constexpr simt::memory_order return_order =
    is_mutant("mpi-D") ? simt::relaxed : simt::release;
inline constexpr simt::memory_order returned_order =
    is_mutant("mpi-E") ? simt::relaxed : simt::acquire;

// shared_once.hpp
inline constexpr simt::memory_order once_made_order =
    is_mutant("mpi-O") ? simt::relaxed : simt::release;
inline constexpr simt::memory_order once_found_order =
    is_mutant("mpi-I") ? simt::relaxed : simt::acquire;
// immediate_copies.cpp
inline constexpr simt::memory_order copy_made_order =
    is_mutant("mpi-M") ? simt::relaxed : simt::release;
inline constexpr simt::memory_order copy_seen_order =
    is_mutant("mpi-S") ? simt::relaxed : simt::acquire;
inline constexpr simt::memory_order copy_taken_order =
    is_mutant("mpi-T") ? simt::relaxed : simt::acq_rel;

}  // namespace quarry::inline QUARRY_ABI::mpi
