// SPDX-License-Identifier: Apache-2.0
// The back ends that run one test body: CPU threads, fibers in emulated warps, and the GPU where
// nvcc compiles the test.
//
//   template <class Backend> struct MyTest : testing::Test {};
//   TYPED_TEST_SUITE(MyTest, quarry::test::backends, quarry::test::backend_names);
//   TYPED_TEST(MyTest, DoesThis) {
//     for (auto const seed : TypeParam::seeds()) {
//       TypeParam const backend{seed};
//       auto const heap = backend.make_heap({.bytes = 1_MiB, .segment_bytes = 64_KiB});
//       typename TypeParam::template array<int> results(64);
//       backend.run({2, 32}, my_kernel{heap.ref(), results.data()});
//
// A kernel is a function object at namespace scope with `QUARRY_HD void operator()() const`: CUDA
// does not allow a lambda in a test body.
#pragma once

#include "quarry/device/heap.hpp"
#ifdef __CUDACC__
#include "quarry/simt/launch.cuh"
#else
#include "quarry/simt/launch.hpp"
#endif

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

namespace quarry::test {

[[nodiscard]] inline std::vector<std::uint64_t> seeds_up_to(std::uint64_t last) {
  std::vector<std::uint64_t> seeds;
  for (std::uint64_t seed = 1; seed <= last; ++seed) seeds.push_back(seed);
  return seeds;
}

/// The number that the environment variable holds, or `fallback` if it is not set.
[[nodiscard]] inline std::uint64_t environment_number(char const* variable,
                                                      std::uint64_t fallback) {
  char const* const text = std::getenv(variable);
  return text == nullptr ? fallback : std::stoull(text);
}

/// The seeds of the interleavings that each test tries. QUARRY_TEST_FIRST_SEED (1) is the first
/// seed and QUARRY_TEST_SEEDS (200) is their number. With `every`, the number is divided by
/// `every`, and is at least 1.
[[nodiscard]] inline std::vector<std::uint64_t> interleavings(std::uint64_t every = 1) {
  std::uint64_t const first = environment_number("QUARRY_TEST_FIRST_SEED", 1);
  std::uint64_t const count = environment_number("QUARRY_TEST_SEEDS", 200);
  std::vector<std::uint64_t> seeds;
  for (std::uint64_t i = 0; i < std::max<std::uint64_t>(1, count / every); ++i) {
    seeds.push_back(first + i);
  }
  return seeds;
}

/// OS threads, for ThreadSanitizer. Each lane is a group of its own. At most `max_threads` lanes
/// run at once; the other lanes wait for a free thread.
class threads_backend {
 public:
  template <class T>
  using array = std::vector<T>;
  static constexpr char const* name = "threads";

  explicit threads_backend(std::uint64_t = 1) {}
  [[nodiscard]] static std::vector<std::uint64_t> seeds() { return seeds_up_to(4); }

  [[nodiscard]] heap make_heap(heap_options options) const {
    options.backend_kind = backend::cpu;
    return heap{options};
  }
  template <class Kernel>
  void run(simt::grid lanes, Kernel const& kernel) const {
    simt::launch_threads(lanes, max_threads, kernel);
  }

 private:
  static constexpr std::uint32_t max_threads = 8;
};

/// Fibers in emulated warps. The seed decides how they interleave.
class fibers_backend {
 public:
  template <class T>
  using array = std::vector<T>;
  static constexpr char const* name = "fibers";

  explicit fibers_backend(std::uint64_t seed = 1) : seed_{seed} {}
  [[nodiscard]] static std::vector<std::uint64_t> seeds() { return interleavings(); }

  [[nodiscard]] heap make_heap(heap_options options) const {
    options.backend_kind = backend::cpu;
    return heap{options};
  }
  template <class Kernel>
  void run(simt::grid lanes, Kernel const& kernel) const {
    simt::launch_fibers(lanes, {.seed = seed_}, kernel);
  }

 private:
  std::uint64_t seed_;
};

/// Fibers that return from a slow path together if they called it together, as compiled code does
/// on a GPU.
class together_backend {
 public:
  template <class T>
  using array = std::vector<T>;
  static constexpr char const* name = "together";

  explicit together_backend(std::uint64_t seed = 1) : seed_{seed} {}
  [[nodiscard]] static std::vector<std::uint64_t> seeds() { return interleavings(4); }

  [[nodiscard]] heap make_heap(heap_options options) const {
    options.backend_kind = backend::cpu;
    return heap{options};
  }
  template <class Kernel>
  void run(simt::grid lanes, Kernel const& kernel) const {
    simt::launch_fibers(lanes, {.seed = seed_, .returns_together = true}, kernel);
  }

 private:
  std::uint64_t seed_;
};

#ifdef __CUDACC__
/// The current CUDA device.
class cuda_backend {
 public:
  /// Memory that the host and kernels access, but not at the same time.
  template <class T>
  class array {
    static_assert(std::is_trivially_copyable_v<T>);

   public:
    explicit array(std::size_t size, T const& value = T{}) : size_{size} {
      simt::check_cuda(cudaMallocManaged(&data_, std::max<std::size_t>(1, size) * sizeof(T)),
                       "cudaMallocManaged");
      std::fill(begin(), end(), value);
    }
    array(array const&) = delete;
    array& operator=(array const&) = delete;
    ~array() { cudaFree(data_); }

    [[nodiscard]] T* data() { return data_; }
    [[nodiscard]] std::size_t size() const { return size_; }
    [[nodiscard]] T* begin() { return data_; }
    [[nodiscard]] T* end() { return data_ + size_; }
    [[nodiscard]] T& operator[](std::size_t i) { return data_[i]; }

   private:
    T* data_ = nullptr;
    std::size_t size_;
  };
  static constexpr char const* name = "cuda";

  explicit cuda_backend(std::uint64_t = 1) {}
  [[nodiscard]] static std::vector<std::uint64_t> seeds() { return seeds_up_to(4); }

  [[nodiscard]] heap make_heap(heap_options options) const {
    options.backend_kind = backend::cuda;
    return heap{options};
  }
  template <class Kernel>
  void run(simt::grid lanes, Kernel const& kernel) const {
    simt::launch_cuda(lanes, kernel);
    simt::check_cuda(cudaDeviceSynchronize(), "kernel");
  }
};
#endif

#if defined(__CUDACC__)
using backends = testing::Types<cuda_backend>;  // the presets of the CPU test the others
#elif defined(__SANITIZE_THREAD__)
using backends =
    testing::Types<threads_backend>;  // ThreadSanitizer does not follow a switch of stacks
#elif defined(QUARRY_ONLY_FIBERS)  // one is enough for errors of memory, and fibers interleave most
using backends = testing::Types<fibers_backend>;
#else
using backends = testing::Types<threads_backend, fibers_backend, together_backend>;
#endif

/// Names each typed test after its back end.
struct backend_names {
  template <class Backend>
  static std::string GetName(int) {
    return Backend::name;
  }
};

/// A random number generator. Equal seeds give equal numbers.
class dice {
 public:
  explicit dice(std::uint64_t seed) : source_{static_cast<std::uint32_t>(seed)} {}
  std::uint32_t operator()() { return static_cast<std::uint32_t>(source_()); }
  std::uint32_t below(std::uint32_t bound) { return (*this)() % bound; }

 private:
  std::mt19937 source_;
};

/// Enough lanes to contend with each other, and few enough for many seeds.
inline constexpr simt::grid small_grid{2, 64};

/// Fails the test if the heap is damaged, recorded a fault, or has live allocations.
inline void expect_sound_and_empty(heap const& used) {
  for (auto const& line : used.audit()) ADD_FAILURE() << line;
  if (auto const fault = used.first_fault()) ADD_FAILURE() << *fault;
  EXPECT_TRUE(used.live_allocations().empty())
      << used.live_allocations().size() << " allocations were not freed";
}

inline void expect_sound(heap const& used) {
  for (auto const& line : used.audit()) ADD_FAILURE() << line;
}

}  // namespace quarry::test
