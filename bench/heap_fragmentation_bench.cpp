// SPDX-License-Identifier: Apache-2.0
// Over how many addresses, for each byte asked for, do 2^20 allocations (2^17 on the CPU) of one size lie?
// (Seed: the address range test of the survey of GPU allocators by Winter, Parger, Mlakar and Steinberger.)
#include "kernels.hpp"
#include "rounds.hpp"

namespace {

template <class Allocator>
void measure(Allocator& allocator, bench::bytes size, std::uint64_t count) {
  auto const params = bench::parameters{}
                          .add("allocator", Allocator::name)
                          .add("bytes", size)
                          .add("threads", count);
  allocator.reset();
  auto const heap = allocator.device();
  bench::array<void*> pointers{count};
  bench::run(bench::lanes(count), bench::allocate_kernel<decltype(heap), bench::one_size>{
                                      heap, {size}, count, pointers.data()});
  auto found = pointers.to_host();
  auto const overlaps = bench::count_overlaps(found, size);
  bench::run(bench::lanes(count), bench::free_kernel<decltype(heap)>{heap, count, pointers.data()});
  if (overlaps != 0 || found.size() != count) {
    bench::record_failure(
        "heap/fragmentation/span", params,
        std::to_string(count - found.size()) + " missing, " + std::to_string(overlaps) + " overlap",
        "ratio");
    return;
  }
  if (!bench::record_complaint("heap/fragmentation/span", params, allocator, 0, "ratio")) return;
  auto const span = reinterpret_cast<std::uint64_t>(found.back()) -
                    reinterpret_cast<std::uint64_t>(found.front()) + size;
  bench::record("heap/fragmentation/span", params,
                static_cast<double>(span) / static_cast<double>(count * size), "ratio");
}

}  // namespace

int main(int argc, char** argv) {
  std::uint64_t const count = 1u << (bench::on_gpu ? 20 : 17);
  bench::for_each_allocator(argc, argv, [&]<class Allocator>() {
    Allocator allocator{bench::heap_bytes};
    for (bench::bytes size : {16u, 64u, 256u, 4096u}) measure(allocator, size, count);
  });
}
