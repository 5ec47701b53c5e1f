// SPDX-License-Identifier: Apache-2.0
// Do two threads allocate twice as fast as one? Each replaces one of 1000 allocations of 64 bytes
// at random, which are tracked.
#include "trial.hpp"

#include "quarry/host/host_resource.hpp"
#include "quarry/host/synchronized_resource.hpp"
#include "quarry/host/thread_arenas.hpp"

#include <barrier>
#include <random>
#include <thread>

namespace {

using quarry::bytes;

struct arenas {
  static constexpr char const* name = "quarry-arenas";
  quarry::thread_arenas<quarry::host_resource> from{quarry::host_resource{}};
  void* allocate(bytes size) { return from.allocate(size); }
  void deallocate(void* memory) { from.deallocate(memory); }
};
struct one_pool {
  static constexpr char const* name = "quarry-synchronized";
  quarry::synchronized_resource<quarry::pool<quarry::host_resource>> from{quarry::host_resource{}};
  void* allocate(bytes size) { return from.allocate(size, 16); }
  void deallocate(void* memory) { from.deallocate(memory, 64, 16); }
};
struct c_library {
  static constexpr char const* name = "libc";
  void* allocate(bytes size) { return std::malloc(size); }
  void deallocate(void* memory) { std::free(memory); }
};

template <class Allocator>
void measure(unsigned threads) {
  auto const params = bench::parameters{}.add("allocator", Allocator::name).add("threads", threads);
  bench::trial all{
      params, {{"host/threads/pairs", "Mops/s"}}, {.most_ms = 3000, .warm_ups = 2, .rounds = 25}};
  constexpr int pairs = 400'000;
  Allocator from;
  while (all.next()) {
    std::barrier ready{static_cast<std::ptrdiff_t>(threads) + 1};
    std::vector<std::thread> workers;
    for (unsigned number = 0; number < threads; ++number) {
      workers.emplace_back([&, number] {
        std::minstd_rand random{number + 1};
        std::vector<void*> held(1000);
        for (auto& each : held) each = from.allocate(64);
        ready.arrive_and_wait();
        for (int i = 0; i < pairs; ++i) {
          auto& victim = held[random() % held.size()];
          from.deallocate(victim);
          victim = from.allocate(64);
        }
        ready.arrive_and_wait();
        for (void* const each : held) from.deallocate(each);
      });
    }
    ready.arrive_and_wait();
    auto const begin = std::chrono::steady_clock::now();
    ready.arrive_and_wait();
    double const us =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
    for (auto& each : workers) each.join();
    all.add({static_cast<double>(threads) * pairs / us});
  }
  all.finish();
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> const wanted(argv + 1, argv + argc);
  auto const run = [&]<class Allocator>() {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), Allocator::name) == wanted.end())
      return;
    for (unsigned const threads : {1u, 2u}) measure<Allocator>(threads);
  };
  run.operator()<arenas>();
  run.operator()<one_pool>();
  run.operator()<c_library>();
}
