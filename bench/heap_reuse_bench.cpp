// SPDX-License-Identifier: Apache-2.0
// Of a full heap of 2 GiB (64 MiB on the CPU) a random half is freed. How much of it can be had again, and how fast?
//
// 2^18 threads (2^10 on the CPU) allocate until each is refused. Left out: what has no end, and `bump`, which frees nothing.
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
  for (bench::rounds round{2000}; round.next();) {
    allocator.reset();
    (void)lanes.fill(size);
    auto const full = lanes.held();
    if (auto const overlaps = lanes.overlaps(); overlaps != 0) {
      bench::record_failure("heap/reuse/share", params,
                            std::to_string(overlaps) + " threads share memory", "ratio");
      return;
    }
    lanes.free_half();
    auto const half = lanes.held();
    if (!bench::record_complaint("heap/reuse/share", params, allocator, half, "ratio")) return;
    double const took = lanes.fill(size);
    auto const again = lanes.held();
    if (auto const overlaps = lanes.overlaps(); overlaps != 0) {
      bench::record_failure("heap/reuse/share", params,
                            std::to_string(overlaps) + " threads share memory again", "ratio");
      return;
    }
    if (!bench::record_complaint("heap/reuse/share", params, allocator, again, "ratio")) return;
    lanes.free_all();
    if (!bench::record_complaint("heap/reuse/share", params, allocator, 0, "ratio")) return;
    if (!round.counts()) continue;
    ms.push_back(took);
    share.push_back(static_cast<double>(again - half) / static_cast<double>(full - half));
  }
  bench::record_spread("heap/reuse/share", params, bench::spread_of(share), "ratio");
  bench::record_spread("heap/reuse/fill", params, bench::spread_of(ms), "ms");
}

}  // namespace

int main(int argc, char** argv) {
  bench::for_each_allocator(argc, argv, [&]<class Allocator>() {
    if constexpr (bench::is_cuda_malloc<Allocator>) {
      bench::record_failure("heap/reuse/share",
                            bench::parameters{}.add("allocator", Allocator::name),
                            bench::known_to_hang, "ratio");
    } else if constexpr (!bench::is_unbounded<Allocator> && !bench::never_frees<Allocator>) {
      Allocator allocator{bench::filled_bytes};
      for (bench::bytes size : {64u, 256u, 1024u, 4096u}) measure(allocator, size);
    }
  });
}
