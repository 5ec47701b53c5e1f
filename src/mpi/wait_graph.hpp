// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "world.hpp"

#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI::mpi {

/// Who waits for whom, in a few lines: the circles of ranks that wait for each other, and the ranks
/// that do not wait although others wait for them. A rank in a collective operation waits for the
/// lowest rank that is not in this operation. Empty if nobody waits for one rank. Takes n log n
/// steps for n ranks.
std::string describe_wait_graph(std::vector<rank_state> const& ranks);

}  // namespace quarry::inline QUARRY_ABI::mpi
