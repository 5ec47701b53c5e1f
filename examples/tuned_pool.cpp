// SPDX-License-Identifier: Apache-2.0
// A pool before and after tuning: what it reserves for a program that works in phases.
#include "quarry/host.hpp"

#include <cstdio>
#include <vector>

using namespace quarry::literals;

/// Phases that each need other sizes, as a simulation has them that refines its mesh. At the end
/// comes a long phase that needs little.
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

  // The peak is known: one block serves everything.
  quarry::pool large{quarry::host_resource{}, {.first_block = 136_MiB, .max_bytes = 256_MiB}};
  work(large);
  print("sized", large.counts());

  // Every 64 frees, the pool returns the blocks that were not needed since the last time.
  quarry::pool shrinking{quarry::host_resource{},
                         {.first_block = 1_MiB, .next_block = 1_MiB, .shrink_after = 64}};
  work(shrinking);
  print("shrinks", shrinking.counts());

  // The pool replaces its free blocks by one block when holding them has cost as much as that.
  quarry::pool coalescing{quarry::host_resource{},
                          {.first_block = 16_MiB, .coalesce = quarry::heuristic::by_cost(1024)}};
  work(coalescing);
  print("joins", coalescing.counts());

  bool const is_one_block = large.counts().blocks_allocated == 1;
  return is_one_block && usual.counts().allocated == 0 ? 0 : 1;
}
