// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fuzz/pool_model.hpp"
#include "host/pools/simulated_streams.hpp"
#include "quarry/host/pools/stream_pool.hpp"
#include "quarry/host/resources/simulated_resource.hpp"

namespace quarry::test {

/// Tests `stream_pool`: a stream that gets memory must be ordered after all streams that used the
/// memory before. The same holds for a resource that gets a block back.
class stream_session {
 public:
  stream_session(byte_source& input, simulated_streams const& order, std::shared_ptr<block_log> log,
                 stream_pool_options const& options)
      : input_{input},
        order_{order},
        log_{std::move(log)},
        options_{options},
        pool_{logged<simulated_resource>{simulated_resource{limit_}, log_}, order, options} {
    users_.alignment = options_.alignment;
    log_->on_return = [this](std::uint64_t base, bytes size) { expect_done(base, size); };
    order_.world().done_percent = input_.u8() % 101;
  }

  void run() {
    for (int step = 0; step < max_steps && !input_.is_exhausted(); ++step) {
      do_something();
      expect_cheaply();
      if (step % 8 == 7) expect_sound(pool_);
    }
    log_->fails.remaining = 0;
    bool const skips_release = input_.chance(128);
    while (!users_.allocated.empty())
      deallocate(users_.allocated.begin()->first, users_.allocated.begin()->second.stream);
    expect_cheaply();
    expect_sound(pool_);
    expect(pool_.counts().allocated == 0, "a pool has allocations after all frees");
    if (skips_release) return;
    pool_.release();
    expect(pool_.counts().reserved == 0 && log_->blocks.empty(),
           "a pool without allocations has a block");
  }

 private:
  struct use {
    std::uint32_t stream;
    std::uint64_t time;
  };

  [[nodiscard]] std::uint32_t some_stream() { return input_.u8() % 6; }
  void do_something() {
    std::uint8_t const kind = input_.u8() % 32;
    if (kind < 13)
      return allocate(input_.chance(224) ? input_.size(options_.alignment * 64)
                                         : input_.wild_size(options_.alignment * 1024),
                      some_stream());
    if (kind < 24) return use_and_deallocate(users_.some_address(input_), some_stream());
    switch (kind) {
      case 24:
        return end_stream(some_stream(), some_stream());
      case 25:
        return forget(some_stream());
      case 26:
        pool_.release();
        return expect(!users_.allocated.empty() || pool_.counts().reserved == 0,
                      "a pool without allocations has a block");
      // at most 512 KiB: the model records each unit
      case 27:
        pool_.resource().limit(limit_ = input_.size(1 << 19));
        return;
      case 28:
        log_->fails.remaining = input_.u8() % 4;
        return;
      case 29:
        record_fails_in_ = input_.u8() % 4;
        return;
      case 30:
        wait_fails_in_ = input_.u8() % 4;
        return;
      default:
        return look(users_.some_address(input_));
    }
  }

  /// Calls the pool while events fail, if a failure is planned. Returns whether an event or the
  /// resource failed.
  template <class Call>
  bool fails_in(Call const& call) {
    auto& world = order_.world();
    world.record_fails_in = record_fails_in_;
    world.wait_fails_in = wait_fails_in_;
    log_->fails.happened = false;
    call();
    bool const failed =
        log_->fails.happened || (record_fails_in_ >= 0 && world.record_fails_in < 0);
    world.record_fails_in = world.wait_fails_in = record_fails_in_ = wait_fails_in_ = -1;
    return failed;
  }
  void allocate(bytes size, std::uint32_t stream) {
    auto const old_counts = pool_.counts();
    void* result = nullptr;
    bool is_out_of_memory = true;
    bool const failed = fails_in([&] {
      try {
        result = pool_.allocate(size, stream);
      } catch (out_of_memory const&) {
      } catch (std::exception const&) {
        is_out_of_memory = false;
      }
    });
    if (result == nullptr) {
      expect(is_out_of_memory || failed, "a failure without a cause");
      return expect_failed(size, old_counts, failed);
    }
    auto const base = number_of(result);
    bytes const room = granted_up(size, options_.alignment);
    expect(log_->has(base, room), "an allocation lies outside all blocks");
    for (auto unit = last_.lower_bound(base); unit != last_.end() && unit->first < base + room;
         ++unit) {
      expect(order_.world().is_before(unit->second.stream, unit->second.time, stream),
             "a stream got memory that another stream may still use");
    }
    model::allocation added{size};
    added.stream = stream;
    users_.add(base, std::move(added));
  }
  void expect_failed(bytes size, stream_pool_counts const& old_counts, bool failed) const {
    auto const new_counts = pool_.counts();
    expect(new_counts.allocated == old_counts.allocated &&
               new_counts.allocations_in_use == old_counts.allocations_in_use &&
               new_counts.peak_allocated == old_counts.peak_allocated,
           "a failed allocation changed the allocated bytes or chunks");
    expect(new_counts.allocations == old_counts.allocations, "a failed allocation was counted");
    if (failed || size > max_bytes_at_once) return;
    bytes const granted = granted_up(size, options_.alignment);
    bytes const maximum = (options_.max_bytes - std::min(options_.max_bytes, new_counts.reserved)) &
                          ~(options_.alignment - 1);
    expect(granted > std::min(maximum, limit_ - std::min(limit_, new_counts.reserved)),
           "a pool is out of memory and its resource is not");
    expect(granted > options_.max_bytes || !users_.allocated.empty() || new_counts.reserved == 0,
           "a pool is out of memory and has unused blocks");
  }

  /// Uses and frees an allocation on its own stream, or on another stream that waits for that
  /// stream.
  void use_and_deallocate(std::uint64_t address, std::uint32_t other) {
    auto const found = users_.allocated.find(address);
    if (found == users_.allocated.end()) return deallocate(address, other);
    std::uint32_t const stream = found->second.stream;
    if (!input_.chance(64)) return deallocate(address, stream);
    auto done = order_.record(stream);
    order_.wait(other, done);
    order_.drop(done);
    deallocate(address, other);
  }
  void deallocate(std::uint64_t address, std::uint32_t stream) {
    if (auto const found = users_.allocated.find(address); found != users_.allocated.end()) {
      auto const time = order_.world().tick(stream);
      bytes const room = users_.room(found->second);
      auto const user = order_.world().identity(stream);
      for (bytes offset = 0; offset < room; offset += options_.alignment)
        last_[address + offset] = {user, time};
    }
    bool const is_ours = users_.remove(address);
    expect(pool_.deallocate(pointer_to(address), stream) == is_ours,
           is_ours ? "a valid free was refused" : "an invalid free was accepted");
  }
  /// Destroys a stream, whose work may be under way, and makes another stream with the same handle.
  /// The stream's allocations belong to the heir, which waits for the stream; or to the new stream,
  /// after the host has waited.
  void end_stream(std::uint32_t ended, std::uint32_t heir) {
    if (heir == ended) {
      (void)order_.finish(ended);
    } else {
      auto done = order_.record(ended);
      order_.wait(heir, done);
      order_.drop(done);
    }
    for (auto& [base, moved] : users_.allocated)
      moved.stream = moved.stream == ended ? heir : moved.stream;
    order_.world().destroy(ended);
    order_.world().create(ended);
  }
  void expect_done(std::uint64_t base, bytes size) {
    auto const first = last_.lower_bound(base);
    auto const end = last_.lower_bound(base + size);
    for (auto unit = first; unit != end; ++unit) {
      expect(order_.world().finished[unit->second.stream] >= unit->second.time,
             "a block was returned that a stream may still use");
    }
    last_.erase(first, end);
  }
  void forget(std::uint32_t stream) {
    bool is_done = false;
    bool const failed = fails_in([&] {
      try {
        pool_.forget(stream);
        is_done = true;
      } catch (std::exception const&) {
      }
    });
    expect(is_done || failed, "a failure without a cause");
  }
  void look(std::uint64_t address) const {
    auto const size = pool_.size_of(pointer_to(address));
    auto const found = users_.allocated.find(address);
    expect(size.has_value() == (found != users_.allocated.end()),
           "size_of has a wrong set of allocations");
    expect(!size || *size == found->second.size, "size_of returned a wrong size");
  }
  void expect_cheaply() const {
    auto const counts = pool_.counts();
    expect_counts(counts, users_, options_.max_bytes);
    expect(counts.reserved == log_->reserved,
           "the reserved bytes differ from the blocks of the resource");
    expect(counts.allocations == users_.allocations && counts.deallocations == users_.deallocations,
           "the count of calls is wrong");
    expect(counts.blocks_allocated - counts.blocks_returned == log_->blocks.size(),
           "the count of blocks is wrong");
  }

  byte_source& input_;
  simulated_streams order_;
  std::shared_ptr<block_log> log_;
  stream_pool_options options_;
  model users_;
  std::map<std::uint64_t, use> last_;  // the last use of each unit of `alignment` bytes
  bytes limit_ = 1 << 18;
  int record_fails_in_ = -1, wait_fails_in_ = -1;
  // the last member: it is destroyed first, while its callbacks can use the other members
  stream_pool<logged<simulated_resource>, simulated_streams> pool_;
};

inline void run_streams(byte_source& input) {
  auto options = some_options<stream_pool_options>(input, 1 << 16);
  options.grows_first = input.chance(128);
  simulated_streams order;
  auto const log = std::make_shared<block_log>();
  try {
    stream_session session{input, order, log, options};
    expect(is_valid(options), "invalid options were accepted");
    session.run();
  } catch (bad_argument const&) {
    expect(!is_valid(options), "valid options were refused");
    return;
  }
  expect(log->blocks.empty(), "a destroyed pool did not return a block");
  expect(order.world().live_events == 0, "a destroyed pool did not destroy an event");
  expect(order.world().misuses == 0, "a stream was used after its destruction");
}

}  // namespace quarry::test
