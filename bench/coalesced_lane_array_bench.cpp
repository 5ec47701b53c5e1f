// SPDX-License-Identifier: Apache-2.0
// How much faster is work on private arrays if the arrays of a warp are interleaved?
//
// In one kernel each thread allocates an array of n floats, writes 0 to n - 1, works, and frees.
// Barriers of the grid separate the phases. Work is linear, sum += data[i], or quadratic,
// sum += data[i] * data[j] for all pairs. A figure is the mean over all threads of a thread's
// cycles in a phase. Medians are over 20 runs after 2 warm-ups. (Seed: coalesced allocation,
// section 4.1, listings 2 and 3.)
//
// On the CPU, lanes are fibers, nothing is coalesced, and figures are in nanoseconds. That only
// tests the program.
#include "quarry/device/coalescing/lane_array.hpp"
#include "trial.hpp"

#include <cmath>

namespace {

constexpr char const* unit = bench::on_gpu ? "cycles" : "ns";

QUARRY_HD inline std::uint64_t clock_value() {
#ifdef __CUDA_ARCH__
  return static_cast<std::uint64_t>(clock64());
#else
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds{std::chrono::steady_clock::now().time_since_epoch()}.count());
#endif
}

/// Runs the kernel and waits for it. All lanes run at once, as barriers of the grid require.
template <class Kernel>
void run_together(bench::grid lanes, Kernel const& kernel) {
#ifdef __CUDACC__
  quarry::simt::launch_cuda_cooperative(lanes, kernel);
  bench::wait_for_device();
#else
  quarry::simt::launch_fibers(lanes, {.seed = 1, .switches = 0, .partial_groups = 0}, kernel);
#endif
}

struct interleaved {
  static constexpr char const* name = "interleaved";
  using array = quarry::lane_array<float>;

  template <class Ref>
  [[nodiscard]] QUARRY_HD static array allocate(Ref const& heap, std::uint32_t floats) {
    return array::make(heap, floats);
  }
  template <class Ref>
  QUARRY_HD static void free(Ref const& heap, array data) {
    data.destroy(heap);
  }
};

struct contiguous {
  static constexpr char const* name = "contiguous";
  using array = float*;

  template <class Ref>
  [[nodiscard]] QUARRY_HD static array allocate(Ref const& heap, std::uint32_t floats) {
    return static_cast<float*>(heap.malloc(quarry::bytes{floats} * sizeof(float)));
  }
  template <class Ref>
  QUARRY_HD static void free(Ref const& heap, array data) {
    heap.free(data);
  }
};

struct linear {
  static constexpr char const* name = "linear";

  template <class Array>
  [[nodiscard]] QUARRY_HD static float work(Array const& data, std::uint32_t floats) {
    float sum = 0;
    for (std::uint32_t i = 0; i < floats; ++i) sum += data[i];
    return sum;
  }
  [[nodiscard]] QUARRY_HD static float expected(float numbers) {
    return numbers * (numbers - 1) / 2;
  }
};

struct quadratic {
  static constexpr char const* name = "quadratic";

  template <class Array>
  [[nodiscard]] QUARRY_HD static float work(Array const& data, std::uint32_t floats) {
    float sum = 0;
    for (std::uint32_t i = 0; i < floats; ++i) {
      for (std::uint32_t j = 0; j < floats; ++j) sum += data[i] * data[j];
    }
    return sum;
  }
  [[nodiscard]] QUARRY_HD static float expected(float numbers) {
    return linear::expected(numbers) * linear::expected(numbers);
  }
};

constexpr std::uint32_t phases = 4;  // allocate, initialise, work, free

/// `spent` receives the cycles of all lanes, phase by phase.
template <class Ref, class Layout, class Workload>
struct phases_kernel {
  Ref heap;
  std::uint32_t floats;
  std::uint64_t* spent;
  std::uint64_t* wrong;

  QUARRY_HD void operator()() const {
    auto const place = quarry::simt::this_place();
    std::uint64_t* const cycles = spent + place.rank();
    std::uint64_t const lanes = place.count();

    quarry::simt::grid_barrier();
    std::uint64_t begin = clock_value();
    auto data = Layout::allocate(heap, floats);
    // The write is volatile, here and after the work: the lane reads the clock only after the
    // result has arrived.
    if (data) *static_cast<float volatile*>(&data[0]) = 0;
    cycles[0] = clock_value() - begin;

    quarry::simt::grid_barrier();
    begin = clock_value();
    if (data) {
      for (std::uint32_t i = 0; i < floats; ++i) data[i] = static_cast<float>(i);
    }
    cycles[lanes] = clock_value() - begin;

    quarry::simt::grid_barrier();
    begin = clock_value();
    if (data) *static_cast<float volatile*>(&data[0]) = Workload::work(data, floats);
    cycles[2 * lanes] = clock_value() - begin;

    quarry::simt::grid_barrier();
    // Compilers round sums of floats differently.
    float const expected = Workload::expected(static_cast<float>(floats));
    if (!data || !(std::fabs(data[0] - expected) <= expected / 100))
      quarry::simt::atomic_ref<std::uint64_t>{*wrong}.fetch_add(1, quarry::simt::relaxed);

    quarry::simt::grid_barrier();
    begin = clock_value();
    if (data) Layout::free(heap, data);
    cycles[3 * lanes] = clock_value() - begin;
  }
};

double mean(std::span<std::uint64_t const> values) {
  double sum = 0;
  for (std::uint64_t const value : values) sum += static_cast<double>(value);
  return sum / static_cast<double>(values.size());
}

template <class Layout, class Workload, class Allocator>
void measure(Allocator& allocator, bench::grid lanes, std::uint32_t floats) {
  std::uint64_t const count = std::uint64_t{lanes.blocks} * lanes.threads;
  bench::trial rounds{bench::parameters{}
                          .add("allocator", Allocator::name)
                          .add("layout", Layout::name)
                          .add("workload", Workload::name)
                          .add("floats", floats)
                          .add("threads", count),
                      {{"coalesced/lane_array/allocate", unit},
                       {"coalesced/lane_array/initialise", unit},
                       {"coalesced/lane_array/work", unit},
                       {"coalesced/lane_array/free", unit}},
                      {.max_ms = 10000}};
  bench::array<std::uint64_t> spent{phases * count}, wrong{1};
  while (rounds.next()) {
    if (bench::never_frees<Allocator>) allocator.reset();
    run_together(lanes, phases_kernel<typename Allocator::ref, Layout, Workload>{
                            allocator.device(), floats, spent.data(), wrong.data()});
    if (auto const found = wrong.to_host()[0]; found != 0)
      return rounds.fail(std::to_string(found) + " threads have no memory or a wrong sum");
    auto const cycles = spent.to_host();
    auto const phase_mean = [&](std::uint64_t phase) {
      return mean(std::span{cycles}.subspan(phase * count, count));
    };
    rounds.add({phase_mean(0), phase_mean(1), phase_mean(2), phase_mean(3)});
  }
  rounds.finish(allocator);
}

template <class Workload, class Allocator>
void measure_layouts(Allocator& allocator, bench::grid lanes, std::uint32_t floats) {
  measure<contiguous, Workload>(allocator, lanes, floats);
  measure<interleaved, Workload>(allocator, lanes, floats);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::for_each_allocator(argc, argv, [&]<class Allocator>() {
    Allocator allocator{bench::heap_bytes};
    for (std::uint32_t const blocks : bench::on_gpu ? std::vector{12u, 132u} : std::vector{2u}) {
      bench::grid const lanes{blocks, bench::on_gpu ? 1024u : 64u};
      for (std::uint32_t const floats : {25u, 100u, 400u}) {
        measure_layouts<linear>(allocator, lanes, floats);
        measure_layouts<quadratic>(allocator, lanes, floats);
      }
    }
  });
}
