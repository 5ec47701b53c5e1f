// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/config.hpp"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace quarry::inline QUARRY_ABI::mpi {

/// What one GPU of a launch runs: consecutive ranks, in whole thread blocks except for the last
/// GPU's.
struct gpu_part {
  int device = 0;
  std::uint32_t first_rank = 0;
  std::uint32_t ranks = 0;
  std::uint32_t first_block = 0;
  std::uint32_t blocks = 0;
};

/// Divides `ranks` among GPUs as evenly as whole blocks allow. GPUs that would have no rank are
/// left out.
[[nodiscard]] inline std::vector<gpu_part> divide_ranks(std::uint32_t ranks, std::uint32_t gpus,
                                                        std::uint32_t ranks_of_block) {
  std::uint32_t const blocks = (ranks + ranks_of_block - 1) / ranks_of_block;
  std::vector<gpu_part> parts;
  std::uint32_t first = 0;
  for (std::uint32_t i = 0; i < gpus && first < blocks; ++i) {
    std::uint32_t const of_gpu = (blocks - first + gpus - i - 1) / (gpus - i);
    std::uint32_t const first_rank = first * ranks_of_block;
    parts.push_back({static_cast<int>(i), first_rank,
                     std::min(ranks - first_rank, of_gpu * ranks_of_block), first, of_gpu});
    first += of_gpu;
  }
  return parts;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
