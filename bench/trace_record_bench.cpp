// SPDX-License-Identifier: Apache-2.0
// What does recording cost an event?
//
//   trace_record_bench [quarry] [FILE]    FILE: where the traces go; default: a file in /dev/shm
//
// `record`: the processor time of a thread for one event, with everything that the event causes:
// its part of the merge, the encoding, the checksum and the write. The loop around it is measured
// without a recorder and subtracted. The events alternate: an allocation at a random address of a
// random size below 4096, and its deallocation. `pool`: the same for a pool that replaces random
// ones of 1000 allocations of 1 to 4096 bytes: with a recorder minus without a recorder, for one of
// the two events. `threads`: the number of threads that record at the same time. With 2 threads,
// each event also costs a fence that orders it with the events of the other thread. `case`: where
// the events go. 15 rounds, all cases interleaved; the machine's other work adds to the spread.
#include "harness.hpp"
#include "record_loop.hpp"

#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/trace/recorded_resource.hpp"

#include <map>
#include <memory>
#include <random>

namespace {

using quarry::bytes;
using namespace quarry::trace;
using bench::mean_ns;
using bench::record_ns;

constexpr std::size_t events = 1'000'000;
constexpr int rounds = 15;

/// Replaces allocations of a pool of each thread. Returns nanoseconds an event.
template <class Source>
double replace_ns(std::vector<std::unique_ptr<Source>>& sources) {
  return mean_ns(static_cast<unsigned>(sources.size()),
                 [&](unsigned number) {
                   Source& source = *sources[number];
                   std::minstd_rand random{number + 1};
                   std::vector<std::pair<void*, bytes>> allocated(1000);
                   for (auto& [pointer, size] : allocated)
                     pointer = source.allocate(size = 1 + random() % 4096, 16);
                   for (std::size_t i = 0; i < events; i += 2) {
                     auto& [pointer, size] = allocated[random() % allocated.size()];
                     source.deallocate(pointer, size, 16);
                     pointer = source.allocate(size = 1 + random() % 4096, 16);
                   }
                   for (auto const& [pointer, size] : allocated)
                     source.deallocate(pointer, size, 16);
                 }) /
         static_cast<double>(events);
}
double pool_ns(std::shared_ptr<recorder> const& target, unsigned threads) {
  using pool = quarry::pool<quarry::host_resource>;
  std::vector<std::unique_ptr<recorded_resource<pool>>> recorded;
  std::vector<std::unique_ptr<pool>> plain;
  for (unsigned i = 0; i < threads; ++i) {
    plain.push_back(std::make_unique<pool>(quarry::host_resource{}));
    recorded.push_back(std::make_unique<recorded_resource<pool>>(
        target, "pool", recorded_role::allocator, std::in_place, quarry::host_resource{}));
  }
  return target != nullptr ? replace_ns(recorded) : replace_ns(plain);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 && !bench::is_requested(argc, argv)) return 0;
  std::string const path = argc > 2 ? argv[2] : "/dev/shm/quarry_record_bench.trace";
  struct target {
    char const* name;
    std::shared_ptr<recorder> (*make)(std::string const& path);
  };
  constexpr target targets[] = {
      {"file", [](std::string const& file) { return std::make_shared<recorder>(file); }},
      {"file, steady clock",
       [](std::string const& file) {
         return std::make_shared<recorder>(file, event_clock::steady);
       }},
      {"/dev/null", [](std::string const&) { return std::make_shared<recorder>("/dev/null"); }},
      {"ring of 100000",
       [](std::string const&) { return std::make_shared<recorder>(ring_limit{100'000}); }},
  };
  std::map<std::tuple<std::string, std::string, unsigned>, std::vector<double>> results;
  for (int round = -2; round < rounds; ++round) {  // two rounds to warm up
    for (unsigned threads = 1; threads <= 2; ++threads) {
      double const loop = record_ns(nullptr, threads, events), pool = pool_ns(nullptr, threads);
      for (target const& each : targets) {
        double const record = record_ns(each.make(path).get(), threads, events) - loop;
        double const in_pool = pool_ns(each.make(path), threads) - pool;
        if (round < 0) continue;
        results[{"record", each.name, threads}].push_back(record);
        results[{"pool", each.name, threads}].push_back(in_pool);
      }
    }
  }
  std::remove(path.c_str());
  for (auto const& [key, values] : results) {
    auto const& [name, where, threads] = key;
    bench::record_spread("trace/" + name,
                         bench::parameters{}.add("case", where).add("threads", threads), values,
                         "ns/event");
  }
}
