// SPDX-License-Identifier: Apache-2.0
// The kernel of the coalescing paper's unit benchmark, which times its phases by each thread's
// clock, and its launch.
#pragma once

#include "harness.hpp"

#include <bit>

namespace bench {

enum phase : std::uint32_t { allocate, initialise, work, deallocate, phases };

inline constexpr std::uint32_t warp_size = quarry::simt::warp_size;

/// The clock, read when `needed` is known: what comes before may be on its way still, and the clock
/// would not wait for it.
QUARRY_HD inline std::uint64_t ticks_after(std::uint64_t needed) {
#ifdef __CUDA_ARCH__
  std::uint64_t now = 0;
  asm volatile(
      "{ .reg .pred known; setp.ne.u64 known, %1, 0xffffffffffffffff; @known mov.u64 %0, "
      "%%clock64; }"
      : "+l"(now)
      : "l"(needed)
      : "memory");
  return now;
#else
  asm volatile("" : : "r"(needed) : "memory");
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

/// Functions of their own, so that the allocator beside them does not change how they are compiled.
QUARRY_SLOW inline void fill(std::uint32_t n, float* data) {
  for (std::uint32_t i = 0; i < n; ++i) data[i] = static_cast<float>(i);
}
template <class Workload>
QUARRY_SLOW float work_with(std::uint32_t n, float* data, std::uint32_t lane) {
  return Workload::run(n, data, lane);
}

/// What one launch leaves for the host.
struct findings {
  std::uint64_t* ticks;  // of each phase, of each thread
  void** arrays;         // of each thread, if they meet
  std::uint64_t* missing;
  std::uint64_t* wrong;
};

template <class Ref, class Workload>
struct unit_kernel {
  Ref heap;
  std::uint32_t floats;
  bool meets;         // in barriers between the phases
  float const* sums;  // what the workload gives on each lane of a warp
  findings found;

  QUARRY_HD void operator()() const {
    auto const here = quarry::simt::this_place();
    auto const lane = here.thread % warp_size;

    std::uint64_t const before_allocating = start();
    auto* data = static_cast<float*>(heap.malloc(floats * sizeof(float)));
    std::uint64_t const allocated = ticks_after(reinterpret_cast<std::uint64_t>(data));
    bool const is_there = data != nullptr;

    std::uint64_t const before_filling = meets ? start() : allocated;
    if (is_there) fill(floats, data);
    std::uint64_t const filled = ticks_after(0);

    std::uint64_t const before_work = meets ? start() : filled;
    float const sum = is_there ? work_with<Workload>(floats, data, lane) : 0;
    std::uint64_t const worked = ticks_after(std::bit_cast<std::uint32_t>(sum));

    if (meets) found.arrays[here.rank()] = data;  // while all are live
    std::uint64_t const before_freeing = meets ? start() : worked;
    heap.free(data);
    std::uint64_t const freed = ticks_after(0);

    std::uint64_t* const ticks = found.ticks + here.rank();
    ticks[allocate * here.count()] = allocated - before_allocating;
    ticks[initialise * here.count()] = filled - before_filling;
    ticks[work * here.count()] = worked - before_work;
    ticks[deallocate * here.count()] = freed - before_freeing;
    if (!is_there)
      count(found.missing);
    else if (sum != sums[lane])
      count(found.wrong);
  }

 private:
  [[nodiscard]] QUARRY_HD std::uint64_t start() const {
    if (meets) quarry::simt::grid_barrier();
    return ticks_after(0);
  }
  QUARRY_HD static void count(std::uint64_t* counter) {
    quarry::simt::atomic_ref<std::uint64_t>{*counter}.fetch_add(1, quarry::simt::relaxed);
  }
};

/// Adds up the ticks of each phase.
struct add_up {
  std::uint64_t threads;
  std::uint64_t const* ticks;
  std::uint64_t* sums;

  QUARRY_HD void operator()() const {
    auto const here = quarry::simt::this_place();
    for (std::uint32_t i = 0; i < phases; ++i) {
      std::uint64_t sum = 0;
      for (std::uint64_t thread = here.rank(); thread < threads; thread += here.count())
        sum += ticks[i * threads + thread];
      quarry::simt::atomic_ref<std::uint64_t>{sums[i]}.fetch_add(sum, quarry::simt::relaxed);
    }
  }
};

#ifdef __CUDACC__
template <class Kernel>
__global__ void __launch_bounds__(1024, 1) run_bounded(Kernel kernel) {
  kernel();
}
#endif

/// Runs all lanes at once, and gives the milliseconds of the host's clock.
template <class Kernel>
double run_together(grid lanes, Kernel kernel) {
  return host_ms([&] {
#ifdef __CUDACC__
    void* arguments[] = {&kernel};
    quarry::simt::check_cuda(
        cudaLaunchCooperativeKernel(reinterpret_cast<void const*>(&run_bounded<Kernel>),
                                    dim3{lanes.blocks}, dim3{lanes.threads}, arguments, 0, nullptr),
        "cudaLaunchCooperativeKernel");
#else
    quarry::simt::launch_threads(lanes, lanes.blocks * lanes.threads, kernel);
#endif
  });
}

#ifdef __CUDACC__
static __global__ void time_clock(long long minimum, std::uint64_t* took) {
  std::uint64_t ns = 0, end = 0;
  auto const begin = clock64();
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
  while (clock64() - begin < minimum) {
  }
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end)::"memory");
  took[0] = static_cast<std::uint64_t>(clock64() - begin);
  took[1] = end - ns;
}
#endif

/// How many ticks there are in a microsecond; measured, since a device's nominal clock is not what
/// it runs at.
inline double ticks_per_us() {
#ifdef __CUDACC__
  static double const measured = [] {
    array<std::uint64_t> took{2};
    time_clock<<<1, 1>>>(40'000'000, took.data());  // 20 ms: the clock rises at first
    time_clock<<<1, 1>>>(10'000'000, took.data());
    wait_for_machine();
    auto const both = took.to_host();
    return 1e3 * static_cast<double>(both[0]) / static_cast<double>(both[1]);
  }();
  return measured;
#else
  return 1e3;
#endif
}

}  // namespace bench
