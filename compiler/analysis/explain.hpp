// SPDX-License-Identifier: Apache-2.0
// The answer of the analysis in words.
#pragma once

#include <llvm/IR/Module.h>

#include <cstdint>
#include <string>
#include <vector>

namespace quarry::compiler {

/// How ranks call an allocation.
enum class allocation_class : std::uint8_t {
  none,     // NO: not all ranks call it, or not equally often
  varying,  // CV: all ranks call it; the sizes may differ
  uniform   // CU: all ranks call it, with one size
};

/// An allocating call in one context.
struct allocation_site {
  std::string file;
  unsigned line = 0;
  unsigned column = 0;
  std::string function;  // whose body has the call
  std::string context;   // the calls that lead to it, the innermost first
  std::string call;      // such as malloc
  std::string branch;  // the place of the branch before which one call serves several (merge_arms)
  std::vector<std::string> merged;  // the places of the others that this call serves
  allocation_class kind = allocation_class::none;
  std::string reason;               // a sentence
  bool is_sync_safe = false;        // ranks could wait here for all others (sync_safety.hpp)
  std::string wait;                 // why not: «MPI_Recv at a.c:9»
  std::vector<std::uint32_t> path;  // path_of(call)
};

/// Classifies each allocating call of the program in each context, in the order of the source. The
/// program's calls must have numbers (number_calls). Calls that the program cannot reach, or that
/// lie on a path that ends the job, are none. Reasons take time, and are left out unless asked for.
std::vector<allocation_site> classify_allocations(llvm::Module const& program, bool has_reasons);

/// CU, CV or NO.
char const* name_of(allocation_class kind);

/// The sites as lines for people, as lines of JSON, and as the source with a comment at each site.
std::string explain_text(std::vector<allocation_site> const& sites);
std::string explain_json(std::vector<allocation_site> const& sites);
std::string explain_source(std::vector<allocation_site> const& sites);

}  // namespace quarry::compiler
