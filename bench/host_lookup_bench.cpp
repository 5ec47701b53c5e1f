// SPDX-License-Identifier: Apache-2.0
// What does it cost to find an allocation's record by an address, among N live ones, in random
// order? And how much resident memory does the bookkeeping take for a live one?
//
// Host memory, sizes evenly from 1 to twice `mean` bytes. `where`: the first byte, or one in the
// midst. `fresh`: another thread allocates and frees in the same pool meanwhile.
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
  bench::trial all{
      params, {{"host/registry/find", "ns"}}, {.max_ms = 3000, .warm_ups = 1, .rounds = 15}};
  host_pool from{quarry::host_resource{}};
  std::mt19937_64 random{1};
  std::vector<char*> addresses;
  for (std::size_t i = 0; i < allocated; ++i) {
    bytes const size = 1 + random() % (2 * mean);
    auto* const base = static_cast<char*>(from.allocate(size));
    addresses.push_back(base + (is_interior ? size / 2 : 0));
  }
  std::shuffle(addresses.begin(), addresses.end(), random);
  std::atomic<bool> is_over{false};
  std::thread other;
  if (is_busy) {
    other = std::thread{[&] {
      std::mt19937 sizes{2};
      while (!is_over.load(std::memory_order_relaxed))
        from.deallocate(from.allocate(1 + sizes() % 10'000));
    }};
  }
  std::size_t const looks = std::max<std::size_t>(allocated, 200'000);
  std::size_t at = 0, found = 0;
  while (all.next()) {
    auto const base = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < looks; ++i) {
      found += quarry::registry::find(addresses[at]).has_value();
      if (++at == allocated) at = 0;
    }
    double const ns =
        std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - base).count();
    if (found != looks) return all.fail("an allocation was not found");
    found = 0;
    all.add({ns / static_cast<double>(looks)});
  }
  is_over = true;
  if (other.joinable()) other.join();
  all.finish();
}

/// Resident bytes of bookkeeping for each of `allocated` allocations.
void measure_bookkeeping(std::size_t allocated, bytes mean, bool is_tracked) {
  quarry::pool_options options;
  options.is_tracked = is_tracked;
  host_pool from{quarry::host_resource{}, options};
  std::mt19937_64 random{1};
  for (std::size_t i = 0; i < allocated; ++i) (void)from.allocate(1 + random() % (2 * mean));
  auto const params = bench::parameters{}
                          .add("allocator", "quarry")
                          .add("live", allocated)
                          .add("mean", mean)
                          .add("tracked", is_tracked ? "yes" : "no");
  bench::record("host/pool/bookkeeping", params,
                static_cast<double>(from.bookkeeping()) / static_cast<double>(allocated), "bytes");
}

/// One block lives, and a million pairs come and go.
void measure_flatness() {
  host_pool from{quarry::host_resource{}};
  void* const kept = from.allocate(64);
  auto const params = bench::parameters{}.add("allocator", "quarry").add("live", 1);
  from.deallocate(from.allocate(64));  // the pair itself needs a chunk
  double const before = static_cast<double>(from.bookkeeping());
  for (int i = 0; i < 1'000'000; ++i) from.deallocate(from.allocate(64));
  bench::record("host/pool/bookkeeping_growth", params,
                static_cast<double>(from.bookkeeping()) - before, "bytes");
  from.deallocate(kept);
}

}  // namespace

int main(int argc, char** argv) {
  if (!bench::is_asked_for(argc, argv)) return 0;
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
