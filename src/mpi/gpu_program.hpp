// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher.hpp"

#include <cuda_runtime.h>

namespace quarry::inline QUARRY_ABI::mpi {

/// The stack of each rank on a GPU.
struct stack_choice {
  bytes size = 0;      // of each rank
  bytes reserved = 0;  // for all threads that the GPU can run: the driver reserves as much
  std::string reason;  // where `size` comes from
};

/// The program's code on the GPU, for one limit of registers.
struct gpu_program {
  cudaLibrary_t library = nullptr;
  cudaKernel_t run = nullptr;
  cudaKernel_t prepare = nullptr;
  int registers = 0;               // the limit
  int block = 0;                   // threads of a thread block
  std::uint64_t processors = 0;    // of the GPU
  std::uint64_t most_threads = 0;  // that run at once
  bool is_from_driver = false;     // the driver has compiled it
  stack_choice stack;

  /// The address of a variable of the program in the GPU's memory.
  [[nodiscard]] void* address_of(char const* variable) const;
};

/// Whether the executable has code for a GPU.
[[nodiscard]] bool has_gpu_code();

/// Loads the code with the most registers with which all ranks run at once. Throws bad_argument if
/// they never do, or if the stack has no possible size.
[[nodiscard]] gpu_program load_program(launch_options const& asked);

}  // namespace quarry::inline QUARRY_ABI::mpi
