// SPDX-License-Identifier: Apache-2.0
// What does a deallocation followed by an allocation cost with PyTorch's caching allocator, called
// from C++ in the loop of host_pool_bench.cpp?
//
// State: after three warm-up rounds, on the current stream, with the allocator's default settings.
// PYTORCH_ALLOC_CONF changes the settings, as for any program of PyTorch. CMake does not build the
// program; scripts/build_torch_bench.sh builds it against an installed PyTorch. `held_per_live` is
// the peak of the reserved bytes, divided by the peak of the requested bytes.
#include "pairs.hpp"
#include "trial.hpp"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#ifndef QUARRY_BENCH_TORCH
#error "QUARRY_BENCH_TORCH must be PyTorch's version: scripts/build_torch_bench.sh"
#endif

namespace {

namespace torch_allocator = c10::cuda::CUDACachingAllocator;

struct torch_pool {
  static constexpr char const* name = "torch-" QUARRY_BENCH_TORCH;
  void* allocate(bench::bytes size) { return torch_allocator::raw_alloc(size); }
  void deallocate(void* pointer, bench::bytes) { torch_allocator::raw_delete(pointer); }
};

void measure(bench::replacing const& load) {
  auto const params = load.params(torch_pool::name);
  bench::trial rounds{
      params, {{"host/pool/pair", "ns"}}, {.max_ms = 4000, .warm_ups = 3, .rounds = 15}};
  torch_pool pool;
  torch_allocator::emptyCache();
  torch_allocator::resetPeakStats(0);
  {
    bench::live_allocations<torch_pool> allocated{pool, load};
    while (rounds.next()) rounds.add({allocated.pair_ns(100'000)});
  }
  rounds.finish();
  auto const stats = torch_allocator::getDeviceStats(0);
  constexpr auto all_sizes = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  bench::record("host/pool/held_per_live", params,
                static_cast<double>(stats.reserved_bytes[all_sizes].peak) /
                    static_cast<double>(stats.requested_bytes[all_sizes].peak),
                "ratio");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view{argv[1]} == "--allocators") {
    std::puts(torch_pool::name);
    return 0;
  }
  if (argc > 1 && std::string_view{argv[1]} != torch_pool::name) {
    std::fprintf(stderr, "error: this program has no allocator '%s'; --allocators lists them\n",
                 argv[1]);
    return 2;
  }
  try {
    torch_allocator::init(c10::cuda::device_count_ensure_non_zero());
    measure({1, 64, 64});
    measure(bench::one_small_size);
    for (bool const is_log : {false, true}) {
      for (bench::replacing load : {bench::up_to_4_kib, bench::up_to_1_mib, bench::up_to_64_mib}) {
        load.is_log = is_log;
        measure(load);
      }
    }
  } catch (std::exception const& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
