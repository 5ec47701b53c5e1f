// SPDX-License-Identifier: Apache-2.0
// The loop that the benchmarks of recording time: threads record allocations and deallocations.
#pragma once

#include "quarry/trace/recorder.hpp"

#include <barrier>
#include <ctime>
#include <thread>
#include <vector>

namespace bench {

/// The processor time of the calling thread.
inline double cpu_ns() {
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

/// Records `events` events of each thread into `target`; if it is null, does only the work around
/// it. The events alternate: an allocation at a random address of a random size below 4096, and its
/// deallocation. Returns nanoseconds an event.
inline double record_ns(quarry::trace::recorder* target, unsigned threads, std::size_t events) {
  using quarry::trace::event;
  using quarry::trace::event_kind;
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

}  // namespace bench
