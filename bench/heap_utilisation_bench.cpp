// SPDX-License-Identifier: Apache-2.0
// What share of a heap of 2 GiB (64 MiB on the CPU) can be allocated before the first failure, and
// how long does that take? (Seed: Gallatin, "Utilization test".)
//
// 2^18 threads (2^10 on the CPU) allocate until an allocation of each fails. The heap is reset
// before. The C library's malloc and mimalloc are left out: they can use all memory.
//
// `heap/waste`: the same for the sizes that waste most memory: sizes just above a size class, and,
// in a heap of 8 GiB, sizes near half of a segment of 16 MiB. `by_size_classes` is the share that
// follows from the size classes alone: how much of a segment its slices fill.
#include "fill.hpp"

namespace {

template <class Allocator>
void measure(bench::bytes size) {
  bench::trial rounds{bench::filling_params(Allocator::name, size),
                      {{"heap/utilisation/share", "ratio"}, {"heap/utilisation/fill", "ms"}},
                      {.max_ms = 1000}};
  if (bench::is_known_to_hang(Allocator::name, "heap/utilisation", size, bench::filling_lanes))
    return rounds.fail(bench::known_to_hang);
  Allocator allocator{bench::filled_bytes};
  bench::filling<Allocator> lanes{allocator};
  while (rounds.next()) {
    allocator.reset();
    auto const ms = lanes.fill(rounds, size);
    if (!ms) return;
    auto const requested = static_cast<double>(lanes.allocations() * size);
    if (!lanes.drain(rounds, bench::portion::all)) return;
    rounds.add({requested / static_cast<double>(bench::filled_bytes), *ms});
  }
  rounds.finish(allocator);
}

/// The requested bytes in a full heap, divided by the heap's bytes. Small allocations share
/// segments; large allocations occupy whole segments.
double share_by_size_classes(bench::bytes size, bench::bytes heap_bytes,
                             bench::bytes segment_bytes) {
  bench::bytes const padded = quarry::detail::hardening::padded(size);
  bench::bytes count = 0;
  if (padded <= segment_bytes / 2) {
    auto const id = quarry::size_class_of(static_cast<std::uint32_t>(padded));
    count = heap_bytes / segment_bytes * (segment_bytes / quarry::size_of_class(id));
  } else {
    bench::bytes const segments = (padded + segment_bytes - 1) / segment_bytes;
    count = heap_bytes / segment_bytes / segments;
  }
  return static_cast<double>(count * size) / static_cast<double>(heap_bytes);
}

void measure_waste(bench::bytes size, bench::bytes heap_bytes, bench::bytes segment_bytes) {
  using allocator_type = bench::quarry_allocator;
  auto const params = bench::filling_params(allocator_type::name, size, heap_bytes)
                          .add("segment_bytes", segment_bytes);
  bench::trial rounds{params, {{"heap/waste/share", "ratio"}}, {.max_ms = 1000, .rounds = 5}};
  allocator_type allocator{heap_bytes, segment_bytes};
  bench::filling<allocator_type> lanes{allocator};
  while (rounds.next()) {
    allocator.reset();
    if (!lanes.fill(rounds, size)) return;
    auto const requested = static_cast<double>(lanes.allocations() * size);
    if (!lanes.drain(rounds, bench::portion::all)) return;
    rounds.add({requested / static_cast<double>(heap_bytes)});
  }
  rounds.finish(allocator);
  bench::record("heap/waste/by_size_classes", params,
                share_by_size_classes(size, heap_bytes, segment_bytes), "ratio");
}

}  // namespace

int main(int argc, char** argv) {
  using namespace quarry::literals;
  return bench::for_each_allocator(argc, argv, [&]<class Allocator>() {
    if constexpr (!bench::is_unbounded<Allocator>)
      for (bench::bytes size :
           {bench::bytes{16}, bench::bytes{64}, bench::bytes{256}, 1_KiB, 4_KiB, 64_KiB, 1_MiB})
        measure<Allocator>(size);
    if constexpr (std::is_same_v<Allocator, bench::quarry_allocator>) {
      for (bench::bytes const size : {17, 1025, 4097})
        measure_waste(size, bench::filled_bytes, bench::on_gpu ? 16_MiB : 1_MiB);
      measure_waste(6_MiB, 8_GiB, 16_MiB);
      measure_waste(8_MiB + 1, 8_GiB, 16_MiB);
    }
  });
}
