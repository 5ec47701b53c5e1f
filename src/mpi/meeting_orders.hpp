// SPDX-License-Identifier: Apache-2.0
// Memory orders of meetings that a test can relax (quarry/device/detail/orders.hpp says how).
#pragma once

#include "quarry/device/detail/orders.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

QUARRY_MUTABLE simt::memory_order const block_arrive_order =
    detail::is_mutant("mpi-A") ? simt::relaxed : simt::acq_rel;
QUARRY_MUTABLE simt::memory_order const world_arrive_order =
    detail::is_mutant("mpi-B") ? simt::relaxed : simt::acq_rel;
QUARRY_MUTABLE simt::memory_order const world_wait_order =
    detail::is_mutant("mpi-W") ? simt::relaxed : simt::acquire;
QUARRY_MUTABLE simt::memory_order const publish_order =
    detail::is_mutant("mpi-P") ? simt::relaxed : simt::release;
QUARRY_MUTABLE simt::memory_order const block_wait_order =
    detail::is_mutant("mpi-V") ? simt::relaxed : simt::acquire;
QUARRY_MUTABLE simt::memory_order const node_arrive_order =
    detail::is_mutant("mpi-N") ? simt::relaxed : simt::acq_rel;
// member_arrival.hpp
QUARRY_MUTABLE simt::memory_order const member_arrive_order =
    detail::is_mutant("mpi-J") ? simt::relaxed : simt::acq_rel;
QUARRY_MUTABLE simt::memory_order const member_wait_order =
    detail::is_mutant("mpi-L") ? simt::relaxed : simt::acquire;

}  // namespace quarry::inline QUARRY_ABI::mpi
