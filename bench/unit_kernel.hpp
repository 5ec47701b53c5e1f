// SPDX-License-Identifier: Apache-2.0
// The kernel of the coalescing paper's unit benchmark, and its launch. Each thread times its phases
// by its own clock.
#pragma once

#include "harness.hpp"

#include <bit>

namespace bench {

enum phase : std::uint32_t { allocate, initialise, work, deallocate, phases };

inline constexpr std::uint32_t warp_size = quarry::simt::warp_size;

/// Reads the clock after the value `needed` has arrived. Without the dependency the clock would not
/// wait for loads before it.
QUARRY_HD inline std::uint64_t ticks_after(std::uint64_t needed) {
#ifdef __CUDA_ARCH__
  std::uint64_t ticks = 0;
  asm volatile(
      "{ .reg .pred known; setp.ne.u64 known, %1, 0xffffffffffffffff; @known mov.u64 %0, "
      "%%clock64; }"
      : "+l"(ticks)
      : "l"(needed)
      : "memory");
  return ticks;
#else
  asm volatile("" : : "r"(needed) : "memory");
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

// Separate functions, so that the allocator does not change how they are compiled.

QUARRY_SLOW inline void fill(std::uint32_t n, float* data) {
  for (std::uint32_t i = 0; i < n; ++i) data[i] = static_cast<float>(i);
}
template <class Workload>
QUARRY_SLOW float work_with(std::uint32_t n, float* data, std::uint32_t lane) {
  return Workload::run(n, data, lane);
}

/// Where one launch stores its results for the host.
struct findings {
  std::uint64_t* ticks;    // of all threads, phase by phase
  void** arrays;           // the array of each thread, if the kernel has barriers
  std::uint64_t* missing;  // the number of threads without memory
  std::uint64_t* wrong;    // the number of wrong sums
};

template <class Ref, class Workload>
struct unit_kernel {
  Ref heap;
  std::uint32_t floats;
  bool has_barriers;  // before each phase
  float const* sums;  // the expected sum of each lane of a warp
  findings found;

  QUARRY_HD void operator()() const {
    auto const place = quarry::simt::this_place();
    auto const lane = place.thread % warp_size;

    std::uint64_t const before_allocating = start();
    auto* data = static_cast<float*>(heap.malloc(floats * sizeof(float)));
    std::uint64_t const allocated = ticks_after(reinterpret_cast<std::uint64_t>(data));
    bool const has_array = data != nullptr;

    std::uint64_t const before_filling = has_barriers ? start() : allocated;
    if (has_array) fill(floats, data);
    std::uint64_t const filled = ticks_after(0);

    std::uint64_t const before_work = has_barriers ? start() : filled;
    float const sum = has_array ? work_with<Workload>(floats, data, lane) : 0;
    std::uint64_t const worked = ticks_after(std::bit_cast<std::uint32_t>(sum));

    if (has_barriers) found.arrays[place.rank()] = data;  // while all arrays are live
    std::uint64_t const before_freeing = has_barriers ? start() : worked;
    heap.free(data);
    std::uint64_t const freed = ticks_after(0);

    std::uint64_t* const ticks = found.ticks + place.rank();
    ticks[allocate * place.count()] = allocated - before_allocating;
    ticks[initialise * place.count()] = filled - before_filling;
    ticks[work * place.count()] = worked - before_work;
    ticks[deallocate * place.count()] = freed - before_freeing;
    if (!has_array)
      count(found.missing);
    else if (sum != sums[lane])
      count(found.wrong);
  }

 private:
  [[nodiscard]] QUARRY_HD std::uint64_t start() const {
    if (has_barriers) quarry::simt::grid_barrier();
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
    auto const place = quarry::simt::this_place();
    for (std::uint32_t i = 0; i < phases; ++i) {
      std::uint64_t sum = 0;
      for (std::uint64_t thread = place.rank(); thread < threads; thread += place.count())
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

/// Runs all lanes at once. Returns the milliseconds by the host's clock.
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
/// Spins for `minimum` ticks. Stores the ticks and the nanoseconds that passed in `elapsed`.
static __global__ void time_clock(long long minimum, std::uint64_t* elapsed) {
  std::uint64_t ns = 0, end = 0;
  auto const begin = clock64();
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
  while (clock64() - begin < minimum) {
  }
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end)::"memory");
  elapsed[0] = static_cast<std::uint64_t>(clock64() - begin);
  elapsed[1] = end - ns;
}
#endif

/// The ticks in a microsecond. They are measured, since a device does not run at its nominal clock.
inline double ticks_per_us() {
#ifdef __CUDACC__
  static double const measured = [] {
    array<std::uint64_t> elapsed{2};
    time_clock<<<1, 1>>>(40'000'000, elapsed.data());  // 20 ms, while the clock rate rises
    time_clock<<<1, 1>>>(10'000'000, elapsed.data());
    wait_for_device();
    auto const ticks_and_ns = elapsed.to_host();
    return 1e3 * static_cast<double>(ticks_and_ns[0]) / static_cast<double>(ticks_and_ns[1]);
  }();
  return measured;
#else
  return 1e3;
#endif
}

}  // namespace bench
