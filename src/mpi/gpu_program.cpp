// SPDX-License-Identifier: Apache-2.0
#include "gpu_program.hpp"

#include "copy_pool.hpp"
#include "device_memory.hpp"
#include "driver_linker.hpp"
#include "size_text.hpp"
#include "system_scope.hpp"

#include <algorithm>
#include <bit>
#include <initializer_list>
#include <iterator>

// What quarry-mpicc embeds (compiler/link.cpp): cubins, or PTX if it had no ptxas. An array that
// is empty begins with 0.
extern "C" char const quarry_mpi_cubin_32[], quarry_mpi_cubin_64[], quarry_mpi_cubin_128[],
    quarry_mpi_cubin_255[];
// The same for several GPUs, whose atomic operations have system scope.
extern "C" char const quarry_mpi_system_cubin_32[], quarry_mpi_system_cubin_64[],
    quarry_mpi_system_cubin_128[], quarry_mpi_system_cubin_255[];
extern "C" char const quarry_mpi_ptx[], quarry_mpi_ptx_end[], quarry_mpi_runtime_ptx[],
    quarry_mpi_runtime_ptx_end[];
/// Two numbers: the bytes of stack that the call graph needs, and whether it may need more
/// (compiler/report.hpp). Missing if the call graph is unknown.
extern "C" [[gnu::weak]] std::uint64_t const quarry_mpi_stack_32[], quarry_mpi_stack_64[],
    quarry_mpi_stack_128[], quarry_mpi_stack_255[];

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// The code for at most this many registers a thread.
struct variant {
  int registers;
  char const* cubin;
  char const* system_cubin;
  std::uint64_t const* stack;
};

/// The stack if the call graph does not tell how deep calls nest.
constexpr bytes unknown_stack = 16 * 1024;
/// What ptxas's frames do not contain: helper functions of the toolkit (division, for example),
/// which are no entries of the call graph, and what tools such as compute-sanitizer add.
constexpr bytes stack_margin = 512;
constexpr bytes most_stack = 512 * 1024 - 1024;  // CUDA: 512 KiB of local memory for each thread

int attribute(cudaDeviceAttr name) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, name, 0), "cudaDeviceGetAttribute");
  return value;
}

stack_choice choose_stack(bytes asked, std::uint64_t const* need) {
  stack_choice result;
  bytes const known = need == nullptr ? 0 : need[0];
  bytes const bound = (known + stack_margin + 255) / 256 * 256;
  if (asked != 0) {
    result = {asked, 0, "--stack"};
  } else if (known == 0) {
    result = {unknown_stack, 0, "the default, because the call graph is unknown"};
  } else if (need[1] != 0) {
    result = {bound > unknown_stack ? bound : unknown_stack, 0,
              "the default for recursion and calls through pointers; without them the call graph "
              "needs " +
                  std::to_string(known) + " bytes"};
  } else {
    result = {bound, 0, "the call graph, which needs " + std::to_string(known) + " bytes"};
  }
  if (result.size > most_stack)
    throw bad_argument{"the stack of a rank is " + text_of_size(result.size) + " (" +
                       result.reason + "); a GPU allows at most " + text_of_size(most_stack)};
  result.reserved = result.size * static_cast<bytes>(attribute(cudaDevAttrMultiProcessorCount)) *
                    static_cast<bytes>(attribute(cudaDevAttrMaxThreadsPerMultiProcessor));
  return result;
}

/// Large blocks, since the ranks of a block meet in its shared memory. As many threads as a
/// multiprocessor has registers for: 65,536.
int block_for(int registers) { return registers <= 64 ? 1024 : registers <= 128 ? 512 : 256; }

/// How many threads with so many registers run at once, at most.
std::uint64_t most_threads_with(int registers) {
  int const block = block_for(registers);
  int const of_block = (registers + 7) / 8 * 8 * block;
  int const blocks = attribute(cudaDevAttrMaxRegistersPerMultiprocessor) / of_block;
  return static_cast<std::uint64_t>(blocks) * static_cast<std::uint64_t>(block) *
         static_cast<std::uint64_t>(attribute(cudaDevAttrMultiProcessorCount));
}

/// The most registers of a rank. Ranks that share a warp with 31 others wait for each other so
/// often that fewer registers take less time, as long as there are 64: first a warp and a warp of
/// helpers for each rank, then a warp, then a warp for two (docs/design/measurement_log.md).
int best_registers(launch_options const& asked) {
  std::uint64_t const ranks = ranks_of_gpu(asked);
  std::uint32_t const wanted = asked.ranks_per_warp;
  auto const most_with = [&](std::uint32_t shift, std::initializer_list<int> limits) {
    for (int const registers : limits)
      if (ranks << shift <= most_threads_with(registers)) return registers;
    return 0;
  };
  if (wanted <= 1)
    if (int const found = most_with(helper_warp_shift, {255, 128}); found != 0) return found;
  if (wanted != 0) {
    auto const shift = static_cast<std::uint32_t>(5 - std::countr_zero(std::min(wanted, 32u)));
    int const found = most_with(shift, {255, 128, 64});
    return found != 0 ? found : 32;
  }
  for (std::uint32_t const shift : {5u, least_shared_shift})
    if (int const found = most_with(shift, {255, 128, 64}); found != 0) return found;
  return 255;
}

gpu_program load(variant const& which, bool compiles, bool spans_gpus) {
  gpu_program result;
  result.block = block_for(which.registers);
  result.processors = static_cast<std::uint64_t>(attribute(cudaDevAttrMultiProcessorCount));
  result.registers = which.registers;
  result.is_from_driver = compiles;
  std::string linked;
  if (compiles) {
    std::string runtime{quarry_mpi_runtime_ptx, quarry_mpi_runtime_ptx_end};
    if (spans_gpus) runtime = with_system_scope(runtime);
    linked = link_by_driver({{quarry_mpi_ptx, quarry_mpi_ptx_end}, runtime}, which.registers);
  }
  char const* const cubin = spans_gpus ? which.system_cubin : which.cubin;
  cudaError_t const status = cudaLibraryLoadData(&result.library, compiles ? linked.data() : cubin,
                                                 nullptr, nullptr, 0, nullptr, nullptr, 0);
  if (status == cudaErrorNoKernelImageForDevice)
    throw bad_argument{
        "the program has no code for this GPU, whose architecture is sm_" +
        std::to_string(attribute(cudaDevAttrComputeCapabilityMajor)) +
        std::to_string(attribute(cudaDevAttrComputeCapabilityMinor)) +
        "; compile it with quarry-mpicc --ptx, so that the GPU's driver makes the code"};
  check(status, "cudaLibraryLoadData");
  check(cudaLibraryGetKernel(&result.run, result.library, "quarry_mpi_run"),
        "cudaLibraryGetKernel");
  check(cudaLibraryGetKernel(&result.prepare, result.library, "quarry_mpi_prepare"),
        "cudaLibraryGetKernel");
  int blocks = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
            &blocks, reinterpret_cast<void const*>(result.run), result.block, 0),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  result.most_threads = static_cast<std::uint64_t>(blocks) * result.processors *
                        static_cast<std::uint64_t>(result.block);
  return result;
}

}  // namespace

bool has_gpu_code() { return quarry_mpi_cubin_255[0] != 0 || quarry_mpi_ptx[0] != 0; }

void* gpu_program::address_of(char const* variable) const {
  void* address = nullptr;
  std::size_t size = 0;
  check(cudaLibraryGetGlobal(&address, &size, library, variable), "cudaLibraryGetGlobal");
  return address;
}

gpu_program load_program(launch_options const& asked) {
  variant const variants[] = {
      {255, quarry_mpi_cubin_255, quarry_mpi_system_cubin_255, quarry_mpi_stack_255},
      {128, quarry_mpi_cubin_128, quarry_mpi_system_cubin_128, quarry_mpi_stack_128},
      {64, quarry_mpi_cubin_64, quarry_mpi_system_cubin_64, quarry_mpi_stack_64},
      {32, quarry_mpi_cubin_32, quarry_mpi_system_cubin_32, quarry_mpi_stack_32}};
  std::uint32_t const ranks = ranks_of_gpu(asked);
  bool const compiles = quarry_mpi_ptx[0] != 0;
  std::uint64_t most = 0;
  if (asked.registers != 0 &&
      std::none_of(std::begin(variants), std::end(variants), [&](variant const& which) {
        return static_cast<std::uint32_t>(which.registers) == asked.registers;
      }))
    throw bad_argument{"--registers " + std::to_string(asked.registers) +
                       ": must be 32, 64, 128 or 255"};
  std::uint32_t const limit =
      asked.registers != 0 ? asked.registers : static_cast<std::uint32_t>(best_registers(asked));
  for (variant const& which : variants) {
    if (static_cast<std::uint32_t>(which.registers) > limit) continue;
    // The driver needs seconds to compile, so that hopeless limits are not tried.
    if (compiles && which.registers > 32 && most_threads_with(which.registers) < ranks) continue;
    gpu_program program = load(which, compiles, asked.gpus > 1);
    most = program.most_threads;
    if (most >= ranks) {
      program.stack = choose_stack(asked.stack, which.stack);
      return program;
    }
    cudaLibraryUnload(program.library);
  }
  throw bad_argument{
      "-n " + std::to_string(asked.ranks) + ": " +
      (asked.gpus == 1 ? "this GPU runs" : std::to_string(asked.gpus) + " such GPUs run") +
      " at most " + std::to_string(most * asked.gpus) + " ranks of this program at once"};
}

}  // namespace quarry::inline QUARRY_ABI::mpi
