// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/compare_keys.hpp"

#include "quarry/trace/reader.hpp"
#include "trace/address_map.hpp"
#include "trace/strategies.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

constexpr std::size_t batch_size = std::size_t{1} << 14;

/// The allocations in use, with the phases in which they began.
class allocations_in_use {
 public:
  void add(std::span<event const> events) {
    for (event const& each : events) {
      ++index_;
      if (each.kind == event_kind::phase) phase_ = each;
      if (each.address == 0) continue;
      if (each.kind == event_kind::allocate) {
        (void)live_.remove(each.address);  // its free is missing
        (void)live_.insert(each.address, {index_, each, phase_});
      } else if (each.kind == event_kind::deallocate) {
        (void)live_.remove(each.address);
      }
    }
  }
  /// Events that allocate them again, each in its phase, and then begin the present phase.
  [[nodiscard]] std::vector<event> events() const {
    std::vector<birth> births;
    live_.for_each([&](birth const& each) { births.push_back(each); });
    std::ranges::sort(births, {}, &birth::index);
    std::vector<event> result;
    std::optional<event> phase;
    auto const begin = [&](std::optional<event> const& wanted) {
      if (wanted && wanted != phase) result.push_back(*wanted);
      phase = wanted;
    };
    for (birth const& each : births) {
      begin(each.phase);
      result.push_back(each.request);
    }
    begin(phase_);
    return result;
  }

 private:
  struct birth {
    std::uint64_t index = 0;
    event request = {};
    std::optional<event> phase = {};
  };

  address_map<birth> live_;
  std::uint64_t index_ = 0;
  std::optional<event> phase_;
};

/// Throws `bad_argument` unless the strategy is a placement: its pools can be several.
void check_takes_routes(strategy placement) {
  strategy_entry const* const entry = entry_of(placement);
  if (entry != nullptr && entry->is_placement) return;
  throw bad_argument{std::string{"separate: the strategy "} + name_of(placement) +
                     " has no pools to separate; choose one of " + placement_names()};
}

/// Whether the first replay is better than the second one.
bool is_better(replay_result const& first, replay_result const& second) {
  if (first.fits() != second.fits()) return first.fits();
  if (first.failures != second.failures) return first.failures < second.failures;
  return first.pool.peak_reserved < second.pool.peak_reserved;
}

class comparer {
 public:
  comparer(trace_source const& open, key_comparison_options const& options)
      : open_{open}, options_{options} {
    if (!(options.learn > 0 && options.learn < 1))
      throw bad_argument{"separate: learn is " + std::to_string(options.learn) +
                         ", not between 0 and 1"};
    check_takes_routes(options.replay.placement);
    for (route_key const key : all_route_keys)
      if (options.keys.empty()) result_.keys.push_back({.key = key});
    for (route_key const key : options.keys) result_.keys.push_back({.key = key});
  }

  [[nodiscard]] key_comparison run() {
    result_.events = for_each_batch(*open_(), [](std::span<event const>) {});
    result_.learned_events =
        static_cast<std::uint64_t>(static_cast<double>(result_.events) * options_.learn);
    auto const trace = open_();
    std::uint64_t read = 0;
    auto const events = for_each_batch(*trace, [&](std::span<event const> batch) {
      std::uint64_t const left = result_.learned_events - std::min(read, result_.learned_events);
      auto const learned = batch.first(std::min<std::uint64_t>(left, batch.size()));
      read += batch.size();
      learner_.add(learned);
      live_.add(learned);
      if (learned.size() == batch.size()) return;
      if (replays_.empty()) start_replays(trace->names().call_sites);
      replay(batch.subspan(learned.size()));
    });
    if (events != result_.events)
      throw bad_trace{"separate: the trace changed while it was read: it had " +
                      std::to_string(result_.events) + " events at first, and then " +
                      std::to_string(events)};
    if (replays_.empty()) start_replays(trace->names().call_sites);
    finish(*trace);
    return std::move(result_);
  }

 private:
  /// Returns the number of events.
  template <class Each>
  std::uint64_t for_each_batch(reader& trace, Each const& each) {
    std::vector<event> buffer(batch_size);
    std::uint64_t events = 0;
    while (std::size_t const count = trace.read(buffer)) {
      each(std::span<event const>{buffer}.first(count));
      events += count;
      events_read_ += count;
      if (options_.progress) options_.progress(events_read_);
    }
    return events;
  }

  void start_replays(name_table const& call_sites) {
    replays_.emplace_back(options_.replay);
    for (compared_key& each : result_.keys) {
      each.table = learner_.table(each.key, call_sites);
      if (each.table.pools() == 1) continue;  // replays as one pool
      replay_options options = options_.replay;
      options.routing = &each.table;
      options.call_sites = &call_sites;
      replays_.emplace_back(options);
    }
    auto const in_use = live_.events();
    replay(in_use);
  }
  void replay(std::span<event const> events) {
    for (replayer& each : replays_) each.add(events);
  }

  void finish(reader const& trace) {
    result_.together = replays_.front().result();
    std::size_t next = 1;
    for (compared_key& each : result_.keys)
      each.apart = each.table.pools() == 1 ? result_.together : replays_[next++].result();
    result_.best = result_.keys.size();
    replay_result const* best = &result_.together;
    for (std::size_t i = 0; i < result_.keys.size(); ++i) {
      if (!is_better(result_.keys[i].apart, *best)) continue;
      best = &result_.keys[i].apart;
      result_.best = i;
    }
    result_.names = trace.names();
    result_.problems = trace.problems();
    result_.problem_count = trace.problem_count();
    replays_.clear();  // refer to the tables
  }

  trace_source const& open_;
  key_comparison_options const& options_;
  key_comparison result_;
  separation_learner learner_{options_.temporary_events};
  allocations_in_use live_;
  std::vector<replayer> replays_;  // in one pool, then with each table that has several pools
  std::uint64_t events_read_ = 0;
};

}  // namespace

key_comparison compare_keys(trace_source const& open, key_comparison_options const& options) {
  return comparer{open, options}.run();
}

}  // namespace quarry::inline QUARRY_ABI::trace
