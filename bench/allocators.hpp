// SPDX-License-Identifier: Apache-2.0
// The allocators that the benchmarks compare: Quarry's heap, the platform's malloc, mimalloc, and
// the floor. The floor is one counter, and frees nothing.
#pragma once

#include "harness.hpp"
#include "quarry/heap.hpp"

#include <exception>
#include <iterator>
#include <stdexcept>
#include <type_traits>

#if defined(QUARRY_BENCH_MIMALLOC) && !defined(__CUDACC__)
#include <dlfcn.h>
#endif

namespace bench::inline BENCH_COPY {

/// Whether this program measures the cost of the hardened mode. Such a program measures only
/// Quarry's heap, under another name.
inline constexpr bool is_hardened = quarry::mitigations != quarry::mitigation::none;

/// Quarry's heap.
class quarry_allocator {
 public:
  using ref = quarry::heap_ref;
  static constexpr char const* name = is_hardened ? "quarry-hardened" : "quarry";

  explicit quarry_allocator(bytes size, bytes segment_bytes = 0)
      : heap_{quarry::heap_options{
            .bytes = size, .segment_bytes = segment_bytes, .backend_kind = backend}} {}
  [[nodiscard]] ref device() const { return heap_.ref(); }
  void reset() { heap_.reset(); }
  [[nodiscard]] quarry::heap& heap() { return heap_; }

 private:
  static constexpr quarry::backend backend = on_gpu ? quarry::backend::cuda : quarry::backend::cpu;
  quarry::heap heap_;
};

/// CUDA's malloc in kernels, or the C library's malloc.
class platform_allocator {
 public:
  struct ref {
    [[nodiscard]] QUARRY_HD void* malloc(bytes size) const { return ::malloc(size); }
    QUARRY_HD void free(void* pointer) const { ::free(pointer); }
  };
  static constexpr char const* name = on_gpu ? "cuda" : "libc";

  explicit platform_allocator([[maybe_unused]] bytes size) {
#ifdef __CUDACC__
    // A process can set the limit only before its first kernel that allocates.
    static bool const is_set = [&] {
      quarry::simt::check_cuda(cudaDeviceSetLimit(cudaLimitMallocHeapSize, size),
                               "cudaLimitMallocHeapSize");
      return true;
    }();
    (void)is_set;
#endif
  }
  [[nodiscard]] ref device() const { return {}; }
  void reset() {}
};

#if defined(QUARRY_BENCH_MIMALLOC) && !defined(__CUDACC__)
/// mimalloc, loaded at run time. A program linked with mimalloc has no other malloc.
class mimalloc_allocator {
 public:
  struct ref {
    void* (*allocate)(std::size_t);
    void (*deallocate)(void*);

    [[nodiscard]] void* malloc(bytes size) const { return allocate(size); }
    void free(void* pointer) const { deallocate(pointer); }
  };
  static constexpr char const* name = "mimalloc";

  explicit mimalloc_allocator(bytes) {
    void* const library = dlopen(QUARRY_BENCH_MIMALLOC, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) throw std::runtime_error{dlerror()};
    functions_ = {reinterpret_cast<decltype(ref::allocate)>(dlsym(library, "mi_malloc")),
                  reinterpret_cast<decltype(ref::deallocate)>(dlsym(library, "mi_free"))};
    if (functions_.allocate == nullptr || functions_.deallocate == nullptr)
      throw std::runtime_error{QUARRY_BENCH_MIMALLOC " has no mi_malloc or mi_free"};
  }
  [[nodiscard]] ref device() const { return functions_; }
  void reset() {}

 private:
  ref functions_{};
};
#endif

/// The floor: one atomic addition for all lanes that call together, and no reuse. A faster
/// allocator would have to do even less.
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
      unsigned long long const offset =
          quarry::simt::atomic_ref<unsigned long long>{*next}.fetch_add(rounded,
                                                                        quarry::simt::relaxed);
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

/// Whether only `reset` makes memory available again.
template <class Allocator>
inline constexpr bool never_frees = std::is_same_v<Allocator, bump_allocator>;

/// Whether the allocator can use all memory of the machine, so that no benchmark can fill it.
template <class Allocator>
inline constexpr bool is_unbounded =
    !on_gpu && !never_frees<Allocator> && !std::is_same_v<Allocator, quarry_allocator>;

/// CUDA's malloc takes about a thousand times as long as the other allocators, and hangs in some
/// cases (see `hangs`).
template <class Allocator>
inline constexpr bool is_cuda_malloc = on_gpu && std::is_same_v<Allocator, platform_allocator>;

/// A case in which an allocator did not return within minutes. The benchmark skips it, and writes
/// `known_to_hang` as the error of its records.
struct hang {
  char const* allocator;
  char const* bench;
  bytes minimum, maximum;
  std::uint64_t threads;  // the minimum number
};

/// Observed with CUDA 13.0 on an H200 on 2026-11-21. To try a case again, remove its line. The
/// watchdog ends a program that hangs.
inline constexpr hang hangs[] = {
    {"cuda", "heap/single", 512, 1024, 1u << 20},
    {"cuda", "heap/scaling", 512, 1024, 1u << 20},
    {"cuda", "heap/warm", 512, 1024, 1u << 20},
    {"cuda", "heap/mixed", 1024, 4096, 1u << 20},
    {"cuda", "heap/fragmentation/mixed_span", 1024, 4096, 1u << 20},
    // CUDA's malloc hangs when its heap is full, in this case and in the next two.
    {"cuda", "heap/large", 64_MiB, 64_MiB, 256},
    {"cuda", "heap/utilisation", 0, 1_GiB, 1u << 18},
    {"cuda", "heap/reuse", 0, 1_GiB, 1u << 18},
};

inline bool is_known_to_hang(std::string const& allocator, std::string const& bench, bytes size,
                             std::uint64_t threads) {
  return std::any_of(std::begin(hangs), std::end(hangs), [&](hang const& known) {
    return allocator == known.allocator && bench == known.bench && size >= known.minimum &&
           size <= known.maximum && threads >= known.threads;
  });
}
inline constexpr char const* known_to_hang = "hangs";

/// Calls `body.template operator()<Allocator>()` for each allocator that this program measures.
template <class Body>
void for_all_allocators(Body body) {
  body.template operator()<quarry_allocator>();
  if constexpr (!is_hardened) {
    body.template operator()<bump_allocator>();
    body.template operator()<platform_allocator>();
#if defined(QUARRY_BENCH_MIMALLOC) && !defined(__CUDACC__)
    body.template operator()<mimalloc_allocator>();
#endif
  }
}

/// Calls `body` for each allocator of `for_all` whose name is in `requested`, or for all of them if
/// `requested` is empty. `for_all` calls its argument for each allocator of the program. If
/// `requested` is `--allocators`, prints the names instead. Returns the exit status for `main`. The
/// first exception ends the program, since CUDA does not recover from most errors.
template <class ForAll, class Body>
int for_each_named(std::vector<std::string> const& requested, ForAll for_all, Body body) {
  std::vector<std::string> names;
  for_all([&]<class Allocator>() { names.push_back(Allocator::name); });
  if (requested == std::vector<std::string>{"--allocators"}) {
    for (auto const& name : names) std::puts(name.c_str());
    return 0;
  }
  for (auto const& name : requested) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    std::fprintf(stderr, "error: this program has no allocator '%s'; --allocators lists them\n",
                 name.c_str());
    return 2;
  }
  try {
    for_all([&]<class Allocator>() {
      if (requested.empty() ||
          std::find(requested.begin(), requested.end(), Allocator::name) != requested.end())
        body.template operator()<Allocator>();
    });
  } catch (std::exception const& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}

/// As above, for `for_all_allocators` and the allocators that the arguments name. Most benchmarks
/// return the result from `main`.
template <class Body>
int for_each_allocator(int argc, char** argv, Body body) {
  return for_each_named(
      {argv + 1, argv + argc}, [](auto visitor) { for_all_allocators(std::move(visitor)); },
      std::move(body));
}

inline constexpr bytes heap_bytes = on_gpu ? 8_GiB : 2_GiB;

}  // namespace bench::inline BENCH_COPY
