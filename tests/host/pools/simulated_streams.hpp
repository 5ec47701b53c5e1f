// SPDX-License-Identifier: Apache-2.0
// Streams without work. They only record the order of events, by vector clocks.
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/pools/stream_order.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>

namespace quarry::test {

using clock_of = std::map<std::uint32_t, std::uint64_t>;

inline void join(clock_of& target, clock_of const& other) {
  for (auto const& [stream, time] : other) target[stream] = std::max(target[stream], time);
}

/// The state that all copies share, so that a test can inspect the state while a pool has a copy.
struct simulated_world {
  std::map<std::uint32_t, std::uint32_t>
      identities;  // stream of a handle; default: the handle's number
  std::map<std::uint32_t, clock_of>
      clocks;         // by stream: all work that precedes the stream's next work
  clock_of finished;  // all work that is done
  std::mt19937 random{1};
  unsigned done_percent = 0;  // the percentage of queries that find an event done
  int record_fails_in = -1, wait_fails_in = -1;
  std::uint32_t never_records = 998;  // the handle of a stream whose record() fails
  bool is_capturing = false;          // some stream is in a capture: a wait for all fails
  std::uint64_t recorded = 0, waited = 0, live_events = 0;

  std::uint64_t misuses = 0;  // counts uses of handles of destroyed streams

  static constexpr std::uint32_t nobody = ~0u;
  [[nodiscard]] std::uint32_t identity(std::uint32_t handle) {
    auto const found = identities.find(handle);
    if (found != identities.end() && found->second == nobody) ++misuses;
    return found == identities.end() ? handle : found->second;
  }
  /// Destroys the stream; its work continues. `create` may make another stream with the same
  /// handle.
  void destroy(std::uint32_t handle) { identities[handle] = nobody; }
  void create(std::uint32_t handle) { identities[handle] = ++created; }
  std::uint32_t created = 1000;

  /// tick() makes one step of work on a stream and returns its time. is_before() returns whether
  /// that step precedes the next work of `handle`.
  std::uint64_t tick(std::uint32_t handle) {
    auto const stream = identity(handle);
    return ++clocks[stream][stream];
  }
  bool is_before(std::uint32_t stream, std::uint64_t time, std::uint32_t handle) {
    auto const next = identity(handle);
    return stream == next || clocks[next][stream] >= time || finished[stream] >= time;
  }
};

class simulated_streams {
 public:
  using stream = std::uint32_t;
  static constexpr stream not_a_stream = 999;
  struct event {
    clock_of preceding;
  };

  simulated_streams() : world_{std::make_shared<simulated_world>()} {}
  [[nodiscard]] simulated_world& world() { return *world_; }

  [[nodiscard]] stream_identity identity(stream handle) const {
    if (handle == not_a_stream) throw bad_argument{"not a stream"};
    return {world_->identity(handle)};
  }
  /// A handle that names a different stream in each thread.
  static constexpr stream of_thread = 997;
  [[nodiscard]] static bool depends_on_thread(stream handle) noexcept {
    return handle == of_thread;
  }
  [[nodiscard]] event record(stream handle) {
    if (handle == world_->never_records) throw std::runtime_error{"record"};
    if (world_->record_fails_in >= 0 && world_->record_fails_in-- == 0)
      throw std::runtime_error{"record"};
    world_->tick(handle);
    ++world_->recorded;
    ++world_->live_events;
    return {world_->clocks[world_->identity(handle)]};
  }
  void wait(stream waiting, event const& awaited) {
    if (world_->wait_fails_in >= 0 && world_->wait_fails_in-- == 0)
      throw std::runtime_error{"wait"};
    ++world_->waited;
    join(world_->clocks[world_->identity(waiting)], awaited.preceding);
  }
  [[nodiscard]] bool is_done(event const& awaited) noexcept {
    for (auto const& [number, time] : awaited.preceding) {
      if (world_->finished[number] < time && world_->random() % 100 >= world_->done_percent)
        return false;
    }
    join(world_->finished, awaited.preceding);
    return true;
  }
  void finish(event const& awaited) noexcept { join(world_->finished, awaited.preceding); }
  [[nodiscard]] bool finish(stream handle) noexcept {
    if (world_->is_capturing) return false;
    join(world_->finished, world_->clocks[world_->identity(handle)]);
    return true;
  }
  [[nodiscard]] bool finish_all() noexcept {
    if (world_->is_capturing) return false;
    for (auto const& [number, clock] : world_->clocks) join(world_->finished, clock);
    return true;
  }
  void drop(event&) noexcept { --world_->live_events; }

 private:
  std::shared_ptr<simulated_world> world_;
};

static_assert(stream_order<simulated_streams>);

}  // namespace quarry::test
