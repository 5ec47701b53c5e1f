// SPDX-License-Identifier: Apache-2.0
// A random half of a full heap of 2 GiB (64 MiB on the CPU) is freed. What share of it can be
// allocated again, and how fast?
//
// 2^18 threads (2^10 on the CPU) allocate until an allocation of each fails. Allocators that can
// use all memory of the machine are left out, and so is `bump`, which frees nothing.
#include "fill.hpp"

namespace {

template <class Allocator>
void measure(bench::bytes size) {
  bench::trial rounds{bench::filling_params(Allocator::name, size),
                      {{"heap/reuse/share", "ratio"}, {"heap/reuse/fill", "ms"}},
                      {.max_ms = 2000}};
  if (bench::is_known_to_hang(Allocator::name, "heap/reuse", size, bench::filling_lanes))
    return rounds.fail(bench::known_to_hang);
  Allocator allocator{bench::filled_bytes};
  bench::filling<Allocator> lanes{allocator};
  while (rounds.next()) {
    allocator.reset();
    if (!lanes.fill(rounds, size)) return;
    auto const full = lanes.allocations();
    if (!lanes.drain(rounds, bench::portion::half)) return;
    auto const half = lanes.allocations();
    auto const ms = lanes.fill(rounds, size);
    if (!ms) return;
    auto const refilled = lanes.allocations();
    if (!lanes.drain(rounds, bench::portion::all)) return;
    rounds.add({static_cast<double>(refilled - half) / static_cast<double>(full - half), *ms});
  }
  rounds.finish(allocator);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::for_each_allocator(argc, argv, [&]<class Allocator>() {
    if constexpr (!bench::is_unbounded<Allocator> && !bench::never_frees<Allocator>)
      for (bench::bytes size : {64u, 256u, 1024u, 4096u}) measure<Allocator>(size);
  });
}
