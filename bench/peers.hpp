// SPDX-License-Identifier: Apache-2.0
// The peers of host pools on a CPU: the C library's malloc with its default settings and with its
// best settings, and mimalloc.
#pragma once

#include "allocators.hpp"

#include <malloc.h>

namespace bench {

/// Makes glibc's malloc keep freed memory: it no longer trims its heap, and it maps only
/// allocations above 32 MiB separately, which is the highest limit that it accepts. This holds for
/// the whole process and cannot be undone. Returns false with another C library.
inline bool make_malloc_keep_memory() {
#ifdef __GLIBC__
  return mallopt(M_TRIM_THRESHOLD, 1 << 30) == 1 && mallopt(M_MMAP_THRESHOLD, 32 << 20) == 1 &&
         mallopt(M_TOP_PAD, 64 << 20) == 1;
#else
  return false;
#endif
}

/// The C library's malloc with its current settings.
struct c_library {
  static constexpr char const* name = "libc";
  void* allocate(bytes size) { return std::malloc(size); }
  void deallocate(void* memory, bytes) { std::free(memory); }
};

/// The C library's malloc, set to keep freed memory. The constructor also changes `c_library`.
struct keeping_c_library : c_library {
  static constexpr char const* name = "libc-keeps";
  keeping_c_library() {
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
using mimalloc_on_host = c_library;  // never constructed
#endif

}  // namespace bench
