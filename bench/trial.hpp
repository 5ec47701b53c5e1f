// SPDX-License-Identifier: Apache-2.0
// One case of a benchmark: how often it is repeated, what the heap must be like after it, and its
// lines of results.
#pragma once

#include "allocators.hpp"
#include "harness.hpp"

#include <condition_variable>
#include <initializer_list>
#include <mutex>
#include <stop_token>

namespace bench {

/// What is measured: the name of its records, and their unit.
struct quantity {
  std::string name;
  char const* unit;
};

/// Rounds of a trial: `warm_ups` that do not count, then `rounds` that do; fewer of either once
/// `max_ms` are over, but one that counts. `moments`: results have mean and standard deviation,
/// too.
struct effort {
  double max_ms = 1500;
  int warm_ups = 2;
  int rounds = 20;
  bool moments = false;
};

/// Ends the program if it lives longer than any case should: a kernel that hangs cannot be stopped
/// otherwise.
class watchdog {
 public:
  static constexpr std::chrono::seconds patience{30};
  static constexpr int exit_status = 3;  // scripts/run_bench.sh knows it

  explicit watchdog(std::function<void()> last_words)
      : thread_{[last_words = std::move(last_words)](std::stop_token const& ended) {
          std::mutex mutex;
          std::condition_variable_any never;
          std::unique_lock lock{mutex};
          never.wait_for(lock, ended, patience, [] { return false; });
          if (ended.stop_requested()) return;
          last_words();
          std::_Exit(exit_status);
        }} {}

 private:
  std::jthread thread_;
};

/// What is wrong with the heap of `allocator`, for ours: faults but for want of memory, broken
/// invariants, more or fewer allocations than `live`. Empty if all is well. Forgets the faults.
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
    auto const counted = heap.stats().allocations;
    // The quarantine holds some back.
    if (!quarry::is_on(quarry::mitigation::quarantine) && counted != live) {
      text += std::to_string(counted) + " allocations are live, not " + std::to_string(live) + "; ";
    }
  }
  return text;
}

/// Measures one case. Leaves for each of its quantities either figures, or one line that says why
/// there are none: `fail` was called, the heap was found broken, or the case did not end. Use:
/// `while (all.next()) { ...; if (wrong) return all.fail("..."); all.add({took}); }
/// all.finish(allocator);`
class trial {
 public:
  trial(parameters params, std::vector<quantity> quantities, effort maximum = {})
      : params_{std::move(params)},
        quantities_{std::move(quantities)},
        maximum_{maximum},
        values_(quantities_.size()),
        watchdog_{[this] {
          print_failure("no end within " + std::to_string(watchdog::patience.count()) + " s");
        }} {}
  trial(trial const&) = delete;
  trial& operator=(trial const&) = delete;
  ~trial() {
    if (!is_done_) print_failure("stopped by an error");
  }

  /// Whether there is to be another round.
  [[nodiscard]] bool next() {
    auto const counted = static_cast<int>(values_.front().size());
    if (is_done_ || counted == maximum_.rounds || (counted > 0 && is_late())) return false;
    ++begun_;
    return true;
  }

  /// What the round gave, in the order of the quantities. A warm-up is forgotten.
  void add(std::initializer_list<double> values) {
    if (begun_ <= maximum_.warm_ups && !is_late()) return;
    auto own = values_.begin();
    for (double const value : values) own++->push_back(value);
  }

  void fail(std::string const& why) {
    print_failure(why);
    is_done_ = true;
  }

  /// Whether the heap is as it must be with `live` allocations; the trial has failed if not.
  template <class Allocator>
  [[nodiscard]] bool is_sound(Allocator& allocator, std::uint64_t live) {
    auto const text = complaint(allocator, live);
    if (!text.empty()) fail(text);
    return text.empty();
  }

  /// To be called when everything was freed.
  template <class Allocator>
  void finish(Allocator& allocator) {
    if (is_sound(allocator, 0)) finish();
  }
  /// The same without a look at the heap.
  void finish() {
    auto const record_one = maximum_.moments ? record_moments : record_spread;
    for (std::size_t i = 0; i < quantities_.size(); ++i)
      record_one(quantities_[i].name, params_, values_[i], quantities_[i].unit);
    is_done_ = true;
  }

 private:
  [[nodiscard]] bool is_late() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin_)
               .count() > maximum_.max_ms;
  }
  void print_failure(std::string const& why) const {
    for (auto const& [name, unit] : quantities_) record_failure(name, params_, why, unit);
  }

  parameters params_;
  std::vector<quantity> quantities_;
  effort maximum_;
  std::vector<std::vector<double>> values_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  int begun_ = 0;
  bool is_done_ = false;
  watchdog watchdog_;  // the last member: it looks at the others
};

}  // namespace bench
