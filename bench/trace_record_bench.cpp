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

#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/trace/recorded_resource.hpp"

#include <barrier>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <thread>

namespace {

using quarry::bytes;
using namespace quarry::trace;

constexpr std::size_t events = 1'000'000;
constexpr int rounds = 15;

/// The processor time of the calling thread.
double cpu_ns() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

/// Runs `work(thread)` in threads, which begin together. Returns the mean processor time of a call.
template <class Work>
double mean_ns(unsigned count, Work const& work) {
  std::barrier ready{static_cast<std::ptrdiff_t>(count)};
  std::vector<double> times(count);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < count; ++i) {
    threads.emplace_back([&, i] {
      ready.arrive_and_wait();
      double const begin = cpu_ns();
      work(i);
      times[i] = cpu_ns() - begin;
    });
  }
  for (auto& each : threads) each.join();
  double sum = 0;
  for (double const time : times) sum += time;
  return sum / count;
}

/// Records into `target`, or does only the work around it. Returns nanoseconds an event.
double record_ns(recorder* target, unsigned threads) {
  return mean_ns(threads,
                 [&](unsigned number) {
                   std::uint32_t random = number + 1;
                   for (std::size_t i = 0; i < events; i += 2) {
                     random = random * 1664525 + 1013904223;
                     event happened{.address = 0x7f0000000000 + (random >> 12) * std::uint64_t{64},
                                    .size = random % 4096,
                                    .granted = random % 4096 + 16,
                                    .allocator = 1,
                                    .kind = event_kind::allocate};
                     if (target != nullptr) target->record(happened);
                     happened.kind = event_kind::deallocate;
                     happened.granted = 0;
                     if (target != nullptr) target->record(happened);
                     asm volatile("" : : "r,m"(happened.address) : "memory");
                   }
                 }) /
         static_cast<double>(events);
}

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
      double const loop = record_ns(nullptr, threads), pool = pool_ns(nullptr, threads);
      for (target const& each : targets) {
        double const record = record_ns(each.make(path).get(), threads) - loop;
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
