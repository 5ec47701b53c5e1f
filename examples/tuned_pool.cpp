// SPDX-License-Identifier: Apache-2.0
// A pool before and after tuning: the memory that it reserves for a program that works in phases.
#include "quarry/host.hpp"

#include <cstdio>
#include <vector>

using namespace quarry::literals;

/// Each phase needs another size, as in a simulation that refines its mesh. The last phase is long
/// and needs little memory.
template <class Pool>
void work(Pool& pool) {
  for (quarry::bytes size = 1_MiB; size <= 8_MiB; size *= 2) {
    std::vector<void*> fields;
    for (int i = 0; i < 16; ++i) fields.push_back(pool.allocate(size));
    for (void* const field : fields) pool.deallocate(field);
  }
  for (int i = 0; i < 256; ++i) pool.deallocate(pool.allocate(1_MiB));
}

void print(char const* name, quarry::pool_counts const& counts) {
  auto const mib = [](quarry::bytes size) { return static_cast<unsigned>(size >> 20); };
  std::printf("%-8s peak %3u MiB, now %3u MiB reserved, largest free chunk %3u MiB, %2u blocks\n",
              name, mib(counts.peak_reserved), mib(counts.reserved), mib(counts.largest_free),
              static_cast<unsigned>(counts.blocks_allocated));
}

int main() {
  quarry::pool usual{quarry::host_resource{}};
  work(usual);
  print("default", usual.counts());

  // The peak is known: one block serves all phases.
  quarry::pool large{quarry::host_resource{}, {.first_block = 136_MiB, .max_bytes = 256_MiB}};
  work(large);
  print("sized", large.counts());

  // Every 64 frees, the pool returns the blocks that it did not need during these frees.
  quarry::pool shrinking{quarry::host_resource{},
                         {.first_block = 1_MiB, .next_block = 1_MiB, .shrink_after = 64}};
  work(shrinking);
  print("shrinks", shrinking.counts());

  // The pool replaces its free blocks by one block as soon as their holding cost reaches the price.
  quarry::pool coalescing{quarry::host_resource{},
                          {.first_block = 16_MiB, .coalesce = quarry::heuristic::by_cost(1024)}};
  work(coalescing);
  print("by_cost", coalescing.counts());

  bool const is_one_block = large.counts().blocks_allocated == 1;
  return is_one_block && usual.counts().allocated == 0 ? 0 : 1;
}
