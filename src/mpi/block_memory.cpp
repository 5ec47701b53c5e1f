// SPDX-License-Identifier: Apache-2.0
#include "block_memory.hpp"

#include "copy_pool.hpp"
#include "device_memory.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

block_memory reserve_shared_memory(gpu_program const& program, std::uint64_t blocks,
                                   std::uint32_t shift) {
  auto const* const kernel = reinterpret_cast<void const*>(program.run);
  auto const block = static_cast<std::uint32_t>(program.block);
  cudaFuncAttributes fixed{};  // the ranks of a block meet in shared memory, too
  check(cudaFuncGetAttributes(&fixed, kernel), "cudaFuncGetAttributes");
  std::uint64_t const blocks_of_processor = (blocks + program.processors - 1) / program.processors;
  block_memory result{0, copy_pool::bytes_of_jobs(block, shift)};
  std::uint32_t const used = static_cast<std::uint32_t>(fixed.sharedSizeBytes) + result.jobs;
  // the cache has the stacks of the ranks; their helpers need little of it
  result.pieces = copy_pool::bytes_for(blocks_of_processor,
                                       helpers_exist(shift) ? block >> shift : block, used);
  auto const fits = [&] {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(result.size())),
          "cudaFuncSetAttribute");
    int fitting = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fitting, kernel, program.block,
                                                        result.size()),
          "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    return static_cast<std::uint64_t>(fitting) >= blocks_of_processor;
  };
  if (result.pieces != 0 && !fits()) result.pieces = 0;
  if (result.size() == 0 || !fits()) return result;
  int all = 0;
  check(cudaDeviceGetAttribute(&all, cudaDevAttrMaxSharedMemoryPerMultiprocessor, 0),
        "cudaDeviceGetAttribute");
  int reserved = 0;
  check(cudaDeviceGetAttribute(&reserved, cudaDevAttrReservedSharedMemoryPerBlock, 0),
        "cudaDeviceGetAttribute");
  std::uint64_t const needed = blocks_of_processor * (result.size() + fixed.sharedSizeBytes +
                                                      static_cast<std::uint64_t>(reserved));
  auto const percent = static_cast<int>((needed * 100 + static_cast<std::uint64_t>(all) - 1) /
                                        static_cast<std::uint64_t>(all));
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, percent),
        "cudaFuncSetAttribute");
  return result;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
