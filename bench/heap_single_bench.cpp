// SPDX-License-Identifier: Apache-2.0
// How fast do 2^20 threads (2^17 on the CPU) allocate once each, and free: one size, or mixed
// sizes? (Seed: Gallatin, "Single-sized test" and "Mixed-size test".) The heap is reset before each
// round.
#include "kernels.hpp"

int main(int argc, char** argv) {
  using namespace bench;
  return for_each_allocator(argc, argv, [&]<class Allocator>() {
    Allocator allocator{heap_bytes};
    for (bytes size = 16; size <= 4096; size *= 2)
      measure_pairs("heap/single", allocator, one_size{size}, many_lanes, state::reset, mops,
                    "Mops/s");
    for (std::uint32_t maximum : {64u, 256u, 1024u, 4096u})
      measure_pairs("heap/mixed", allocator, uniform_sizes{16, maximum}, many_lanes, state::reset,
                    mops, "Mops/s");
  });
}
