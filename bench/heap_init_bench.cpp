// SPDX-License-Identifier: Apache-2.0
// How long does the host take to make a heap, and to reset one from which each of 2^20 threads
// (2^17 on the CPU) took 64 bytes? (Seed: Gallatin, "Allocator initialization overhead".)
//
// For CUDA's malloc, to make a heap is to set its limit, once a process. Others have nothing to
// make, and `bump` only memory.
#include "kernels.hpp"

namespace {

template <class Allocator>
bench::parameters params_of() {
  return bench::parameters{}.add("allocator", Allocator::name).add("heap_bytes", bench::heap_bytes);
}

template <class Allocator>
void measure_construction() {
  bench::array<char> const first{1};  // what the first use of the machine costs is not the heap's
  auto const most = bench::is_cuda_malloc<Allocator> ? bench::effort{.warm_ups = 0, .rounds = 1}
                                                     : bench::effort{};
  bench::trial all{params_of<Allocator>(), {{"heap/init/construct", "ms"}}, most};
  std::unique_ptr<Allocator> allocator;
  while (all.next()) {
    allocator.reset();
    all.add({bench::host_ms([&] { allocator = std::make_unique<Allocator>(bench::heap_bytes); })});
  }
  all.finish(*allocator);
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
  return bench::for_each_allocator(argc, argv, [&]<class Allocator>() {
    if constexpr (!bench::never_frees<Allocator> && !bench::is_unbounded<Allocator>)
      measure_construction<Allocator>();
    if constexpr (std::is_same_v<Allocator, bench::quarry_allocator>) measure_reset<Allocator>();
  });
}
