// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// A thread of the GPU that has failed.
struct gpu_fault {
  std::uint64_t device = 0;  // the GPU's number
  std::uint64_t thread = 0;  // its number in the GPU's launch
  std::uint32_t kind = 0;    // CUDA's number of the exception
  std::string function;      // where; empty if unknown
};

/// The core file that CUDA's driver writes when a kernel fails: the only way to learn which thread
/// it was, because the GPU's memory is lost then. The kernel runs as fast as without it. The file
/// has no memory of the GPU, only the threads' places. The driver also prints a line on stderr.
///
/// After the file the driver calls abort(). A handler of SIGABRT stops the driver's thread there,
/// so that the launcher can report the fault and end the process. Rejected: the driver's option not
/// to abort. With it, kernels went on after a fault as if nothing had happened.
class fault_core {
 public:
  /// Asks the driver for the file. Call it before any other function of CUDA. Has no effect if the
  /// user asks for core files by CUDA's own variables.
  fault_core();
  fault_core(fault_core const&) = delete;
  /// Removes the file.
  void remove() const;

  /// Whether the driver has begun the file. It does so when a kernel fails, even if the kernel then
  /// ends without an error.
  [[nodiscard]] bool exists() const;

  /// Whether the driver has written a file. The process must end then, without calls of CUDA.
  [[nodiscard]] static bool is_written();

  /// The threads that have failed; empty if there is no file. `block`: threads of a thread block.
  [[nodiscard]] std::vector<gpu_fault> read(std::uint32_t block) const;

 private:
  std::string path_;  // empty: there will be no file
};

/// What has happened, by CUDA's number of the exception.
std::string describe_kind(std::uint32_t kind);

}  // namespace quarry::inline QUARRY_ABI::mpi
