// SPDX-License-Identifier: Apache-2.0
// The allocators that benchmarks compare: ours, the platform's, and the floor: one counter, and never a free.
#pragma once

#include "harness.hpp"
#include "quarry/quarry.hpp"

#include <memory>

#if defined(QUARRY_BENCH_MIMALLOC) && !defined(__CUDACC__)
#include <mimalloc.h>
#endif

namespace bench {

/// Ours.
class quarry_allocator {
 public:
  using ref = quarry::heap_ref;
  static constexpr char const* name = "quarry";

  explicit quarry_allocator(bytes size) : heap_{quarry::heap_options{.bytes = size, .where = machine}} {}
  [[nodiscard]] ref device() const { return heap_.ref(); }
  void reset() { heap_.reset(); }
  [[nodiscard]] quarry::heap& heap() { return heap_; }

 private:
  static constexpr quarry::machine machine = on_gpu ? quarry::machine::cuda : quarry::machine::cpu;
  quarry::heap heap_;
};

/// CUDA's malloc in kernels, or the C library's.
class platform_allocator {
 public:
  struct ref {
    [[nodiscard]] QUARRY_HD void* malloc(bytes size) const { return ::malloc(size); }
    QUARRY_HD void free(void* pointer) const { ::free(pointer); }
  };
  static constexpr char const* name = on_gpu ? "cuda" : "libc";

  explicit platform_allocator([[maybe_unused]] bytes size) {
#ifdef __CUDACC__
    // The limit can be set only once a process, before its first kernel that allocates.
    static bool const set = [&] {
      quarry::simt::check_cuda(cudaDeviceSetLimit(cudaLimitMallocHeapSize, size), "cudaLimitMallocHeapSize");
      return true;
    }();
    (void)set;
#endif
  }
  [[nodiscard]] ref device() const { return {}; }
  void reset() {}
};

#if defined(QUARRY_BENCH_MIMALLOC) && !defined(__CUDACC__)
class mimalloc_allocator {
 public:
  struct ref {
    [[nodiscard]] void* malloc(bytes size) const { return mi_malloc(size); }
    void free(void* pointer) const { mi_free(pointer); }
  };
  static constexpr char const* name = "mimalloc";

  explicit mimalloc_allocator(bytes) {}
  [[nodiscard]] ref device() const { return {}; }
  void reset() {}
};
#endif

/// One addition for all lanes that are here, no reuse: what can hardly be beaten without giving up more.
class bump_allocator {
 public:
  struct ref {
    unsigned long long* next;
    unsigned long long base;
    unsigned long long limit;

    [[nodiscard]] QUARRY_HD void* malloc(bytes size) const {
      unsigned long long const rounded = (size + 15) / 16 * 16;
#ifdef __CUDA_ARCH__
      auto const group = quarry::simt::lane_group::coalesced<class bump_site>();
      unsigned long long offset = 0;
      if (group.match(rounded).members() == group.members()) {
        if (group.is_leader()) offset = atomicAdd(next, rounded * group.size());
        offset = group.broadcast(offset) + rounded * group.rank();
      } else {
        offset = atomicAdd(next, rounded);
      }
#else
      unsigned long long const offset = quarry::simt::atomic_ref<unsigned long long>{*next}.fetch_add(rounded, quarry::simt::relaxed);
#endif
      return offset + rounded <= limit ? reinterpret_cast<void*>(base + offset) : nullptr;
    }
    QUARRY_HD void free(void*) const {}
  };
  static constexpr char const* name = "bump";

  explicit bump_allocator(bytes size) : memory_{size}, next_{1} {}
  [[nodiscard]] ref device() const {
    return {next_.data(), reinterpret_cast<unsigned long long>(memory_.data()), memory_.size()};
  }
  void reset() { next_.zero(); }

 private:
  array<char> memory_;
  array<unsigned long long> next_;
};

/// Whether `wanted` is among the program's arguments, or there are none.
inline bool chosen(int argc, char** argv, std::string const& wanted) {
  if (argc < 2) return true;
  return std::any_of(argv + 1, argv + argc, [&](char const* argument) { return wanted == argument; });
}

/// Calls `body.template operator()<Allocator>()` for each allocator that the arguments choose.
template <class Body>
void for_each_allocator(int argc, char** argv, Body body) {
  if (chosen(argc, argv, quarry_allocator::name)) body.template operator()<quarry_allocator>();
  if (chosen(argc, argv, bump_allocator::name)) body.template operator()<bump_allocator>();
  if (chosen(argc, argv, platform_allocator::name)) body.template operator()<platform_allocator>();
#if defined(QUARRY_BENCH_MIMALLOC) && !defined(__CUDACC__)
  if (chosen(argc, argv, mimalloc_allocator::name)) body.template operator()<mimalloc_allocator>();
#endif
}

inline constexpr bytes heap_bytes = on_gpu ? 8_GiB : 2_GiB;

}  // namespace bench
