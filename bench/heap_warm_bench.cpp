// SPDX-License-Identifier: Apache-2.0
// How fast do 2^20 threads (2^17 on the CPU) allocate, and free, one size each from a heap that has
// been used for all the sizes before, and was not reset since? (Seed: Gallatin, "Experiments with
// warmed-up allocators".)
#include "kernels.hpp"

int main(int argc, char** argv) {
  using namespace bench;
  return for_each_allocator(argc, argv, [&]<class Allocator>() {
    Allocator allocator{heap_bytes};
    for (bytes size = 16; size <= 4096; size *= 2)
      measure_pairs("heap/warm", allocator, one_size{size}, many_lanes, before::nothing, mops,
                    "Mops/s");
  });
}
