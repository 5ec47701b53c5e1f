// SPDX-License-Identifier: Apache-2.0
// How much faster does work on private arrays get when those of a warp are interleaved?
//
// Each thread allocates an array of n floats, writes 0 to n - 1, works, and frees, all in one
// kernel, with a barrier of the grid between, so that no phase runs beside another. Work is linear,
// sum += data[i], or quadratic, sum += data[i] * data[j] for all pairs. Figures are a thread's own
// cycles in a phase, the mean over all threads; a median is one over 20 runs after 2 warm-ups.
// (Seed: coalesced allocation, section 4.1, listings 2 and 3.)
//
// On the CPU, where nothing is coalesced, lanes are fibers and the figures nanoseconds: it shows
// that the program works.
#include "quarry/device/coalescing/lane_array.hpp"
#include "trial.hpp"

#include <cmath>

namespace {

constexpr char const* unit = bench::on_gpu ? "cycles" : "ns";

QUARRY_HD inline std::uint64_t now() {
#ifdef __CUDA_ARCH__
  return static_cast<std::uint64_t>(clock64());
#else
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds{std::chrono::steady_clock::now().time_since_epoch()}.count());
#endif
}

/// Runs the kernel with all lanes at once, since it has barriers of the grid, and waits for it.
template <class Kernel>
void run_together(bench::grid lanes, Kernel const& kernel) {
#ifdef __CUDACC__
  quarry::simt::launch_cuda_cooperative(lanes, kernel);
  bench::wait_for_machine();
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
  QUARRY_HD static void free(Ref const& heap, array own) {
    own.destroy(heap);
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
  QUARRY_HD static void free(Ref const& heap, array own) {
    heap.free(own);
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

/// `spent` has the cycles of each phase for all lanes, one phase after the other.
template <class Ref, class Layout, class Workload>
struct phases_kernel {
  Ref heap;
  std::uint32_t floats;
  std::uint64_t* spent;
  std::uint64_t* wrong;

  QUARRY_HD void operator()() const {
    auto const where = quarry::simt::this_place();
    std::uint64_t* const own = spent + where.rank();
    std::uint64_t const lanes = where.count();

    quarry::simt::grid_barrier();
    std::uint64_t begin = now();
    auto data = Layout::allocate(heap, floats);
    // Volatile, as after the work: the clock is read once the address is known, and not while it is
    // on its way.
    if (data) *static_cast<float volatile*>(&data[0]) = 0;
    own[0] = now() - begin;

    quarry::simt::grid_barrier();
    begin = now();
    if (data) {
      for (std::uint32_t i = 0; i < floats; ++i) data[i] = static_cast<float>(i);
    }
    own[lanes] = now() - begin;

    quarry::simt::grid_barrier();
    begin = now();
    if (data) *static_cast<float volatile*>(&data[0]) = Workload::work(data, floats);
    own[2 * lanes] = now() - begin;

    quarry::simt::grid_barrier();
    // Sums of floats are rounded, and not in the same way by each compiler.
    float const expected = Workload::expected(static_cast<float>(floats));
    if (!data || !(std::fabs(data[0] - expected) <= expected / 100))
      quarry::simt::atomic_ref<std::uint64_t>{*wrong}.fetch_add(1, quarry::simt::relaxed);

    quarry::simt::grid_barrier();
    begin = now();
    if (data) Layout::free(heap, data);
    own[3 * lanes] = now() - begin;
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
  bench::trial all{bench::parameters{}
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
  while (all.next()) {
    if (bench::never_frees<Allocator>) allocator.reset();
    run_together(lanes, phases_kernel<typename Allocator::ref, Layout, Workload>{
                            allocator.device(), floats, spent.data(), wrong.data()});
    if (auto const found = wrong.to_host()[0]; found != 0)
      return all.fail(std::to_string(found) + " threads have no memory or a wrong sum");
    auto const cycles = spent.to_host();
    auto const of_phase = [&](std::uint64_t phase) {
      return mean(std::span{cycles}.subspan(phase * count, count));
    };
    all.add({of_phase(0), of_phase(1), of_phase(2), of_phase(3)});
  }
  all.finish(allocator);
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
