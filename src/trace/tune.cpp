// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/tune.hpp"

#include "quarry/trace/reader.hpp"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

constexpr std::size_t batch_events = 1 << 16;

/// Replays batches with all candidates on several threads. The batch of `run` is replayed while the
/// caller reads the next one.
class parallel_replay {
 public:
  parallel_replay(std::vector<replay_options> const& candidates, unsigned threads)
      : turn_{static_cast<std::ptrdiff_t>(threads) + 1} {
    for (auto const& each : candidates) replayers_.push_back(std::make_unique<replayer>(each));
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

  /// Starts to replay `batch`, which stays unchanged until `finish`.
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
  [[nodiscard]] replay_result result(std::size_t candidate) const {
    return replayers_[candidate]->result();
  }

 private:
  void work() {
    for (;;) {
      turn_.arrive_and_wait();  // `start`, or the destructor
      if (is_over_) return;
      for (std::size_t i = next_++; i < replayers_.size(); i = next_++) {
        try {
          replayers_[i]->add(batch_);
        } catch (...) {
          std::lock_guard const lock{mutex_};
          if (!failure_) failure_ = std::current_exception();
        }
      }
      turn_.arrive_and_wait();  // `finish`
    }
  }

  std::vector<std::unique_ptr<replayer>> replayers_;
  std::span<event const> batch_;      // Guarded by: turn_, as are the bools
  std::atomic<std::size_t> next_{0};  // the next replayer of the batch
  bool is_over_ = false;
  bool is_running_ = false;
  std::mutex mutex_;
  std::exception_ptr failure_;  // Guarded by: mutex_
  std::barrier<> turn_;
  std::vector<std::jthread> threads_;
};

/// Whether `a` is at least as good as `b` in each figure, and better in one.
bool dominates(tune_outcome const& a, tune_outcome const& b) {
  return a.peak_reserved <= b.peak_reserved && a.coalesces <= b.coalesces &&
         a.upstream_us <= b.upstream_us &&
         (a.peak_reserved < b.peak_reserved || a.coalesces < b.coalesces ||
          a.upstream_us < b.upstream_us);
}

bool equals(tune_outcome const& a, tune_outcome const& b) {
  return a.peak_reserved == b.peak_reserved && a.coalesces == b.coalesces &&
         a.upstream_us == b.upstream_us;
}

/// Of outcomes with equal figures, the first one is on the front.
void find_front(std::vector<tune_outcome>& outcomes) {
  for (tune_outcome& each : outcomes) {
    auto const excludes = [&](tune_outcome const& other) {
      return other.fits && (dominates(other, each) || (&other < &each && equals(other, each)));
    };
    each.is_on_front = each.fits && std::none_of(outcomes.begin(), outcomes.end(), excludes);
  }
}

replay_options candidate(strategy placement, heuristic const& rule, bytes first, bytes next,
                         std::uint32_t growth) {
  return {
      .placement = placement,
      .pool = {
          .first_block = first, .next_block = next, .growth_percent = growth, .coalesce = rule}};
}

/// Each rule, with its four variants.
std::vector<heuristic> all_heuristics() {
  std::vector<heuristic> result{heuristic::never()};
  auto const add = [&](heuristic const& rule) {
    for (auto const& each : {rule, rule.to_high_water()}) {
      result.push_back(each);
      result.push_back(each.before_growth());
    }
  };
  for (std::uint32_t const percent : {50u, 75u, 90u, 100u})
    add(heuristic::percent_releasable(percent));
  for (std::uint32_t const blocks : {2u, 3u, 5u, 7u, 12u})
    add(heuristic::blocks_releasable(blocks));
  for (std::uint32_t const price : {1024u, 16'384u, 262'144u}) add(heuristic::by_cost(price));
  return result;
}

}  // namespace

std::vector<replay_options> all_candidates() {
  struct sizes {
    bytes first, next;
    std::uint32_t growth;
  };
  std::vector<replay_options> result;
  for (sizes const& block :
       {sizes{1 << 20, 1 << 20, 0}, sizes{0, 0, 4}, sizes{64 << 20, 64 << 20, 25}}) {
    for (strategy const placement : {strategy::fast, strategy::lowest_best_fit}) {
      for (heuristic const& rule : all_heuristics())
        result.push_back(candidate(placement, rule, block.first, block.next, block.growth));
    }
  }
  result.push_back(candidate(strategy::stitched, heuristic::never(), 0, 0, 4));
  return result;
}

std::vector<replay_options> sized_candidates(bytes peak_allocated) {
  std::vector<replay_options> result;
  constexpr bytes page = 2 << 20;
  for (strategy const placement : {strategy::fast, strategy::lowest_best_fit}) {
    for (unsigned const percent : {100u, 102u, 105u, 110u, 120u}) {
      bytes const first = (peak_allocated / 100 * percent + page - 1) / page * page;
      for (bytes const next : {bytes{2} << 20, bytes{32} << 20})
        result.push_back(candidate(placement, heuristic::never(), first, next, 0));
    }
  }
  return result;
}

std::vector<replay_options> published_candidates(heuristic_rules rules) {
  std::vector<replay_options> result;
  auto const add = [&](heuristic const& rule) {
    result.push_back(
        candidate(strategy::oldest_best_fit, rule.with_rules(rules), 1 << 20, 1 << 20, 0));
  };
  constexpr std::uint32_t counts[] = {2, 3, 5, 7, 12};
  for (std::uint32_t const percent : {50u, 75u, 90u, 100u})
    add(heuristic::percent_releasable(percent));
  for (std::uint32_t const blocks : counts) add(heuristic::blocks_releasable(blocks));
  for (std::uint32_t const blocks : counts)
    add(heuristic::blocks_releasable(blocks).to_high_water());
  for (std::uint32_t const blocks : counts)
    add(heuristic::blocks_releasable(blocks).before_growth());
  return result;
}

tune_result tune(reader& trace, tune_options const& options) {
  std::vector<replay_options> candidates =
      options.candidates.empty() ? all_candidates() : options.candidates;
  for (replay_options& each : candidates) {
    each.pool.max_bytes = options.capacity;
    each.cost = options.cost;
    each.max_samples = 2;
  }
  unsigned const wanted =
      options.threads != 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  parallel_replay replay{candidates,
                         std::min<unsigned>(wanted, static_cast<unsigned>(candidates.size()))};
  std::vector<event> batches[2] = {std::vector<event>(batch_events),
                                   std::vector<event>(batch_events)};
  tune_result result;
  for (std::size_t i = 0;; i ^= 1) {
    std::size_t const count = trace.read(batches[i]);  // while the other batch is replayed
    replay.finish();
    if (count == 0) break;
    result.events += count;
    if (options.progress) options.progress(result.events);
    replay.start(std::span{batches[i]}.first(count));
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    auto const found = replay.result(i);
    double const gib = static_cast<double>(found.pool.peak_reserved) * 0x1p-30;
    result.outcomes.push_back({.options = candidates[i],
                               .fits = found.fits(),
                               .peak_reserved = found.pool.peak_reserved,
                               .coalesces = found.pool.coalesces,
                               .upstream_allocations = found.pool.blocks_allocated,
                               .upstream_us = found.upstream_us,
                               .cost_us = found.upstream_us + options.us_per_gib * gib});
    if (found.fits()) result.peak_allocated = found.pool.peak_allocated;
  }
  find_front(result.outcomes);
  result.best = result.outcomes.size();
  for (std::size_t i = 0; i < result.outcomes.size(); ++i) {
    if (!result.outcomes[i].fits) continue;
    if (result.best == result.outcomes.size() ||
        result.outcomes[i].cost_us < result.outcomes[result.best].cost_us)
      result.best = i;
  }
  return result;
}

std::string code_for(replay_options const& options) {
  if (options.placement == strategy::direct)
    return "quarry::device_resource memory{device};  // no pool\n";
  if (options.placement == strategy::stitched)
    return "quarry::stitched_pool<quarry::cuda_pages> memory{quarry::cuda_pages{device}};\n";
  if (options.placement == strategy::streams)
    return "quarry::stream_pool memory{quarry::device_resource{device}, quarry::cuda_streams{}};\n";
  if (options.placement == strategy::planned)
    return "quarry::trace::planned_pool memory{quarry::device_resource{device},\n"
           "                                   quarry::trace::load_plan(path)};\n";
  std::string const placement = options.placement == strategy::fast ? "quarry::fast_fit"
                                : options.placement == strategy::lowest_best_fit
                                    ? "quarry::chunk_arena<quarry::lowest_best_fit>"
                                    : "quarry::chunk_arena<quarry::oldest_best_fit>";
  heuristic const& rule = options.pool.coalesce;
  std::string text = "quarry::heuristic::never()";
  switch (rule.condition) {
    case heuristic::trigger::percent:
      text = "quarry::heuristic::percent_releasable(" + std::to_string(rule.parameter) + ")";
      break;
    case heuristic::trigger::blocks:
      text = "quarry::heuristic::blocks_releasable(" + std::to_string(rule.parameter) + ")";
      break;
    case heuristic::trigger::cost:
      text = "quarry::heuristic::by_cost(" + std::to_string(rule.parameter) + ")";
      break;
    case heuristic::trigger::never:
    case heuristic::trigger::user:
      break;
  }
  if (rule.size == heuristic::target::high_water) text += ".to_high_water()";
  if (rule.checked_at == heuristic::moment::before_growth) text += ".before_growth()";
  if (rule.rules == heuristic_rules::poster_2022)
    text += ".with_rules(quarry::heuristic_rules::poster_2022)";
  if (rule.rules == heuristic_rules::umpire_2024)
    text += ".with_rules(quarry::heuristic_rules::umpire_2024)";
  return "quarry::pool<quarry::device_resource, " + placement +
         "> memory{\n    quarry::device_resource{device},\n    {.first_block = " +
         std::to_string(options.pool.first_block) +
         ", .next_block = " + std::to_string(options.pool.next_block) +
         ", .growth_percent = " + std::to_string(options.pool.growth_percent) +
         ",\n     .coalesce = " + text + "}};\n";
}

}  // namespace quarry::inline QUARRY_ABI::trace
