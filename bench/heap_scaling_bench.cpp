// SPDX-License-Identifier: Apache-2.0
// How long do 1 to 2^20 threads (2^16 on the CPU) take to allocate once each, and to free, and how
// much does that time vary? (Seed: Gallatin, "Scaling test".) On the CPU the time includes the
// start of the operating system's threads.
#include "kernels.hpp"

int main(int argc, char** argv) {
  using namespace bench;
  return for_each_allocator(argc, argv, [&]<class Allocator>() {
    Allocator allocator{heap_bytes};
    for (bytes size : {64u, 512u})
      for (std::uint64_t count = 1; count <= 1u << (on_gpu ? 20 : 16); count *= 4)
        measure_pairs("heap/scaling", allocator, one_size{size}, count, state::reset, microseconds,
                      "us", {.max_ms = 800});
  });
}
