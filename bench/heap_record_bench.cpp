// SPDX-License-Identifier: Apache-2.0
// What does recording cost kernels that allocate?
//
// `malloc`, then `free`: each of 2^20 lanes (2^17 on the CPU) allocates 64 bytes, and frees them in
// a second kernel. State: the heap was used by the warm-up rounds. Allocator `quarry`: a heap_ref;
// `recorded`: a recorded_heap_ref over the same heap, with room for all events. Rounds alternate.
// `drain`: the host reads and sorts the events of such a round; ns for each event.
#include "kernels.hpp"

#include "quarry/device/recorded_heap.hpp"

namespace {

template <class Ref>
std::pair<double, double> round(Ref heap, bench::array<void*>& pointers) {
  std::uint64_t const count = pointers.size();
  double const allocation = bench::time_ms(
      bench::lanes(count),
      bench::allocate_kernel<Ref, bench::one_size>{heap, {64}, count, pointers.data()});
  double const free =
      bench::time_ms(bench::lanes(count), bench::free_kernel<Ref>{heap, count, pointers.data()});
  double const ns = 1e6 / static_cast<double>(count);
  return {allocation * ns, free * ns};
}

void measure() {
  bench::quarry_allocator allocator{bench::heap_bytes};
  quarry::heap_recorder recorder{
      allocator.heap(), {.buffers = 132, .events_per_buffer = bench::on_gpu ? 1u << 16 : 1u << 18}};
  bench::array<void*> pointers{bench::many_lanes};
  std::vector<double> times[5];
  for (int i = -2; i < 15; ++i) {
    auto const plain = round(allocator.device(), pointers);
    auto const recorded = round(recorder.ref(), pointers);
    std::uint64_t events = 0;
    double const drain = bench::host_ms([&] { recorder.drain([&](auto const&) { ++events; }); });
    if (i < 0) continue;
    double const values[] = {plain.first, plain.second, recorded.first, recorded.second,
                             1e6 * drain / static_cast<double>(events)};
    for (std::size_t k = 0; k < std::size(values); ++k) times[k].push_back(values[k]);
  }
  auto const params = [](char const* name) {
    return bench::parameters{}.add("allocator", name).add("lanes", bench::many_lanes);
  };
  bench::record_spread("heap/record/malloc", params("quarry"), times[0], "ns");
  bench::record_spread("heap/record/free", params("quarry"), times[1], "ns");
  bench::record_spread("heap/record/malloc", params("recorded"), times[2], "ns");
  bench::record_spread("heap/record/free", params("recorded"), times[3], "ns");
  bench::record_spread("heap/record/drain", params("recorded"), times[4], "ns");
  bench::record("heap/record/lost", params("recorded"), static_cast<double>(recorder.lost()),
                "events");
}

}  // namespace

int main(int argc, char** argv) {
  if (!bench::is_requested(argc, argv)) return 0;
  measure();
}
