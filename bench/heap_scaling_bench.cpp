// SPDX-License-Identifier: Apache-2.0
// How long do 1 to 2^20 threads (2^16 on the CPU) take to allocate once each, and to free?
//
// On the CPU the time includes starting the operating system's threads.
#include "kernels.hpp"
#include "rounds.hpp"

namespace {

template <class Allocator>
void measure(Allocator& allocator, bench::bytes size, std::uint64_t count) {
  auto const params = bench::parameters{}
                          .add("allocator", Allocator::name)
                          .add("threads", count)
                          .add("bytes", size);
  auto const heap = allocator.device();
  bench::one_size const sizes{size};
  bench::array<void*> pointers{count};
  std::vector<double> malloc_us, free_us;
  for (bench::rounds round{800}; round.next();) {
    allocator.reset();
    double const took =
        bench::time_ms(bench::lanes(count), bench::allocate_kernel<decltype(heap), bench::one_size>{
                                                heap, sizes, count, pointers.data()});
    auto const found = bench::check(count, sizes, pointers);
    if (found.missing != 0 || found.wrong != 0) {
      bench::record_failure(
          "heap/scaling/malloc", params,
          std::to_string(found.missing) + " missing, " + std::to_string(found.wrong) + " overlap",
          "us");
      return;
    }
    double const freed = bench::time_ms(
        bench::lanes(count), bench::free_kernel<decltype(heap)>{heap, count, pointers.data()});
    if (!round.counts()) continue;
    malloc_us.push_back(took * 1e3);
    free_us.push_back(freed * 1e3);
  }
  if (!bench::record_complaint("heap/scaling/free", params, allocator, 0, "us")) return;
  bench::record_spread("heap/scaling/malloc", params, bench::spread_of(malloc_us), "us");
  bench::record_spread("heap/scaling/free", params, bench::spread_of(free_us), "us");
}

}  // namespace

int main(int argc, char** argv) {
  bench::for_each_allocator(argc, argv, [&]<class Allocator>() {
    Allocator allocator{bench::heap_bytes};
    for (bench::bytes size : {64u, 512u}) {
      for (std::uint64_t count = 1; count <= 1u << (bench::on_gpu ? 20 : 16); count *= 4) {
        if (bench::is_cuda_malloc<Allocator> && size == 512) {
          bench::record_failure("heap/scaling/malloc",
                                bench::parameters{}
                                    .add("allocator", Allocator::name)
                                    .add("threads", count)
                                    .add("bytes", size),
                                bench::known_to_hang, "us");
        } else {
          measure(allocator, size, count);
        }
      }
    }
  });
}
