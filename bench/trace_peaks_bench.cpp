// SPDX-License-Identifier: Apache-2.0
// How much memory does each way to serve a trace reserve at its peak?
//
// For each of the four traces of data/. `requested`: the most that the program had in use; nothing
// can reserve less. `pytorch`: as recorded. `fast`: a pool with default options. `streams`: a
// stream pool with default options, where work takes a millisecond of the trace's time. `tuned`:
// the best that `tune` finds. `separated`: two pools like `fast`; their table is learnt from the
// first half of the trace, and is the one that needs least there. `plan`: a plan of the trace,
// served by a planned_pool. `tuned` and `plan` know the whole trace. Nothing is timed.
#include "harness.hpp"

#include "quarry/trace.hpp"

#include <optional>

namespace {

using namespace quarry;
using namespace quarry::trace;

void record_peak(std::string const& trace, char const* allocator, bench::bytes peak) {
  bench::record("trace/peak", bench::parameters{}.add("trace", trace).add("allocator", allocator),
                static_cast<double>(peak), "B");
}

replay_result replayed(std::span<event const> events, replay_options const& options) {
  replayer memory{options};
  memory.add(events);
  return memory.result();
}

/// The table that needs least memory for these events. Null if one pool needs no more.
std::optional<routing_table> best_table(std::span<event const> events,
                                        name_table const& call_sites) {
  std::optional<routing_table> best;
  bench::bytes least = replayed(events, {}).pool.peak_reserved;
  for (route_key const key :
       {route_key::size, route_key::call_site, route_key::call_site_and_size}) {
    for (std::uint64_t const limit : {50u, 200u, 1000u, 5000u, 20'000u}) {
      routing_table table = separate(events, call_sites, {.key = key, .temporary_events = limit});
      auto const found = replayed(events, {.routing = &table, .call_sites = &call_sites});
      if (found.pool.peak_reserved >= least) continue;
      least = found.pool.peak_reserved;
      best = std::move(table);
    }
  }
  return best;
}

void measure(std::string const& name) {
  std::string const path = std::string{QUARRY_DATA} + '/' + name + ".pickle.gz";
  auto const trace = open_trace(path);
  std::vector<event> events, batch(4096);
  while (std::size_t const count = trace->read(batch))
    events.insert(events.end(), batch.begin(), batch.begin() + static_cast<std::ptrdiff_t>(count));
  name_table const& call_sites = trace->names().call_sites;

  auto const fast = replayed(events, {});
  record_peak(name, "requested", fast.pool.peak_allocated);
  record_peak(name, "pytorch", fast.recorded_peak_reserved);
  record_peak(name, "fast", fast.pool.peak_reserved);

  auto const streams = replayed(events, {.placement = strategy::streams});
  record_peak(name, "streams", streams.pool.peak_reserved);

  auto const tuned = tune([&] { return open_trace(path); }, {});
  record_peak(name, "tuned", tuned.outcomes.at(tuned.best).peak_reserved);

  auto const table = best_table(std::span{events}.first(events.size() / 2), call_sites);
  replay_options routed{.call_sites = &call_sites};
  if (table) routed.routing = &*table;
  record_peak(name, "separated", replayed(events, routed).pool.peak_reserved);

  plan const placed =
      make_plan(events, {.finds_period = false});  // as the table says: it knows the whole trace
  auto const served = replayed(events, {.placement = strategy::planned, .plan = &placed});
  record_peak(name, "plan", served.pool.peak_reserved);
}

}  // namespace

int main(int argc, char** argv) {
  if (!bench::is_requested(argc, argv)) return 0;
  for (char const* const name : {"gpt", "resnet", "kvcache", "gnn"}) measure(name);
}
