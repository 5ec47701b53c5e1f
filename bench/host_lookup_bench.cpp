// SPDX-License-Identifier: Apache-2.0
// What does the lookup of an allocation's record by an address cost, among N live allocations and
// in random order? And how much resident memory does the bookkeeping take for a live allocation?
//
// Host memory. Sizes are uniform from 1 to twice `mean` bytes. `where`: the first byte (`begin`),
// or a byte in the middle (`midst`). `busy`: another thread allocates and frees in the same pool at
// the same time.
#include "trial.hpp"

#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/host_resource.hpp"

#include <atomic>
#include <random>
#include <thread>

namespace {

using quarry::bytes;
using host_pool = quarry::pool<quarry::host_resource>;

void measure(std::size_t allocated, bytes mean, bool is_interior, bool is_busy) {
  auto const params = bench::parameters{}
                          .add("allocator", "quarry")
                          .add("live", allocated)
                          .add("mean", mean)
                          .add("where", is_interior ? "midst" : "begin")
                          .add("busy", is_busy ? "yes" : "no");
  bench::trial rounds{
      params, {{"host/registry/find", "ns"}}, {.max_ms = 3000, .warm_ups = 1, .rounds = 15}};
  host_pool pool{quarry::host_resource{}};
  std::mt19937_64 random{1};
  std::vector<char*> addresses;
  for (std::size_t i = 0; i < allocated; ++i) {
    bytes const size = 1 + random() % (2 * mean);
    auto* const base = static_cast<char*>(pool.allocate(size));
    addresses.push_back(base + (is_interior ? size / 2 : 0));
  }
  std::shuffle(addresses.begin(), addresses.end(), random);
  std::atomic<bool> is_over{false};
  std::thread churning_thread;
  if (is_busy) {
    churning_thread = std::thread{[&] {
      std::mt19937 sizes{2};
      while (!is_over.load(std::memory_order_relaxed))
        pool.deallocate(pool.allocate(1 + sizes() % 10'000));
    }};
  }
  std::size_t const lookups = std::max<std::size_t>(allocated, 200'000);
  std::size_t next = 0, found = 0;
  while (rounds.next()) {
    auto const begin = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < lookups; ++i) {
      found += quarry::registry::find(addresses[next]).has_value();
      if (++next == allocated) next = 0;
    }
    double const ns =
        std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
    if (found != lookups) return rounds.fail("an allocation was not found");
    found = 0;
    rounds.add({ns / static_cast<double>(lookups)});
  }
  is_over = true;
  if (churning_thread.joinable()) churning_thread.join();
  rounds.finish();
}

/// Resident bytes of bookkeeping for each of `allocated` allocations.
void measure_bookkeeping(std::size_t allocated, bytes mean, bool is_tracked) {
  quarry::pool_options options;
  options.is_tracked = is_tracked;
  host_pool pool{quarry::host_resource{}, options};
  std::mt19937_64 random{1};
  for (std::size_t i = 0; i < allocated; ++i) (void)pool.allocate(1 + random() % (2 * mean));
  auto const params = bench::parameters{}
                          .add("allocator", "quarry")
                          .add("live", allocated)
                          .add("mean", mean)
                          .add("tracked", is_tracked ? "yes" : "no");
  bench::record("host/pool/bookkeeping", params,
                static_cast<double>(pool.bookkeeping()) / static_cast<double>(allocated), "bytes");
}

/// The growth of the bookkeeping after a million pairs, while one allocation is live.
void measure_flatness() {
  host_pool pool{quarry::host_resource{}};
  void* const kept = pool.allocate(64);
  auto const params = bench::parameters{}.add("allocator", "quarry").add("live", 1);
  pool.deallocate(pool.allocate(64));  // a pair needs a chunk
  double const bytes_before = static_cast<double>(pool.bookkeeping());
  for (int i = 0; i < 1'000'000; ++i) pool.deallocate(pool.allocate(64));
  bench::record("host/pool/bookkeeping_growth", params,
                static_cast<double>(pool.bookkeeping()) - bytes_before, "bytes");
  pool.deallocate(kept);
}

}  // namespace

int main(int argc, char** argv) {
  if (!bench::is_requested(argc, argv)) return 0;
  for (std::size_t const allocated : {1000, 10'000, 100'000, 1'000'000}) {
    for (bytes const mean : {bytes{64}, bytes{4096}}) {
      if (allocated * mean > bytes{1} << 31) continue;
      for (bool const is_interior : {false, true}) measure(allocated, mean, is_interior, false);
    }
  }
  measure(10'000, 64, false, true);
  measure_flatness();
  for (std::size_t const allocated : {100, 1000, 10'000, 100'000, 1'000'000}) {
    for (bytes const mean : {bytes{64}, bytes{4096}}) {
      for (bool const is_tracked : {false, true}) measure_bookkeeping(allocated, mean, is_tracked);
    }
  }
}
