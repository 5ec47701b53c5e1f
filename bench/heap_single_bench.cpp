// SPDX-License-Identifier: Apache-2.0
// How fast do 2^20 threads allocate, and free, one allocation each: of one size, or of mixed sizes?
// (Seed: Gallatin, "Single-sized test" and "Mixed-size test".) Every run checks that no two allocations overlap.
#include "allocators.hpp"
#include "kernels.hpp"

namespace {

template <class Allocator, class Sizes>
void measure(std::string const& name, Allocator& allocator, Sizes sizes, std::uint64_t count, bench::parameters const& params,
             bool keep) {
  bench::array<void*> pointers{count};
  std::vector<double> malloc_ms, free_ms;
  for (int i = 0; i < bench::warm_ups + bench::repeats; ++i) {
    if (!keep) allocator.reset();
    auto const heap = allocator.device();
    double const took = bench::time_ms(bench::lanes(count),
                                       bench::allocate_kernel<decltype(heap), Sizes>{heap, sizes, count, pointers.data()});
    auto const found = bench::check(count, sizes, pointers);
    if (found.missing != 0 || found.wrong != 0) {
      bench::record_failure(name + "/malloc", params,
                            std::to_string(found.missing) + " missing, " + std::to_string(found.wrong) + " overlap", "Mops/s");
      return;
    }
    double const freed = bench::time_ms(bench::lanes(count), bench::free_kernel<decltype(heap)>{heap, count, pointers.data()});
    if (i >= bench::warm_ups) {
      malloc_ms.push_back(bench::mops(count, took));
      free_ms.push_back(bench::mops(count, freed));
    }
  }
  bench::record_spread(name + "/malloc", params, bench::spread_of(malloc_ms), "Mops/s");
  bench::record_spread(name + "/free", params, bench::spread_of(free_ms), "Mops/s");
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t const count = 1u << (bench::on_gpu ? 20 : 17);
  bench::for_each_allocator(argc, argv, [&]<class Allocator>() {
    bool const slow = std::string{Allocator::name} == "cuda";
    Allocator allocator{bench::heap_bytes};
    for (quarry::bytes size = 16; size <= 4096; size *= 2) {
      if (slow && (size == 512 || size == 1024)) continue;  // CUDA's malloc was seen to hang there
      measure("heap/single", allocator, bench::one_size{size}, count,
              bench::parameters{}.add("allocator", Allocator::name).add("bytes", size).add("threads", count), false);
    }
    for (std::uint32_t most : {64u, 256u, 1024u, 4096u}) {
      if (slow && most > 256) continue;
      measure("heap/mixed", allocator, bench::uniform_sizes{16, most}, count,
              bench::parameters{}.add("allocator", Allocator::name).add("bytes", most).add("threads", count), false);
    }
  });
}
