// SPDX-License-Identifier: Apache-2.0
// How much of a heap of 2 GiB (64 MiB on the CPU) is handed out before the first failure, and how
// long does that take? (Seed: Gallatin, "Utilization test".)
//
// 2^18 threads (2^10 on the CPU) allocate until each is refused. The C library and mimalloc have no
// end, and are left out.
#include "fill.hpp"

namespace {

template <class Allocator>
void measure(bench::bytes size) {
  bench::trial all{bench::filling_params(Allocator::name, size),
                   {{"heap/utilisation/share", "ratio"}, {"heap/utilisation/fill", "ms"}},
                   {.most_ms = 1000}};
  if (bench::is_known_to_hang(Allocator::name, "heap/utilisation", size, bench::filling_lanes))
    return all.fail(bench::known_to_hang);
  Allocator allocator{bench::filled_bytes};
  bench::filling<Allocator> lanes{allocator};
  while (all.next()) {
    allocator.reset();
    auto const took = lanes.fill(all, size);
    if (!took) return;
    auto const asked = static_cast<double>(lanes.held() * size);
    if (!lanes.drain(all, bench::portion::all)) return;
    all.add({asked / static_cast<double>(bench::filled_bytes), *took});
  }
  all.finish(allocator);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace quarry::literals;
  return bench::for_each_allocator(argc, argv, [&]<class Allocator>() {
    if constexpr (!bench::is_unbounded<Allocator>)
      for (bench::bytes size :
           {bench::bytes{16}, bench::bytes{64}, bench::bytes{256}, 1_KiB, 4_KiB, 64_KiB, 1_MiB})
        measure<Allocator>(size);
  });
}
