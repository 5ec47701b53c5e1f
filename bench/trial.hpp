// SPDX-License-Identifier: Apache-2.0
// One case of a benchmark: the number of its rounds, the check of the heap after it, and its lines
// of results.
#pragma once

#include "allocators.hpp"
#include "harness.hpp"
#include "rounds.hpp"

#include <condition_variable>
#include <initializer_list>
#include <mutex>
#include <stop_token>

namespace bench {

/// A measured quantity: the name of its records and their unit.
struct quantity {
  std::string name;
  char const* unit;
};

/// Ends the program if it lives longer than `patience`, since nothing else can stop a kernel that
/// hangs.
class watchdog {
 public:
  static constexpr std::chrono::seconds patience{30};
  static constexpr int exit_status = 3;  // scripts/run_bench.sh tests for it

  /// Calls `report` before it ends the program.
  explicit watchdog(std::function<void()> report)
      : thread_{[report = std::move(report)](std::stop_token const& ended) {
          std::mutex mutex;
          std::condition_variable_any end;  // only the stop token wakes the thread early
          std::unique_lock lock{mutex};
          end.wait_for(lock, ended, patience, [] { return false; });
          if (ended.stop_requested()) return;
          report();
          std::_Exit(exit_status);
        }} {}

 private:
  std::jthread thread_;
};

/// Describes the damage to the heap of `allocator`: faults other than out of memory, broken
/// invariants, more or fewer allocations than `live`. Returns an empty string if the heap is sound,
/// and for all allocators but Quarry's. Clears the faults.
template <class Allocator>
std::string complaint([[maybe_unused]] Allocator& allocator, [[maybe_unused]] std::uint64_t live) {
  std::string text;
  if constexpr (std::is_same_v<Allocator, quarry_allocator>) {
    auto& heap = allocator.heap();
    for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(quarry::fault_kind::count_); ++i) {
      auto const kind = static_cast<quarry::fault_kind>(i);
      auto const count = heap.fault_count(kind);
      if (count == 0 || kind == quarry::fault_kind::out_of_memory) continue;
      text += std::to_string(count) + " faults: " + quarry::name_of(kind) + "; ";
    }
    heap.clear_faults();
    auto const broken = heap.audit();
    if (!broken.empty())
      text += "audit: " + broken.front() + " (" + std::to_string(broken.size()) + " in all); ";
    auto const counted = heap.stats().allocations_in_use;
    // The quarantine keeps some freed allocations.
    if (!quarry::is_on(quarry::mitigation::quarantine) && counted != live) {
      text += std::to_string(counted) + " allocations are live, not " + std::to_string(live) + "; ";
    }
  }
  return text;
}

/// Measures one case. Prints for each quantity either its statistics or one line with the reason
/// why there are none: the caller called `fail`, the heap is damaged, or the case did not end. Use:
/// `while (rounds.next()) { ...; if (is_wrong) return rounds.fail("..."); rounds.add({ms}); }
/// rounds.finish(allocator);`
class trial {
 public:
  trial(parameters params, std::vector<quantity> quantities, effort maximum = {})
      : params_{std::move(params)},
        quantities_{std::move(quantities)},
        has_moments_{maximum.moments},
        rounds_{maximum},
        values_(quantities_.size()),
        watchdog_{[this] {
          print_failure("no end within " + std::to_string(watchdog::patience.count()) + " s");
        }} {}
  trial(trial const&) = delete;
  trial& operator=(trial const&) = delete;
  ~trial() {
    if (!is_done_) print_failure("stopped by an error");
  }

  /// Begins another round, if the trial needs one. Returns false at the end.
  [[nodiscard]] bool next() { return !is_done_ && rounds_.next(); }

  /// Adds the results of the round, in the order of the quantities. Ignores those of a warm-up.
  void add(std::initializer_list<double> values) {
    if (!rounds_.count()) return;
    auto quantity = values_.begin();
    for (double const value : values) quantity++->push_back(value);
  }

  /// Ends the trial. Prints `reason` as the error of each quantity.
  void fail(std::string const& reason) {
    print_failure(reason);
    is_done_ = true;
  }

  /// Whether the heap is sound and has `live` allocations. If not, the trial has failed.
  template <class Allocator>
  [[nodiscard]] bool is_sound(Allocator& allocator, std::uint64_t live) {
    auto const text = complaint(allocator, live);
    if (!text.empty()) fail(text);
    return text.empty();
  }

  /// Checks the heap and prints the results. Call it when everything is freed.
  template <class Allocator>
  void finish(Allocator& allocator) {
    if (is_sound(allocator, 0)) finish();
  }
  /// Prints the results without a check of the heap.
  void finish() {
    auto const record_values = has_moments_ ? record_moments : record_spread;
    for (std::size_t i = 0; i < quantities_.size(); ++i)
      record_values(quantities_[i].name, params_, values_[i], quantities_[i].unit);
    is_done_ = true;
  }

 private:
  void print_failure(std::string const& reason) const {
    for (auto const& [name, unit] : quantities_) record_failure(name, params_, reason, unit);
  }

  parameters params_;
  std::vector<quantity> quantities_;
  bool has_moments_;
  round_counter rounds_;
  std::vector<std::vector<double>> values_;
  bool is_done_ = false;
  watchdog watchdog_;  // the last member, since its thread reads the others
};

}  // namespace bench
