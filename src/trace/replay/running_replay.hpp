// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trace/address_map.hpp"
#include "trace/replay/counted_resource.hpp"

#include <algorithm>
#include <span>

namespace quarry::inline QUARRY_ABI::trace {

/// What all replays share: the allocations in use, the counts, and the samples. A class that has a
/// pool derives from it (`pool_replay`).
///
/// Samples: each has `stride_` events. When the samples are too many, pairs become one sample.
class running_replay {
 public:
  explicit running_replay(replay_options const& options);
  virtual ~running_replay() = default;
  virtual void add(std::span<event const> events) = 0;
  [[nodiscard]] virtual replay_result result() const = 0;

 protected:
  struct live_allocation {
    void* pointer;
    bytes size;
  };

  template <class Memory>
  void replay(Memory& memory, std::span<event const> events) {
    for (event const& each : events) {
      time_ = each.time;
      switch (each.kind) {
        case event_kind::allocate:
          allocate(memory, each);
          break;
        case event_kind::deallocate:
          deallocate(memory, each);
          break;
        case event_kind::fail:
          retry(memory, each);
          break;
        case event_kind::reserve:
          recorded_reserved_ += each.size;
          found_.recorded_peak_reserved =
              std::max(found_.recorded_peak_reserved, recorded_reserved_);
          break;
        case event_kind::unreserve:
          unreserve(each.size);
          break;
        case event_kind::wait:
          memory.wait(each);
          break;
        case event_kind::phase:
          if constexpr (requires { memory.begin_phase(each); }) memory.begin_phase(each);
          break;
      }
      if (++found_.events == next_sample_) take_sample(memory.counts());
    }
  }

  template <class Memory>
  [[nodiscard]] replay_result result_of(Memory const& memory) const {
    replay_result result = found_;
    result.pool = memory.counts();
    if constexpr (requires { memory.use(); }) result.plan = memory.use();
    result.upstream_us = calls_.us;
    if (measures_) result.measured_us = calls_.measured_us;
    bool const is_inside =
        found_.events <= sample_end_ && (sample_begin_ == 0 || found_.events > sample_begin_);
    if (is_inside && (result.samples.empty() || result.samples.back().event != found_.events))
      result.samples.push_back(sample(result.pool));
    return result;
  }

  /// Frees what the trace has not freed.
  template <class Memory>
  void free_all(Memory& memory) {
    live_.for_each([&](live_allocation const& each) { free_allocation(memory, each, {}); });
  }

  upstream_calls& calls() { return calls_; }

 private:
  /// Bytes beyond those that the trace reserved are older than the recording, so they were reserved
  /// at the recorded peak, too.
  void unreserve(bytes size) {
    bytes const known = std::min(recorded_reserved_, size);
    recorded_reserved_ -= known;
    found_.recorded_peak_reserved += size - known;
  }
  template <class Memory>
  void allocate(Memory& memory, event const& request) {
    if (request.address == 0) return;  // of size 0, by allocators that return null for it
    live_allocation* entry = live_.insert(request.address, {nullptr, request.size});
    if (entry == nullptr) [[unlikely]] {
      ++found_.repeated_addresses;  // its free is missing, for example before a ring's first event
      free_allocation(memory, *live_.remove(request.address), request);
      entry = live_.insert(request.address, {nullptr, request.size});
    }
    entry->pointer = try_to_allocate(memory, request);
    if (entry->pointer == nullptr) ++found_.failures;
  }
  /// Null if the request does not fit.
  template <class Memory>
  [[nodiscard]] void* try_to_allocate(Memory& memory, event const& request) {
    void* result = nullptr;
    try {
      result = memory.allocate(request);
    } catch (out_of_memory const& failed) {
      if (!found_.first_failure)
        found_.first_failure =
            replay_failure{found_.events, request, failed.what(), memory.counts()};
      return nullptr;
    }
    allocated_ += request.size;
    peak_allocated_ = std::max(peak_allocated_, allocated_);
    found_.max_live = std::max(found_.max_live, ++live_count_);
    return result;
  }
  /// Tries a request that failed in the recording.
  template <class Memory>
  void retry(Memory& memory, event const& request) {
    ++found_.recorded_failures;
    found_.peak_with_failures = std::max(
        found_.peak_with_failures, allocated_ + std::min(request.size, ~bytes{0} - allocated_));
    if (!is_limited_) return;
    ++found_.retried_failures;
    void* const pointer = try_to_allocate(memory, request);
    if (pointer == nullptr) ++found_.repeated_failures;
    free_allocation(memory, {pointer, request.size}, request);
  }
  template <class Memory>
  void deallocate(Memory& memory, event const& request) {
    if (request.address == 0) return;
    if (auto const found = live_.remove(request.address)) {
      free_allocation(memory, *found, request);
    } else {
      ++found_.unknown_frees;
    }
  }
  template <class Memory>
  void free_allocation(Memory& memory, live_allocation const& freed, event const& request) {
    if (freed.pointer == nullptr) return;  // it did not fit
    memory.deallocate(freed.pointer, freed.size, request);
    allocated_ -= freed.size;
    --live_count_;
  }

  [[nodiscard]] replay_sample sample(pool_counts const& counts) const;
  void take_sample(pool_counts const& counts);

  address_map<live_allocation> live_;
  std::uint64_t live_count_ = 0;  // entries of `live_` that did not fail
  std::size_t max_samples_;       // even, because samples become pairs
  std::uint64_t sample_begin_, sample_end_;
  std::uint64_t stride_ = 1, next_sample_;
  std::uint64_t time_ = 0;
  bytes allocated_ = 0, peak_allocated_ = 0;  // the peak since the last sample
  bytes recorded_reserved_ = 0;
  upstream_calls calls_;
  bool measures_;    // the time of the calls
  bool is_limited_;  // the memory: failures of the recording can repeat
  replay_result found_;
};

}  // namespace quarry::inline QUARRY_ABI::trace
