// SPDX-License-Identifier: Apache-2.0
// How much of a heap of 2 GiB (64 MiB on the CPU) is handed out before the first failure, and how long does that take?
//
// 2^18 threads (2^10 on the CPU) allocate until each is refused. The C library and mimalloc have no end, and are left out.
#include "fill.hpp"

namespace {

template <class Allocator>
void measure(Allocator& allocator, bench::bytes size) {
  auto const params = bench::parameters{}
                          .add("allocator", Allocator::name)
                          .add("bytes", size)
                          .add("heap_bytes", bench::filled_bytes);
  bench::filling<Allocator> lanes{allocator};
  std::vector<double> share, ms;
  for (bench::rounds round{1000}; round.next();) {
    allocator.reset();
    double const took = lanes.fill(size);
    auto const count = lanes.held();
    if (auto const overlaps = lanes.overlaps(); overlaps != 0) {
      bench::record_failure("heap/utilisation/share", params,
                            std::to_string(overlaps) + " threads share memory", "ratio");
      return;
    }
    if (!bench::record_complaint("heap/utilisation/share", params, allocator, count, "ratio"))
      return;
    lanes.free_all();
    if (!bench::record_complaint("heap/utilisation/share", params, allocator, 0, "ratio")) return;
    if (!round.counts()) continue;
    ms.push_back(took);
    share.push_back(static_cast<double>(count * size) / static_cast<double>(bench::filled_bytes));
  }
  bench::record_spread("heap/utilisation/share", params, bench::spread_of(share), "ratio");
  bench::record_spread("heap/utilisation/fill", params, bench::spread_of(ms), "ms");
}

}  // namespace

int main(int argc, char** argv) {
  using namespace quarry::literals;
  bench::for_each_allocator(argc, argv, [&]<class Allocator>() {
    if constexpr (bench::is_cuda_malloc<Allocator>) {
      bench::record_failure("heap/utilisation/share",
                            bench::parameters{}.add("allocator", Allocator::name),
                            bench::known_to_hang, "ratio");
    } else if constexpr (!bench::is_unbounded<Allocator>) {
      Allocator allocator{bench::filled_bytes};
      for (bench::bytes size :
           {bench::bytes{16}, bench::bytes{64}, bench::bytes{256}, 1_KiB, 4_KiB, 64_KiB, 1_MiB}) {
        measure(allocator, size);
      }
    }
  });
}
