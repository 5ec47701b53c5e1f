// SPDX-License-Identifier: Apache-2.0
// What does a deallocation with an allocation after it cost PyTorch's caching allocator, called
// from C++, in the loop of host_pool_bench.cpp?
//
// State: in use since three rounds, on the current stream, with the allocator's own settings;
// others come by PYTORCH_ALLOC_CONF, as for any program of PyTorch's. Built by
// scripts/build_torch_bench.sh against an installed PyTorch, and not by CMake. `held_per_live`:
// peak of the bytes that it reserved, divided by the peak of those asked for.
#include "pairs.hpp"

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

void measure(bench::replacing const& how) {
  auto const params = how.params(torch_pool::name);
  bench::trial all{
      params, {{"host/pool/pair", "ns"}}, {.max_ms = 4000, .warm_ups = 3, .rounds = 15}};
  torch_pool pool;
  torch_allocator::emptyCache();
  torch_allocator::resetPeakStats(0);
  {
    bench::live_allocations<torch_pool> allocated{pool, how};
    while (all.next()) all.add({allocated.pair_ns(100'000)});
  }
  all.finish();
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
    std::fprintf(stderr, "error: no allocator '%s' here; see --allocators\n", argv[1]);
    return 2;
  }
  try {
    torch_allocator::init(c10::cuda::device_count_ensure_non_zero());
    measure({1, 64, 64});
    measure(bench::one_small_size);
    for (bool const is_log : {false, true}) {
      for (bench::replacing how : {bench::up_to_4_kib, bench::up_to_1_mib, bench::up_to_64_mib}) {
        how.is_log = is_log;
        measure(how);
      }
    }
  } catch (std::exception const& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
