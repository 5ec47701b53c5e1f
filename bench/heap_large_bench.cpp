// SPDX-License-Identifier: Apache-2.0
// How long do 256 threads take to allocate 64 KiB to 64 MiB each, and to free, and how many get it?
//
// Of 64 MiB the heap holds 128. On the CPU there are 32 threads, as many as can have 64 MiB.
#include "kernels.hpp"
#include "rounds.hpp"

namespace {

constexpr std::uint64_t count = bench::on_gpu ? 256 : 32;

template <class Allocator>
void measure(Allocator& allocator, bench::bytes size) {
  auto const params = bench::parameters{}
                          .add("allocator", Allocator::name)
                          .add("bytes", size)
                          .add("threads", count);
  auto const heap = allocator.device();
  bench::array<void*> pointers{count};
  std::vector<double> malloc_ms, free_ms, successes;
  for (bench::rounds round; round.next();) {
    allocator.reset();
    double const took =
        bench::time_ms(bench::lanes(count), bench::allocate_kernel<decltype(heap), bench::one_size>{
                                                heap, {size}, count, pointers.data()});
    auto found = pointers.to_host();
    if (auto const overlaps = bench::count_overlaps(found, size); overlaps != 0) {
      bench::record_failure("heap/large/malloc", params, std::to_string(overlaps) + " overlap",
                            "ms");
      return;
    }
    double const freed = bench::time_ms(
        bench::lanes(count), bench::free_kernel<decltype(heap)>{heap, count, pointers.data()});
    if (!round.counts()) continue;
    malloc_ms.push_back(took);
    free_ms.push_back(freed);
    successes.push_back(static_cast<double>(found.size()));
  }
  if (!bench::record_complaint("heap/large/free", params, allocator, 0, "ms")) return;
  bench::record_spread("heap/large/malloc", params, bench::spread_of(malloc_ms), "ms");
  bench::record_spread("heap/large/free", params, bench::spread_of(free_ms), "ms");
  bench::record_spread("heap/large/successes", params, bench::spread_of(successes), "allocations");
}

}  // namespace

int main(int argc, char** argv) {
  using namespace quarry::literals;
  bench::for_each_allocator(argc, argv, [&]<class Allocator>() {
    Allocator allocator{bench::heap_bytes};
    for (bench::bytes size : {64_KiB, 1_MiB, 4_MiB, 64_MiB}) {
      if (bench::is_cuda_malloc<Allocator> && size == 64_MiB) {
        bench::record_failure("heap/large/malloc",
                              bench::parameters{}
                                  .add("allocator", Allocator::name)
                                  .add("bytes", size)
                                  .add("threads", count),
                              "not tried: it hangs when its heap is full", "ms");
      } else {
        measure(allocator, size);
      }
    }
  });
}
