// SPDX-License-Identifier: Apache-2.0
// How long does the host take to make a heap, and to reset one from which each of 2^20 threads (2^17 on the CPU) took 64 bytes?
//
// For CUDA's malloc, to make a heap is to set its limit, once a process. Others have nothing to make, and `bump` only memory.
#include "kernels.hpp"
#include "rounds.hpp"

namespace {

constexpr int constructions = 5;

template <class Allocator>
void measure_construction() {
  std::vector<double> ms;
  int const count = bench::is_cuda_malloc<Allocator> ? 1 : constructions;
  for (int i = 0; i < count; ++i) {
    std::unique_ptr<Allocator> allocator;
    ms.push_back(
        bench::host_ms([&] { allocator = std::make_unique<Allocator>(bench::heap_bytes); }));
  }
  bench::record_spread(
      "heap/init/construct",
      bench::parameters{}.add("allocator", Allocator::name).add("heap_bytes", bench::heap_bytes),
      bench::spread_of(ms), "ms");
}

void measure_reset() {
  std::uint64_t const count = 1u << (bench::on_gpu ? 20 : 17);
  auto const params = bench::parameters{}
                          .add("allocator", bench::quarry_allocator::name)
                          .add("heap_bytes", bench::heap_bytes);
  bench::quarry_allocator allocator{bench::heap_bytes};
  bench::array<void*> pointers{count};
  std::vector<double> ms;
  for (int i = 0; i < constructions; ++i) {
    bench::run(bench::lanes(count),
               bench::allocate_kernel<bench::quarry_allocator::ref, bench::one_size>{
                   allocator.device(), {64}, count, pointers.data()});
    ms.push_back(bench::host_ms([&] { allocator.reset(); }));
    if (!bench::record_complaint("heap/init/reset", params, allocator, 0, "ms")) return;
  }
  bench::record_spread("heap/init/reset", params, bench::spread_of(ms), "ms");
}

}  // namespace

int main(int argc, char** argv) {
  bench::wait_for_machine();
  bench::array<char> const first{1};  // what the first use of the machine costs is not the heap's
  bench::for_each_allocator(argc, argv, [&]<class Allocator>() {
    if constexpr (!bench::never_frees<Allocator> && !bench::is_unbounded<Allocator>)
      measure_construction<Allocator>();
  });
  if (bench::chosen(argc, argv, bench::quarry_allocator::name)) measure_reset();
}
