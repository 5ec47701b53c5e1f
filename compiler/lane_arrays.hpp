// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <llvm/IR/Module.h>

#include <string>
#include <vector>

namespace quarry::compiler {

/// What became of the array of a collective allocation.
struct lane_array_site {
  std::string place;
  std::string call;     // malloc or calloc
  unsigned width = 0;   // of an element; 0: the array is contiguous
  std::string refusal;  // why
};

/// What the allocations of interleaved arrays call.
enum class lane_array_calls {
  served,  // the runtime's functions for the GPU
  checked  // functions for tests on the CPU: most arrays are those of a rank between two others,
           // whose elements must not change
};

/// Interleaves private arrays: element i of the lane with rank r, of those that allocate together,
/// lies at base + (i * lanes + r) * width. So ranks that read one index at a time read adjacent
/// bytes.
///
/// An array is interleaved if its allocation is collective and the function uses all addresses in
/// it only to read and write elements of one width, to compare them, and to free the array. An
/// allocation calls `quarry_mpi_allocate_array`, which also returns the distance of adjacent
/// elements (src/mpi/rank_arrays.hpp). Comes after functions have been inserted where they are
/// called, and before accesses are combined.
std::vector<lane_array_site> interleave_arrays(llvm::Module& module, lane_array_calls wanted);

/// The sites as lines for people.
std::string text_of(std::vector<lane_array_site> const& sites);

}  // namespace quarry::compiler
