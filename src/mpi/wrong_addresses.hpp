// SPDX-License-Identifier: Apache-2.0
// The report on calls of free and realloc that name no allocation.
#pragma once

#include "quarry/device/heap.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI::mpi {

/// What the launcher says at the end about calls of free and realloc with an address that is not
/// allocated; empty if there were none. `others` is how many of them the heaps do not count.
/// `rank_of` returns the rank of a heap's fault; it is empty if the rank is unknown.
std::string describe_wrong_addresses(std::vector<heap const*> const& heaps, std::uint64_t others,
                                     std::function<std::uint64_t(fault const&)> const& rank_of);

}  // namespace quarry::inline QUARRY_ABI::mpi
