// SPDX-License-Identifier: Apache-2.0
// The machines that one test body runs on: CPU threads, fibers in emulated warps, and the GPU where
// nvcc compiles the test.
//
//   template <class Machine> struct MyTest : testing::Test {};
//   TYPED_TEST_SUITE(MyTest, quarry::test::machines, quarry::test::machine_names);
//   TYPED_TEST(MyTest, DoesThis) {
//     for (auto const seed : TypeParam::seeds()) {
//       TypeParam const machine{seed};
//       auto const heap = machine.make_heap({.bytes = 1_MiB, .segment_bytes = 64_KiB});
//       typename TypeParam::template array<int> results(64);
//       machine.run({2, 32}, my_kernel{heap.ref(), results.data()});
//
// A kernel is a function object at namespace scope with `QUARRY_HD void operator()() const`: CUDA
// allows no lambda in there.
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

/// The number that this environment variable holds, or `otherwise`.
[[nodiscard]] inline std::uint64_t number_from(char const* variable, std::uint64_t otherwise) {
  char const* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoull(text);
}

/// The seeds of the interleavings that each test tries: QUARRY_TEST_SEEDS of them (200), from
/// QUARRY_TEST_FIRST_SEED (1) on; or one in `every`, at least one.
[[nodiscard]] inline std::vector<std::uint64_t> interleavings(std::uint64_t every = 1) {
  std::uint64_t const first = number_from("QUARRY_TEST_FIRST_SEED", 1);
  std::uint64_t const count = number_from("QUARRY_TEST_SEEDS", 200);
  std::vector<std::uint64_t> seeds;
  for (std::uint64_t i = 0; i < std::max<std::uint64_t>(1, count / every); ++i) {
    seeds.push_back(first + i);
  }
  return seeds;
}

/// OS threads, for ThreadSanitizer; each lane a group of its own. Lanes beyond `max_threads` take
/// turns.
class threads_backend {
 public:
  template <class T>
  using array = std::vector<T>;
  static constexpr char const* name = "threads";

  explicit threads_backend(std::uint64_t = 1) {}
  [[nodiscard]] static std::vector<std::uint64_t> seeds() { return seeds_up_to(4); }

  [[nodiscard]] heap make_heap(heap_options options) const {
    options.where = backend::cpu;
    return heap{options};
  }
  template <class Kernel>
  void run(simt::grid lanes, Kernel const& kernel) const {
    simt::launch_threads(lanes, max_threads, kernel);
  }

 private:
  static constexpr std::uint32_t max_threads = 8;
};

/// Fibers in emulated warps, interleaved as the seed decides.
class fibers_backend {
 public:
  template <class T>
  using array = std::vector<T>;
  static constexpr char const* name = "fibers";

  explicit fibers_backend(std::uint64_t seed = 1) : seed_{seed} {}
  [[nodiscard]] static std::vector<std::uint64_t> seeds() { return interleavings(); }

  [[nodiscard]] heap make_heap(heap_options options) const {
    options.where = backend::cpu;
    return heap{options};
  }
  template <class Kernel>
  void run(simt::grid lanes, Kernel const& kernel) const {
    simt::launch_fibers(lanes, {.seed = seed_}, kernel);
  }

 private:
  std::uint64_t seed_;
};

/// Fibers whose lanes leave a slow path together that they called together, as compiled code has
/// them do on a GPU.
class together_machine {
 public:
  template <class T>
  using array = std::vector<T>;
  static constexpr char const* name = "together";

  explicit together_machine(std::uint64_t seed = 1) : seed_{seed} {}
  [[nodiscard]] static std::vector<std::uint64_t> seeds() { return interleavings(4); }

  [[nodiscard]] heap make_heap(heap_options options) const {
    options.where = backend::cpu;
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
  /// Seen by host and kernels, though not at once.
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
    options.where = backend::cuda;
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
using backends = testing::Types<cuda_backend>;  // the others are what the CPU's presets test
#elif defined(__SANITIZE_THREAD__)
using backends =
    testing::Types<threads_backend>;  // ThreadSanitizer does not follow a switch of stacks
#else
using backends = testing::Types<threads_backend, fibers_backend, together_machine>;
#endif

/// Calls the tests after their machines.
struct backend_names {
  template <class Backend>
  static std::string GetName(int) {
    return Backend::name;
  }
};

/// Random numbers that a seed decides.
class dice {
 public:
  explicit dice(std::uint64_t seed) : source_{static_cast<std::uint32_t>(seed)} {}
  std::uint32_t operator()() { return static_cast<std::uint32_t>(source_()); }
  std::uint32_t below(std::uint32_t bound) { return (*this)() % bound; }

 private:
  std::mt19937 source_;
};

/// Enough lanes to get in each other's way, few enough for many seeds.
inline constexpr simt::grid small_grid{2, 64};

/// Fails the test if the heap is damaged, recorded a fault, or holds anything.
inline void expect_sound_and_empty(heap const& used) {
  for (auto const& line : used.audit()) ADD_FAILURE() << line;
  if (auto const what = used.first_fault()) ADD_FAILURE() << *what;
  EXPECT_TRUE(used.live_allocations().empty())
      << used.live_allocations().size() << " allocations were not freed";
}

inline void expect_sound(heap const& used) {
  for (auto const& line : used.audit()) ADD_FAILURE() << line;
}

}  // namespace quarry::test
