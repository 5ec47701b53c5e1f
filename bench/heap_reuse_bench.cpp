// SPDX-License-Identifier: Apache-2.0
// Of a full heap of 2 GiB (64 MiB on the CPU) a random half is freed. How much of it can be had
// again, and how fast?
//
// 2^18 threads (2^10 on the CPU) allocate until each is refused. Left out: what has no end, and
// `bump`, which frees nothing.
#include "fill.hpp"

namespace {

template <class Allocator>
void measure(bench::bytes size) {
  bench::trial all{bench::filling_params(Allocator::name, size),
                   {{"heap/reuse/share", "ratio"}, {"heap/reuse/fill", "ms"}},
                   {.max_ms = 2000}};
  if (bench::is_known_to_hang(Allocator::name, "heap/reuse", size, bench::filling_lanes))
    return all.fail(bench::known_to_hang);
  Allocator allocator{bench::filled_bytes};
  bench::filling<Allocator> lanes{allocator};
  while (all.next()) {
    allocator.reset();
    if (!lanes.fill(all, size)) return;
    auto const full = lanes.held();
    if (!lanes.drain(all, bench::portion::half)) return;
    auto const half = lanes.held();
    auto const took = lanes.fill(all, size);
    if (!took) return;
    auto const again = lanes.held();
    if (!lanes.drain(all, bench::portion::all)) return;
    all.add({static_cast<double>(again - half) / static_cast<double>(full - half), *took});
  }
  all.finish(allocator);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::for_each_allocator(argc, argv, [&]<class Allocator>() {
    if constexpr (!bench::is_unbounded<Allocator> && !bench::never_frees<Allocator>)
      for (bench::bytes size : {64u, 256u, 1024u, 4096u}) measure<Allocator>(size);
  });
}
