// SPDX-License-Identifier: Apache-2.0
// Memory orders of meetings that a test can relax (quarry/device/detail/orders.hpp says how).
#pragma once

#include "quarry/device/detail/orders.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

inline constexpr auto block_arrive_order =
    detail::is_mutant("mpi-A") ? simt::relaxed : simt::acq_rel;
inline constexpr auto world_arrive_order =
    detail::is_mutant("mpi-B") ? simt::relaxed : simt::acq_rel;
inline constexpr auto world_wait_order = detail::is_mutant("mpi-W") ? simt::relaxed : simt::acquire;
inline constexpr auto publish_order = detail::is_mutant("mpi-P") ? simt::relaxed : simt::release;
inline constexpr auto block_wait_order = detail::is_mutant("mpi-V") ? simt::relaxed : simt::acquire;
inline constexpr auto node_arrive_order =
    detail::is_mutant("mpi-N") ? simt::relaxed : simt::acq_rel;

}  // namespace quarry::inline QUARRY_ABI::mpi
