// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "explain.hpp"

namespace quarry::compiler {

/// What the program's allocating calls become.
enum class allocation_calls {
  served,    // collective ones call the runtime's collective functions
  recorded,  // they stay, and each reports its number in the list of sites and its size, for tests
  preceded_by_meetings  // at sync-safe ones ranks wait for all others, for tests on the CPU
};

/// Hands the classes to the runtime. A call that all ranks make with one size calls
/// `quarry_c_malloc_collective` or `quarry_c_calloc_collective`.
///
/// A function whose calls have other classes in other contexts gets a copy for each combination:
/// the contexts of a function form a tree, and equal subtrees share one copy. A function has at
/// most `max_copies` of them; further contexts use the original, whose calls have no class.
void specialise(llvm::Module& program, std::vector<allocation_site> const& sites,
                allocation_calls wanted);

inline constexpr unsigned max_copies = 8;

}  // namespace quarry::compiler
