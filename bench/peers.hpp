// SPDX-License-Identifier: Apache-2.0
// What host pools are compared with on a CPU: the C library's malloc as it is set by default and as
// it does best, and mimalloc.
#pragma once

#include "allocators.hpp"

#include <malloc.h>

namespace bench {

/// From now on glibc's malloc keeps what is freed: it neither trims its heap nor maps large
/// allocations one by one, unless they are larger than 32 MiB, which is the limit that it accepts.
/// For the whole process, and for good. False if this is another C library.
inline bool make_malloc_keep_memory() {
#ifdef __GLIBC__
  return mallopt(M_TRIM_THRESHOLD, 1 << 30) == 1 && mallopt(M_MMAP_THRESHOLD, 32 << 20) == 1 &&
         mallopt(M_TOP_PAD, 64 << 20) == 1;
#else
  return false;
#endif
}

/// The C library's malloc, as it is set.
struct c_library {
  static constexpr char const* name = "libc";
  void* allocate(bytes size) { return std::malloc(size); }
  void deallocate(void* memory, bytes) { std::free(memory); }
};

/// The same, set to keep memory; so is `c_library` in this process from then on.
struct c_library_that_keeps : c_library {
  static constexpr char const* name = "libc-keeps";
  c_library_that_keeps() {
    if (!make_malloc_keep_memory()) throw std::runtime_error{"mallopt refused to keep memory"};
  }
};

#if defined(QUARRY_BENCH_MIMALLOC) && !defined(__CUDACC__)
inline constexpr bool has_mimalloc = true;

struct mimalloc_on_host {
  static constexpr char const* name = "mimalloc";
  mimalloc_allocator::ref functions = mimalloc_allocator{0}.device();
  void* allocate(bytes size) { return functions.malloc(size); }
  void deallocate(void* memory, bytes) { functions.free(memory); }
};
#else
inline constexpr bool has_mimalloc = false;
using mimalloc_on_host = c_library;  // never made
#endif

}  // namespace bench
