// SPDX-License-Identifier: Apache-2.0
// How fast do 2^20 threads (2^17 on the CPU) allocate, and free, from a heap that has been used, and was not reset since?
//
// `bump`, which never frees, begins anew each round.
#include "kernels.hpp"
#include "rounds.hpp"

namespace {

template <class Allocator>
void measure(Allocator& allocator, bench::bytes size, std::uint64_t count) {
  auto const params = bench::parameters{}
                          .add("allocator", Allocator::name)
                          .add("bytes", size)
                          .add("threads", count);
  auto const heap = allocator.device();
  bench::one_size const sizes{size};
  bench::array<void*> pointers{count};
  std::vector<double> malloc_mops, free_mops;
  for (bench::rounds round; round.next();) {
    if (bench::never_frees<Allocator>) allocator.reset();
    double const took =
        bench::time_ms(bench::lanes(count), bench::allocate_kernel<decltype(heap), bench::one_size>{
                                                heap, sizes, count, pointers.data()});
    auto const found = bench::check(count, sizes, pointers);
    if (found.missing != 0 || found.wrong != 0) {
      bench::record_failure(
          "heap/warm/malloc", params,
          std::to_string(found.missing) + " missing, " + std::to_string(found.wrong) + " overlap",
          "Mops/s");
      return;
    }
    double const freed = bench::time_ms(
        bench::lanes(count), bench::free_kernel<decltype(heap)>{heap, count, pointers.data()});
    if (!round.counts()) continue;
    malloc_mops.push_back(bench::mops(count, took));
    free_mops.push_back(bench::mops(count, freed));
  }
  if (!bench::record_complaint("heap/warm/free", params, allocator, 0, "Mops/s")) return;
  bench::record_spread("heap/warm/malloc", params, bench::spread_of(malloc_mops), "Mops/s");
  bench::record_spread("heap/warm/free", params, bench::spread_of(free_mops), "Mops/s");
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t const count = 1u << (bench::on_gpu ? 20 : 17);
  bench::for_each_allocator(argc, argv, [&]<class Allocator>() {
    Allocator allocator{bench::heap_bytes};
    for (bench::bytes size : {16u, 64u, 256u, 1024u, 4096u}) {
      if (bench::is_cuda_malloc<Allocator> && size == 1024) {
        bench::record_failure("heap/warm/malloc",
                              bench::parameters{}
                                  .add("allocator", Allocator::name)
                                  .add("bytes", size)
                                  .add("threads", count),
                              bench::known_to_hang, "Mops/s");
      } else {
        measure(allocator, size, count);
      }
    }
  });
}
