// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace quarry::compiler {

/// The runtime for the GPU, compiled for at most `registers` registers a thread.
struct gpu_runtime {
  std::string registers;
  std::string cubin;         // for one GPU
  std::string system_cubin;  // for several GPUs: atomic operations have system scope
  // for ranks of several processes, with the functions that call NVSHMEM; empty without NVSHMEM
  std::string processes_cubin;
  std::string transport_cubin;
};

/// Where the parts of Quarry, Clang and the CUDA toolkit are. The build writes them to
/// quarry-mpicc.cfg beside the executable, a key and a value in each line. `@` at the start of a
/// value is the folder of the executable, so that an installation can be moved.
struct installation {
  std::string version;
  std::string clang;
  std::string plugin;          // of Clang: allows variable-length arrays for GPUs; can be empty
  std::string ptxas, nvlink;   // empty if they are missing
  std::string runtime_ptx;     // the GPU's runtime for the driver's compiler
  std::string math;            // the CUDA toolkit's mathematical functions as bitcode
  std::string complex;         // the GPU's functions of <complex.h> as bitcode
  std::string include;         // has mpi.h
  std::string functions;       // the archive that defines all functions of the runtime
  std::string function_types;  // of the runtime on the GPU (call_types.hpp)
  std::string nvshmem;         // NVSHMEM's functions for GPUs, an archive; can be empty
  std::vector<gpu_runtime> runtimes;             // by ascending number of registers
  std::vector<std::string> runtime_libraries;    // the launcher and the runtime
  std::vector<std::string> processes_libraries;  // the same for ranks of several processes
  std::vector<std::string> libraries;            // what the executable links beside

  [[nodiscard]] bool has_gpu() const { return !runtimes.empty(); }
  /// The same for ranks of several processes.
  [[nodiscard]] bool has_gpu_processes() const { return has_gpu() && !nvshmem.empty(); }
  /// Whether machine code for the GPU can be made here.
  [[nodiscard]] bool has_assembler() const { return !ptxas.empty() && !nvlink.empty(); }
};

installation find_installation();

}  // namespace quarry::compiler
