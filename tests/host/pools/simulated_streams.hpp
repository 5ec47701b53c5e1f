// SPDX-License-Identifier: Apache-2.0
// Streams without work: they only know what comes after what, by vector clocks.
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

inline void join(clock_of& into, clock_of const& other) {
  for (auto const& [stream, time] : other) into[stream] = std::max(into[stream], time);
}

/// Shared by all copies, so that a test can look while the pool has one.
struct simulated_world {
  std::map<std::uint32_t, std::uint32_t> identities;  // of handles, if not the same number
  std::map<std::uint32_t, clock_of> clocks;  // by identity: what comes before what it gets next
  clock_of everywhere;                       // what is done
  std::mt19937 random{1};
  unsigned done_percent = 0;  // how often an event is found done
  int record_fails_in = -1, wait_fails_in = -1;
  std::uint32_t never_records = 998;  // this stream cannot be recorded
  bool is_capturing = false;          // some stream: then nobody can wait for all
  std::uint64_t recorded = 0, waited = 0, live_events = 0;

  std::uint64_t misuses = 0;  // of handles whose stream was destroyed

  static constexpr std::uint32_t nobody = ~0u;
  [[nodiscard]] std::uint32_t identity(std::uint32_t handle) {
    auto const found = identities.find(handle);
    if (found != identities.end() && found->second == nobody) ++misuses;
    return found == identities.end() ? handle : found->second;
  }
  /// The stream is gone, and its work goes on; until `create` makes another with its handle.
  void destroy(std::uint32_t handle) { identities[handle] = nobody; }
  void create(std::uint32_t handle) { identities[handle] = ++created; }
  std::uint32_t created = 1000;

  /// A moment of a stream's, and whether what `later` gets next comes after it, which a stream had
  /// by its identity.
  std::uint64_t tick(std::uint32_t handle) {
    auto const stream = identity(handle);
    return ++clocks[stream][stream];
  }
  bool is_before(std::uint32_t stream, std::uint64_t time, std::uint32_t later) {
    auto const next = identity(later);
    return stream == next || clocks[next][stream] >= time || everywhere[stream] >= time;
  }
};

class simulated_streams {
 public:
  using stream = std::uint32_t;
  static constexpr stream not_a_stream = 999;
  struct event {
    clock_of after;
  };

  simulated_streams() : world_{std::make_shared<simulated_world>()} {}
  [[nodiscard]] simulated_world& world() { return *world_; }

  [[nodiscard]] stream_identity identity(stream on) const {
    if (on == not_a_stream) throw bad_argument{"not a stream"};
    return {world_->identity(on)};
  }
  /// Stands for what `thread` says.
  static constexpr stream of_thread = 997;
  [[nodiscard]] static bool depends_on_thread(stream on) noexcept { return on == of_thread; }
  [[nodiscard]] event record(stream on) {
    if (on == world_->never_records) throw std::runtime_error{"record"};
    if (world_->record_fails_in >= 0 && world_->record_fails_in-- == 0)
      throw std::runtime_error{"record"};
    world_->tick(on);
    ++world_->recorded;
    ++world_->live_events;
    return {world_->clocks[world_->identity(on)]};
  }
  void wait(stream later, event const& earlier) {
    if (world_->wait_fails_in >= 0 && world_->wait_fails_in-- == 0)
      throw std::runtime_error{"wait"};
    ++world_->waited;
    join(world_->clocks[world_->identity(later)], earlier.after);
  }
  [[nodiscard]] bool is_done(event const& one) noexcept {
    for (auto const& [of, time] : one.after) {
      if (world_->everywhere[of] < time && world_->random() % 100 >= world_->done_percent)
        return false;
    }
    join(world_->everywhere, one.after);
    return true;
  }
  void finish(event const& one) noexcept { join(world_->everywhere, one.after); }
  [[nodiscard]] bool finish(stream one) noexcept {
    if (world_->is_capturing) return false;
    join(world_->everywhere, world_->clocks[world_->identity(one)]);
    return true;
  }
  [[nodiscard]] bool finish_all() noexcept {
    if (world_->is_capturing) return false;
    for (auto const& [of, clock] : world_->clocks) join(world_->everywhere, clock);
    return true;
  }
  void drop(event&) noexcept { --world_->live_events; }

 private:
  std::shared_ptr<simulated_world> world_;
};

static_assert(stream_order<simulated_streams>);

}  // namespace quarry::test
