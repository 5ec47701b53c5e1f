// SPDX-License-Identifier: Apache-2.0
// GPU: the memory of a process that other processes write, by NVSHMEM.
#pragma once

#include "launcher.hpp"

#include <cuda_runtime.h>

namespace quarry::inline QUARRY_ABI::mpi {

/// Whether this executable knows NVSHMEM (QUARRY_MPI_NVSHMEM).
[[nodiscard]] bool knows_nvshmem();

/// NVSHMEM as long as it runs in this process, which is one of its PEs. Its host library is loaded
/// when it is needed: from the executable's run path, or where LD_LIBRARY_PATH says. Each function
/// throws resource_failed if NVSHMEM fails.
class nvshmem_memory {
 public:
  /// All processes call it, each with its GPU as CUDA's current device. Process 0 writes what the
  /// others need to find it into `asked.meeting_file`. They wait for that, at most a minute. `size`
  /// is that of this process's memory, which all others can write. It is zero at first.
  nvshmem_memory(launch_options const& asked, bytes size);
  nvshmem_memory(nvshmem_memory const&) = delete;
  /// Waits for the other processes.
  ~nvshmem_memory();

  [[nodiscard]] char* own() const { return own_; }
  /// Where this process's GPU addresses the memory of another process; null if it cannot.
  [[nodiscard]] char* mapped(std::uint32_t process) const;
  /// Lets the program's code use NVSHMEM on the current device.
  void add_code(cudaLibrary_t code) const;
  /// Waits for all processes.
  void meet() const;

 private:
  char* own_ = nullptr;
};

}  // namespace quarry::inline QUARRY_ABI::mpi
