// SPDX-License-Identifier: Apache-2.0
// Records what two threads allocate from a pool, then reads the trace and prints its peak. Usage:
//   record_trace [FILE]
#include "quarry/host.hpp"
#include "quarry/trace.hpp"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace quarry::literals;
namespace trace = quarry::trace;

namespace {

using shared_pool = quarry::synchronized_resource<quarry::pool<quarry::host_resource>>;
using recorded_pool = trace::recorded_resource<shared_pool>;

void work(recorded_pool& pool, trace::recorder& recorder) {
  for (int step = 0; step < 100; ++step) {
    trace::call_site_scope const call_site{recorder};  // events of this thread name this line
    void* const input = pool.allocate(1_MiB, 256);
    void* const output = pool.allocate(2_MiB, 256);
    pool.deallocate(input, 1_MiB, 256);
    pool.deallocate(output, 2_MiB, 256);
  }
}

void record(std::string const& path) {
  auto const recorder = std::make_shared<trace::recorder>(path);
  recorded_pool pool{recorder, "arrays", trace::recorded_role::allocator, std::in_place,
                     quarry::host_resource{}};
  recorder->phase("training");
  std::thread other{[&] { work(pool, *recorder); }};
  work(pool, *recorder);
  other.join();
  recorder->close();  // throws if the disk is full
}

/// Keeps the last 10,000 events in memory, and writes them only if something goes wrong.
void record_the_last_events(std::string const& path) {
  auto const recorder = std::make_shared<trace::recorder>(trace::ring_limit{10'000});
  trace::recorded_resource source{quarry::limited_resource{quarry::host_resource{}, 1_MiB},
                                  recorder, "limited"};
  try {
    source.deallocate(source.allocate(2_MiB, 16), 2_MiB, 16);
  } catch (quarry::out_of_memory const&) {
    recorder->save(path);
  }
}

/// Prints the number of events and the most bytes that were allocated at one time.
std::size_t print_peak(std::string const& path) {
  auto const reader = trace::open_trace(path);
  std::vector<trace::event> events(1000);
  std::size_t count = 0, failures = 0;
  quarry::bytes allocated = 0, peak = 0;
  while (std::size_t const part = reader->read(events)) {
    for (std::size_t i = 0; i < part; ++i) {
      if (events[i].kind == trace::event_kind::allocate) allocated += events[i].size;
      if (events[i].kind == trace::event_kind::deallocate) allocated -= events[i].size;
      if (events[i].kind == trace::event_kind::fail) ++failures;
      peak = std::max(peak, allocated);
    }
    count += part;
  }
  std::printf("%s: %zu events, %zu failures, peak %zu MiB\n", path.c_str(), count, failures,
              static_cast<std::size_t>(peak >> 20));
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  std::string const path = argc > 1 ? argv[1] : "record_trace.trace";
  record(path);
  bool const is_complete = print_peak(path) == 2 * 100 * 4 + 1;
  record_the_last_events(path);
  return print_peak(path) == 1 && is_complete ? 0 : 1;
}
