// SPDX-License-Identifier: Apache-2.0
// How long does the host take to make a heap, and to reset one from which each of 2^20 threads
// (2^17 on the CPU) took 64 bytes? (Seed: Gallatin, "Allocator initialization overhead".) And how
// much memory is metadata, divided by the heap's: as the heap says, and on a GPU (`device_memory`)
// what of the device's memory a new heap takes beyond its own size.
//
// For CUDA's malloc, to make a heap is to set its limit, once a process. Others have nothing to
// make, and `bump` only memory.
#include "kernels.hpp"

#include <memory>

namespace {

template <class Allocator>
bench::parameters params_of() {
  return bench::parameters{}.add("allocator", Allocator::name).add("heap_bytes", bench::heap_bytes);
}

template <class Allocator>
void measure_construction() {
  bench::array<char> const first{1};  // what the first use of the machine costs is not the heap's
  auto const maximum = bench::is_cuda_malloc<Allocator> ? bench::effort{.warm_ups = 0, .rounds = 1}
                                                        : bench::effort{};
  bench::trial all{params_of<Allocator>(), {{"heap/init/construct", "ms"}}, maximum};
  std::unique_ptr<Allocator> allocator;
  while (all.next()) {
    allocator.reset();
    all.add({bench::host_ms([&] { allocator = std::make_unique<Allocator>(bench::heap_bytes); })});
  }
  all.finish(*allocator);
}

/// Bytes of device memory that are in use; 0 on the CPU.
double device_memory_in_use() {
#ifdef __CUDACC__
  std::size_t free = 0, all = 0;
  quarry::simt::check_cuda(cudaMemGetInfo(&free, &all), "cudaMemGetInfo");
  return static_cast<double>(all - free);
#else
  return 0;
#endif
}

void measure_metadata(bench::bytes heap_bytes) {
  bench::array<char> const first{1};  // what the first use of the machine takes is not the heap's
  double const before = device_memory_in_use();
  bench::quarry_allocator allocator{heap_bytes};
  auto const params = bench::parameters{}
                          .add("allocator", bench::quarry_allocator::name)
                          .add("heap_bytes", heap_bytes);
  auto const size = static_cast<double>(heap_bytes);
  double const taken = device_memory_in_use() - before;
  auto const metadata = static_cast<double>(allocator.heap().stats().metadata);
  bench::record("heap/init/metadata", params, metadata / size, "ratio");
  if (bench::on_gpu) bench::record("heap/init/device_memory", params, taken / size - 1, "ratio");
}

template <class Allocator>
void measure_reset() {
  std::uint64_t const count = bench::many_lanes;
  bench::trial all{params_of<Allocator>(), {{"heap/init/reset", "ms"}}};
  Allocator allocator{bench::heap_bytes};
  bench::array<void*> pointers{count};
  while (all.next()) {
    bench::run(bench::lanes(count),
               bench::allocate_kernel<typename Allocator::ref, bench::one_size>{
                   allocator.device(), {64}, count, pointers.data()});
    all.add({bench::host_ms([&] { allocator.reset(); })});
    if (!all.is_sound(allocator, 0)) return;
  }
  all.finish(allocator);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace quarry::literals;
  return bench::for_each_allocator(argc, argv, [&]<class Allocator>() {
    if constexpr (!bench::never_frees<Allocator> && !bench::is_unbounded<Allocator>)
      measure_construction<Allocator>();
    if constexpr (std::is_same_v<Allocator, bench::quarry_allocator>) {
      measure_reset<Allocator>();
      for (bench::bytes const size : {64_MiB, 2_GiB, 8_GiB}) measure_metadata(size);
    }
  });
}
