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

}  // namespace quarry::inline QUARRY_ABI::mpi
