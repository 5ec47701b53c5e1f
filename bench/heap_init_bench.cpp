// SPDX-License-Identifier: Apache-2.0
// How long does the host take to create a heap, and to reset one after 2^20 threads (2^17 on the
// CPU) have allocated 64 bytes each? (Seed: Gallatin, "Allocator initialization overhead".) And how
// much memory is metadata, divided by the heap's size? `metadata`: as the heap reports it.
// `device_memory`, on a GPU: the device memory that a new heap takes beyond its own size.
//
// For CUDA's malloc, creation means to set its limit, once in a process. `bump` and the mallocs of
// the CPU are left out. Reset and metadata are measured for Quarry's heap only.
#include "kernels.hpp"

#include <memory>

namespace {

template <class Allocator>
bench::parameters params_of() {
  return bench::parameters{}.add("allocator", Allocator::name).add("heap_bytes", bench::heap_bytes);
}

template <class Allocator>
void measure_construction() {
  bench::array<char> const first{1};  // pays for the first use of the device
  auto const maximum = bench::is_cuda_malloc<Allocator> ? bench::effort{.warm_ups = 0, .rounds = 1}
                                                        : bench::effort{};
  bench::trial rounds{params_of<Allocator>(), {{"heap/init/construct", "ms"}}, maximum};
  std::unique_ptr<Allocator> allocator;
  while (rounds.next()) {
    allocator.reset();
    rounds.add(
        {bench::host_ms([&] { allocator = std::make_unique<Allocator>(bench::heap_bytes); })});
  }
  rounds.finish(*allocator);
}

/// The bytes of device memory in use; 0 on the CPU.
double device_memory_in_use() {
#ifdef __CUDACC__
  std::size_t free = 0, total = 0;
  quarry::simt::check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return static_cast<double>(total - free);
#else
  return 0;
#endif
}

void measure_metadata(bench::bytes heap_bytes) {
  bench::array<char> const first{1};  // the memory that the first use of the device takes
  double const used_before = device_memory_in_use();
  bench::quarry_allocator allocator{heap_bytes};
  auto const params = bench::parameters{}
                          .add("allocator", bench::quarry_allocator::name)
                          .add("heap_bytes", heap_bytes);
  auto const size = static_cast<double>(heap_bytes);
  double const used = device_memory_in_use() - used_before;
  auto const metadata = static_cast<double>(allocator.heap().stats().metadata);
  bench::record("heap/init/metadata", params, metadata / size, "ratio");
  if (bench::on_gpu) bench::record("heap/init/device_memory", params, used / size - 1, "ratio");
}

template <class Allocator>
void measure_reset() {
  std::uint64_t const count = bench::many_lanes;
  bench::trial rounds{params_of<Allocator>(), {{"heap/init/reset", "ms"}}};
  Allocator allocator{bench::heap_bytes};
  bench::array<void*> pointers{count};
  while (rounds.next()) {
    bench::run(bench::lanes(count),
               bench::allocate_kernel<typename Allocator::ref, bench::one_size>{
                   allocator.device(), {64}, count, pointers.data()});
    rounds.add({bench::host_ms([&] { allocator.reset(); })});
    if (!rounds.is_sound(allocator, 0)) return;
  }
  rounds.finish(allocator);
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
