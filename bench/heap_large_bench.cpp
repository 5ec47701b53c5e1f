// SPDX-License-Identifier: Apache-2.0
// How long do 256 threads take to allocate 64 KiB to 64 MiB each, and to free them, and how many
// threads get memory?
//
// The heap holds 128 allocations of 64 MiB. On the CPU there are 32 threads, so that all can have
// 64 MiB.
#include "kernels.hpp"

namespace {

constexpr std::uint64_t count = bench::on_gpu ? 256 : 32;

template <class Allocator>
void measure(Allocator& allocator, bench::bytes size) {
  bench::trial rounds{bench::parameters{}
                          .add("allocator", Allocator::name)
                          .add("bytes", size)
                          .add("threads", count),
                      {{"heap/large/malloc", "ms"},
                       {"heap/large/free", "ms"},
                       {"heap/large/successes", "allocations"}}};
  if (bench::is_known_to_hang(Allocator::name, "heap/large", size, count))
    return rounds.fail(bench::known_to_hang);
  using ref = typename Allocator::ref;
  bench::one_size const sizes{size};
  bench::array<void*> pointers{count};
  while (rounds.next()) {
    allocator.reset();
    double const malloc_ms =
        bench::time_ms(bench::lanes(count), bench::allocate_kernel<ref, bench::one_size>{
                                                allocator.device(), sizes, count, pointers.data()});
    auto const found = bench::layout_of(pointers.to_host(), sizes);
    if (found.overlaps != 0) return rounds.fail(std::to_string(found.overlaps) + " overlap");
    double const free_ms = bench::time_ms(
        bench::lanes(count), bench::free_kernel<ref>{allocator.device(), count, pointers.data()});
    rounds.add({malloc_ms, free_ms, static_cast<double>(found.count)});
  }
  rounds.finish(allocator);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace quarry::literals;
  return bench::for_each_allocator(argc, argv, [&]<class Allocator>() {
    Allocator allocator{bench::heap_bytes};
    for (bench::bytes size : {64_KiB, 1_MiB, 4_MiB, 64_MiB}) measure(allocator, size);
  });
}
