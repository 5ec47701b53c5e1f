// SPDX-License-Identifier: Apache-2.0
// How fast do 2^20 threads (2^17 on the CPU) allocate one size once each, and free, if the heap has
// been used for all smaller sizes and was not reset since? (Seed: Gallatin, "Experiments with
// warmed-up allocators".)
#include "kernels.hpp"

int main(int argc, char** argv) {
  using namespace bench;
  return for_each_allocator(argc, argv, [&]<class Allocator>() {
    Allocator allocator{heap_bytes};
    for (bytes size = 16; size <= 4096; size *= 2)
      measure_pairs("heap/warm", allocator, one_size{size}, many_lanes, state::in_use, mops,
                    "Mops/s");
  });
}
