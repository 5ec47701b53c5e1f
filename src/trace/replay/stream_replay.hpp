// SPDX-License-Identifier: Apache-2.0
// Replays in stream-ordered pools.
#pragma once

#include "quarry/host/pools/stream_order.hpp"
#include "quarry/host/pools/stream_pool.hpp"
#include "trace/replay/memory_replay.hpp"

#include <algorithm>
#include <utility>

namespace quarry::inline QUARRY_ABI::trace {

/// Streams by their numbers in the trace. Work takes a fixed time of the trace's clock. A wait of
/// the host does not advance the clock, but the work that it waited for is done.
class traced_streams {
 public:
  using stream = std::uint32_t;
  using event = std::uint64_t;  // when it completes
  struct clock {
    std::uint64_t time = 0, delay = 0;
    std::uint64_t finished = 0;  // work that completes until then is done
  };

  explicit traced_streams(clock& now) : clock_{&now} {}
  [[nodiscard]] stream_identity identity(stream number) const { return {number, number}; }
  [[nodiscard]] static bool depends_on_thread(stream) noexcept { return false; }
  [[nodiscard]] event record(stream) { return clock_->time + clock_->delay; }
  void wait(stream, event const&) {}
  [[nodiscard]] bool is_done(event const& completion) noexcept {
    return completion <= std::max(clock_->time, clock_->finished);
  }
  void finish(event const& completion) noexcept {
    clock_->finished = std::max(clock_->finished, completion);
  }
  [[nodiscard]] bool finish(stream) noexcept { return finish_all(); }
  [[nodiscard]] bool finish_all() noexcept {
    finish(clock_->time + clock_->delay);
    return true;
  }
  void drop(event&) noexcept {}

 private:
  clock* clock_;
};

[[nodiscard]] inline stream_pool_options stream_options(pool_options const& options) {
  return {.first_block = options.first_block,
          .next_block = options.next_block,
          .growth_percent = options.growth_percent,
          .alignment = std::max<bytes>(checked(options).alignment, 256),
          .max_bytes = options.max_bytes,
          .is_tracked = false};
}
[[nodiscard]] inline pool_counts counts_of(stream_pool_counts const& found) {
  pool_counts result = with_counts({}, found);
  result.granted = found.granted;
  result.allocations = found.allocations;
  result.deallocations = found.deallocations;
  result.blocks_allocated = found.blocks_allocated;
  result.blocks_returned = found.blocks_returned;
  return result;
}

/// A stream-ordered pool with the trace's clock.
template <class Pool>
struct stream_ordered {
  template <class... Arguments>
  stream_ordered(replay_options const& options, upstream_calls& calls, Arguments&&... arguments)
      : clock{.delay = options.stream_delay},
        memory{counted_resource{options.upstream, calls}, traced_streams{clock},
               std::forward<Arguments>(arguments)...} {}
  void* allocate(event const& request) {
    clock.time = request.time;
    void* const result = memory.allocate(request.size, request.stream);
    peak_granted = std::max(peak_granted, memory.counts().granted);
    return result;
  }
  void deallocate(void* pointer, bytes, event const& request) {
    clock.time = request.time;
    memory.deallocate(pointer, request.stream);
  }
  void wait(event const& request) {
    clock.time = request.time;
    memory.share(request.stream);
  }
  traced_streams::clock clock;
  Pool memory;
  bytes peak_granted = 0;
};

}  // namespace quarry::inline QUARRY_ABI::trace
