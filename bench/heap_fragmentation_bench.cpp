// SPDX-License-Identifier: Apache-2.0
// How large is the address range of 2^20 allocations (2^17 on the CPU), divided by the requested
// bytes? For allocations of one size, and of mixed sizes. (Seed: Gallatin, "Fragmentation tests";
// the address range test of Winter, Parger, Mlakar and Steinberger.)
#include "kernels.hpp"

namespace {

template <class Allocator, class Sizes>
void measure(std::string const& name, Allocator& allocator, Sizes sizes) {
  std::uint64_t const count = bench::many_lanes;
  bench::trial rounds{bench::parameters{}
                          .add("allocator", Allocator::name)
                          .add("bytes", sizes.maximum())
                          .add("threads", count),
                      {{name, "ratio"}},
                      {.max_ms = 300}};
  if (bench::is_known_to_hang(Allocator::name, name, sizes.maximum(), count))
    return rounds.fail(bench::known_to_hang);
  using ref = typename Allocator::ref;
  bench::array<void*> pointers{count};
  while (rounds.next()) {
    allocator.reset();
    bench::run(bench::lanes(count), bench::allocate_kernel<ref, Sizes>{allocator.device(), sizes,
                                                                       count, pointers.data()});
    auto const found = bench::layout_of(pointers.to_host(), sizes);
    bench::run(bench::lanes(count),
               bench::free_kernel<ref>{allocator.device(), count, pointers.data()});
    if (found.overlaps != 0 || found.count != count)
      return rounds.fail(std::to_string(count - found.count) + " missing, " +
                         std::to_string(found.overlaps) + " overlap");
    rounds.add(
        {static_cast<double>(found.last - found.first) / static_cast<double>(found.requested)});
  }
  rounds.finish(allocator);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::for_each_allocator(argc, argv, [&]<class Allocator>() {
    Allocator allocator{bench::heap_bytes};
    for (bench::bytes size : {16u, 64u, 256u, 4096u})
      measure("heap/fragmentation/span", allocator, bench::one_size{size});
    for (std::uint32_t maximum : {64u, 256u, 1024u, 4096u})
      measure("heap/fragmentation/mixed_span", allocator, bench::uniform_sizes{16, maximum});
  });
}
