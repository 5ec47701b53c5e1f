// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "clock_offsets.hpp"
#include "gpu_part.hpp"
#include "gpu_program.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Compares the clocks of a launch's GPUs with that of the first, before the ranks run. Takes some
/// milliseconds. Nothing is known if a GPU does not answer. Throws resource_failed.
[[nodiscard]] gpu_clocks compare_clocks(gpu_program const& program,
                                        std::vector<gpu_part> const& parts);

}  // namespace quarry::inline QUARRY_ABI::mpi
