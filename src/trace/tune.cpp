// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/tune.hpp"

#include "quarry/trace/reader.hpp"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <exception>
#include <iterator>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

/// The number of candidates that are replayed to the end first.
constexpr std::size_t first_candidates = 8;

/// The replay of one candidate.
struct running_candidate {
  std::size_t candidate;
  std::unique_ptr<replayer> memory;
};
using running_candidates = std::vector<running_candidate>;

/// Replays batches on several threads. The batch of `start` is replayed while the caller reads the
/// next one.
class parallel_replay {
 public:
  parallel_replay(running_candidates& all, unsigned threads)
      : replays_{all}, turn_{static_cast<std::ptrdiff_t>(threads) + 1} {
    for (unsigned i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
  }
  parallel_replay(parallel_replay const&) = delete;
  parallel_replay& operator=(parallel_replay const&) = delete;
  /// Ends the threads.
  ~parallel_replay() {
    if (is_running_) turn_.arrive_and_wait();
    is_over_ = true;
    turn_.arrive_and_wait();
  }

  /// Starts to replay `batch`. The batch and the replays stay unchanged until `finish`.
  void start(std::span<event const> batch) {
    batch_ = batch;
    next_ = 0;
    is_running_ = true;
    turn_.arrive_and_wait();
  }
  /// Waits until the batch is replayed. Throws what a replay threw.
  void finish() {
    if (!std::exchange(is_running_, false)) return;
    turn_.arrive_and_wait();
    std::lock_guard const lock{mutex_};
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void work() {
    for (;;) {
      turn_.arrive_and_wait();  // `start`, or the destructor
      if (is_over_) return;
      for (std::size_t i = next_++; i < replays_.size(); i = next_++) {
        try {
          replays_[i].memory->add(batch_);
        } catch (...) {
          std::lock_guard const lock{mutex_};
          if (!failure_) failure_ = std::current_exception();
        }
      }
      turn_.arrive_and_wait();  // `finish`
    }
  }

  running_candidates& replays_;  // Guarded by: turn_, as are the batch and the bools
  std::span<event const> batch_;
  std::atomic<std::size_t> next_{0};  // the next replay of the batch
  bool is_over_ = false;
  bool is_running_ = false;
  std::mutex mutex_;
  std::exception_ptr failure_;  // Guarded by: mutex_
  std::barrier<> turn_;
  std::vector<std::jthread> threads_;
};

/// What candidates are compared by. Each figure only grows while a trace is replayed.
struct figures {
  bytes peak;
  std::uint64_t coalesces;
  double us;

  /// Whether no figure is better than that of `other`.
  [[nodiscard]] bool is_no_better_than(figures const& other) const {
    return peak >= other.peak && coalesces >= other.coalesces && us >= other.us;
  }
  friend bool operator==(figures const&, figures const&) = default;
};
figures figures_of(tune_outcome const& outcome) {
  return {outcome.peak_reserved, outcome.coalesces, outcome.upstream_us};
}

/// Whether candidate `b` with these figures keeps candidate `a` off the front. Of equals the first
/// one stays.
bool beats(std::size_t b, figures const& better, std::size_t a, figures const& worse) {
  return a != b && worse.is_no_better_than(better) && (worse != better || b < a);
}

void find_front(std::vector<tune_outcome>& outcomes) {
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    bool is_beaten = !outcomes[i].fits;
    for (std::size_t j = 0; j < outcomes.size() && !is_beaten; ++j)
      is_beaten = outcomes[j].fits && beats(j, figures_of(outcomes[j]), i, figures_of(outcomes[i]));
    outcomes[i].is_on_front = !is_beaten;
  }
}

/// Puts candidates with the best figures first: those that no other one beats, by cost; then those
/// that only the first group beats; and so on.
void sort_by_promise(std::vector<std::size_t>& candidates, std::vector<figures> const& found,
                     std::vector<double> const& costs) {
  auto begin = candidates.begin();
  while (begin != candidates.end()) {
    auto const is_unbeaten = [&](std::size_t each) {
      return std::none_of(begin, candidates.end(), [&](std::size_t other) {
        return beats(other, found[other], each, found[each]);
      });
    };
    std::vector<std::size_t> unbeaten;
    std::copy_if(begin, candidates.end(), std::back_inserter(unbeaten), is_unbeaten);
    std::stable_sort(unbeaten.begin(), unbeaten.end(),
                     [&](std::size_t a, std::size_t b) { return costs[a] < costs[b]; });
    auto const rest = std::stable_partition(begin, candidates.end(), [&](std::size_t each) {
      return std::find(unbeaten.begin(), unbeaten.end(), each) != unbeaten.end();
    });
    std::copy(unbeaten.begin(), unbeaten.end(), begin);
    begin = rest;
  }
}

/// Reads the trace again and again. First all candidates replay a short part of it; then the most
/// promising ones replay all of it; then all others, which end when they fall behind.
class tuner {
 public:
  tuner(trace_source const& open, tune_options const& options)
      : open_{open},
        options_{options},
        candidates_{options.candidates},
        drops_{options.goal != tune_goal::all} {}

  [[nodiscard]] tune_result run() {
    measure_trace();
    find_candidates();
    std::vector<std::size_t> waiting(candidates_.size());
    std::iota(waiting.begin(), waiting.end(), std::size_t{0});
    if (drops_ && waiting.size() > first_candidates) {
      sort_by_promise(waiting);
      std::span const sorted{waiting};
      replay(sorted.first(first_candidates), result_.events);
      replay(sorted.subspan(first_candidates), result_.events);
    } else {
      replay(waiting, result_.events);
    }
    find_front(result_.outcomes);
    find_best();
    for (tune_outcome& each : result_.outcomes)
      if (each.options.call_sites == &call_sites_) each.options.call_sites = nullptr;
    return std::move(result_);
  }

 private:
  /// Finds the number of events and the peak of the requested bytes. Learns which allocations are
  /// temporary if the candidates are those of `tune`.
  void measure_trace() {
    replayer memory{{.placement = strategy::direct, .max_samples = 2}};
    separation_learner learner{separate_options{}.temporary_events};
    auto const trace = open_();
    std::vector<event> batch(max_batch);
    while (std::size_t const count = trace->read(batch)) {
      memory.add(std::span{batch}.first(count));
      if (candidates_.empty()) learner.add(std::span{batch}.first(count));
      report(count);
    }
    call_sites_ = trace->names().call_sites;
    if (candidates_.empty()) find_routes(learner);
    auto const found = memory.result();
    result_.events = found.events;
    result_.peak_allocated = found.pool.peak_allocated;
    result_.recorded_failures = found.recorded_failures;
    result_.peak_with_failures = found.peak_with_failures;
    result_.problems = trace->problems();
    result_.problem_count = trace->problem_count();
  }
  /// Keeps the tables with several pools. Of equal ones, that of the simplest key.
  void find_routes(separation_learner const& learner) {
    for (route_key const key : all_route_keys) {
      auto table = learner.table(key, call_sites_);
      if (table.pools() == 1 || std::ranges::any_of(result_.routes, [&](auto const& other) {
            return other.table->routes() == table.routes();
          }))
        continue;
      result_.routes.push_back({key, std::make_shared<routing_table const>(std::move(table))});
    }
  }
  void find_candidates() {
    if (candidates_.empty()) {
      candidates_ = all_candidates();
      if (result_.peak_allocated != 0) {
        for (auto const& each : sized_candidates(result_.peak_allocated))
          candidates_.push_back(each);
      }
      for (learned_routes const& routes : result_.routes) {
        for (replay_options each : separated_candidates(*routes.table)) {
          each.call_sites = &call_sites_;
          candidates_.push_back(each);
        }
      }
    }
    for (replay_options& each : candidates_) {
      each.pool.max_bytes = options_.capacity;
      each.cost = options_.cost;
      each.max_samples = 2;
      result_.outcomes.push_back({.options = each});
    }
  }
  /// Sorts the candidates by what they need for the first events.
  void sort_by_promise(std::vector<std::size_t>& waiting) {
    bool const drops = std::exchange(drops_, false);
    replay(waiting, std::min<std::uint64_t>(max_probe, result_.events / 64));
    drops_ = drops;
    finished_.clear();
    std::vector<figures> found;
    std::vector<double> costs;
    for (tune_outcome& each : result_.outcomes) {
      found.push_back(bound(figures_of(each)));
      costs.push_back(cost_of(found.back()));
      each.fits = false;
    }
    trace::sort_by_promise(waiting, found, costs);
  }

  /// Replays the first `count` events with some candidates.
  void replay(std::span<std::size_t const> chosen, std::uint64_t count) {
    running_candidates all;
    for (std::size_t const each : chosen)
      all.push_back({each, std::make_unique<replayer>(candidates_[each])});
    std::uint64_t events = 0;
    {
      auto const trace = open_();
      std::size_t const size = std::clamp<std::size_t>(count / 64, min_batch, max_batch);
      std::vector<event> batches[2] = {std::vector<event>(size), std::vector<event>(size)};
      parallel_replay running{all, threads(all.size())};
      for (std::size_t i = 0;; i ^= 1) {
        std::size_t const wanted = std::min<std::uint64_t>(size, count - events);
        std::size_t const read = wanted == 0 ? 0 : trace->read(std::span{batches[i]}.first(wanted));
        running.finish();  // the other batch
        if (read == 0) break;
        if (drops_) drop(all);
        if (all.empty()) break;
        events += read;
        report(read);
        running.start(std::span{batches[i]}.first(read));
      }
    }
    if (!all.empty() && events != count)
      throw bad_trace{"tune: the trace changed while it was read: it had " +
                      std::to_string(result_.events) + " events at first, and then " +
                      std::to_string(events)};
    for (auto const& each : all) {
      auto const found = each.memory->result();
      record(each.candidate, found);
      result_.outcomes[each.candidate].fits = found.fits();
      if (found.fits()) finished_.push_back(each.candidate);
    }
  }
  /// Ends the replays of candidates that can be neither on the front nor the best.
  void drop(running_candidates& all) {
    std::erase_if(all, [&](running_candidate const& each) {
      auto const found = each.memory->result();
      bool const is_behind = falls_behind(each.candidate, found);
      if (found.fits() && !is_behind) return false;
      record(each.candidate, found);
      result_.outcomes[each.candidate].is_dropped = found.fits();
      return true;
    });
  }
  [[nodiscard]] bool falls_behind(std::size_t candidate, replay_result const& found) const {
    figures const minimum =
        bound({found.pool.peak_reserved, found.pool.coalesces, found.upstream_us});
    return std::any_of(finished_.begin(), finished_.end(), [&](std::size_t other) {
      figures const known = figures_of(result_.outcomes[other]);
      return beats(other, known, candidate, minimum) ||
             (options_.goal == tune_goal::best && cost_of(minimum) > cost_of(known));
    });
  }
  void record(std::size_t candidate, replay_result const& found) {
    tune_outcome& outcome = result_.outcomes[candidate];
    outcome.events = found.events;
    outcome.peak_reserved = found.pool.peak_reserved;
    outcome.coalesces = found.pool.coalesces;
    outcome.upstream_allocations = found.pool.blocks_allocated;
    outcome.upstream_us = found.upstream_us;
    outcome.cost_us = cost_of(figures_of(outcome));
  }
  /// The least figures of the complete replay: no pool reserves less than what is in use.
  [[nodiscard]] figures bound(figures known) const {
    known.peak = std::max(known.peak, result_.peak_allocated);
    return known;
  }
  [[nodiscard]] double cost_of(figures const& known) const {
    return known.us + options_.us_per_gib * (static_cast<double>(known.peak) * 0x1p-30);
  }
  void find_best() {
    auto const& outcomes = result_.outcomes;
    result_.best = outcomes.size();
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      if (outcomes[i].is_on_front &&
          (result_.best == outcomes.size() || outcomes[i].cost_us < outcomes[result_.best].cost_us))
        result_.best = i;
    }
  }
  [[nodiscard]] unsigned threads(std::size_t work) const {
    unsigned const wanted =
        options_.threads != 0 ? options_.threads : std::thread::hardware_concurrency();
    return static_cast<unsigned>(
        std::clamp<std::size_t>(wanted, 1, std::max<std::size_t>(work, 1)));
  }
  void report(std::size_t count) {
    events_read_ += count;
    if (options_.progress) options_.progress(events_read_);
  }

  // In small batches, the pools' tables leave the processor's cache between two batches.
  static constexpr std::size_t min_batch = 1 << 12, max_batch = 1 << 16;
  static constexpr std::uint64_t max_probe = 1 << 16;
  trace_source const& open_;
  tune_options const& options_;
  std::vector<replay_options> candidates_;
  name_table call_sites_;  // of the trace: its readers number them equally each time
  bool drops_;
  std::vector<std::size_t> finished_;  // candidates whose complete replays fit
  std::uint64_t events_read_ = 0;
  tune_result result_;
};

void check(tune_options const& options) {
  auto const check_cost = [](char const* name, double value) {
    if (!(value >= 0 && std::isfinite(value)))
      throw bad_argument{std::string{"tune: "} + name + " is " + std::to_string(value) +
                         "; costs are finite numbers, and not negative"};
  };
  check_cost("us_per_allocation", options.cost.us_per_allocation);
  check_cost("us_per_gib of the upstream", options.cost.us_per_gib);
  check_cost("us_per_free", options.cost.us_per_free);
  check_cost("us_per_gib", options.us_per_gib);
}

}  // namespace

tune_result tune(trace_source const& open, tune_options const& options) {
  check(options);
  return tuner{open, options}.run();
}

}  // namespace quarry::inline QUARRY_ABI::trace
