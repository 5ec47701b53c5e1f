// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fuzz/pool_model.hpp"
#include "host/pools/simulated_streams.hpp"
#include "quarry/host/pools/stream_pool.hpp"
#include "quarry/host/resources/simulated_resource.hpp"

namespace quarry::test {

/// stream_pool: whoever gets memory comes after all who used it before, and so does a resource that
/// gets a block back.
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
    log_->on_give = [this](std::uint64_t base, bytes size) { expect_done(base, size); };
    order_.world().done_percent = input_.u8() % 101;
  }

  void run() {
    for (int step = 0; step < max_steps && !input_.is_exhausted(); ++step) {
      do_something();
      expect_cheaply();
      if (step % 8 == 7) expect_sound(pool_);
    }
    log_->fails.left = 0;
    bool const is_left_to_itself = input_.chance(128);
    while (!users_.allocated.empty())
      give_back(users_.allocated.begin()->first, users_.allocated.begin()->second.on);
    expect_cheaply();
    expect_sound(pool_);
    expect(pool_.counts().allocated == 0, "all was returned, and something is live");
    if (is_left_to_itself) return;
    pool_.release();
    expect(pool_.counts().reserved == 0 && log_->blocks.empty(),
           "nothing is in use, and a block is held");
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
    if (kind < 24) return use_and_give_back(users_.some_address(input_), some_stream());
    switch (kind) {
      case 24:
        return end_stream(some_stream(), some_stream());
      case 25:
        return forget(some_stream());
      case 26:
        pool_.release();
        return expect(!users_.allocated.empty() || pool_.counts().reserved == 0,
                      "nothing is in use, and a block is held");
      // not more: the model knows each unit
      case 27:
        pool_.resource().limit(limit_ = input_.size(1 << 19));
        return;
      case 28:
        log_->fails.left = input_.u8() % 4;
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

  /// Calls the pool while events fail, if they are to. Whether any did.
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
  void allocate(bytes size, std::uint32_t on) {
    auto const before = pool_.counts();
    void* result = nullptr;
    bool is_memory = true;
    bool const failed = fails_in([&] {
      try {
        result = pool_.allocate(size, on);
      } catch (out_of_memory const&) {
      } catch (std::exception const&) {
        is_memory = false;
      }
    });
    if (result == nullptr) {
      expect(is_memory || failed, "a failure that nobody caused");
      return expect_failed(size, before, failed);
    }
    auto const base = number_of(result);
    bytes const room = granted_up(size, options_.alignment);
    expect(log_->has(base, room), "an allocation lies outside all blocks");
    for (auto at = last_.lower_bound(base); at != last_.end() && at->first < base + room; ++at) {
      expect(order_.world().is_before(at->second.stream, at->second.time, on),
             "a stream got memory that another may still use");
    }
    model::one what{size};
    what.on = on;
    users_.add(base, std::move(what));
  }
  void expect_failed(bytes size, stream_pool_counts const& before, bool failed) const {
    auto const after = pool_.counts();
    expect(after.allocated == before.allocated &&
               after.chunks_allocated == before.chunks_allocated &&
               after.peak_allocated == before.peak_allocated,
           "a failed allocation changed what is live");
    expect(after.allocations == before.allocations, "a failed allocation was counted");
    if (failed || size > max_bytes_at_once) return;
    bytes const granted = granted_up(size, options_.alignment);
    bytes const maximum = (options_.max_bytes - std::min(options_.max_bytes, after.reserved)) &
                          ~(options_.alignment - 1);
    expect(granted > std::min(maximum, limit_ - std::min(limit_, after.reserved)),
           "it says that there is no memory, and its resource has some");
    expect(granted > options_.max_bytes || !users_.allocated.empty() || after.reserved == 0,
           "it says that there is no memory, and holds blocks in which nothing is in use");
  }

  /// On the stream that it was allocated on, or on another that waits for that one.
  void use_and_give_back(std::uint64_t address, std::uint32_t other) {
    auto const found = users_.allocated.find(address);
    if (found == users_.allocated.end()) return give_back(address, other);
    std::uint32_t const stream = found->second.on;
    if (!input_.chance(64)) return give_back(address, stream);
    auto done = order_.record(stream);
    order_.wait(other, done);
    order_.drop(done);
    give_back(address, other);
  }
  void give_back(std::uint64_t address, std::uint32_t on) {
    if (auto const found = users_.allocated.find(address); found != users_.allocated.end()) {
      auto const time = order_.world().tick(on);
      bytes const room = users_.room(found->second);
      auto const who = order_.world().identity(on);
      for (bytes at = 0; at < room; at += options_.alignment) last_[address + at] = {who, time};
    }
    bool const is_ours = users_.remove(address);
    expect(pool_.deallocate(pointer_to(address), on) == is_ours,
           is_ours ? "what is in use was refused" : "what is not in use was taken back");
  }
  /// The stream is destroyed, its work under way or not, and another one gets its handle. What it
  /// has is the heir's from now on, which waits for it; or the new stream's, after the host waited.
  void end_stream(std::uint32_t ended, std::uint32_t heir) {
    if (heir == ended) {
      (void)order_.finish(ended);
    } else {
      auto done = order_.record(ended);
      order_.wait(heir, done);
      order_.drop(done);
    }
    for (auto& [base, what] : users_.allocated) what.on = what.on == ended ? heir : what.on;
    order_.world().destroy(ended);
    order_.world().create(ended);
  }
  void expect_done(std::uint64_t base, bytes size) {
    auto const first = last_.lower_bound(base);
    auto const end = last_.lower_bound(base + size);
    for (auto at = first; at != end; ++at) {
      expect(order_.world().finished[at->second.stream] >= at->second.time,
             "a block went back that a stream may still use");
    }
    last_.erase(first, end);
  }
  void forget(std::uint32_t on) {
    bool is_done = false;
    bool const failed = fails_in([&] {
      try {
        pool_.forget(on);
        is_done = true;
      } catch (std::exception const&) {
      }
    });
    expect(is_done || failed, "a failure that nobody caused");
  }
  void look(std::uint64_t address) const {
    auto const size = pool_.size_of(pointer_to(address));
    auto const found = users_.allocated.find(address);
    expect(size.has_value() == (found != users_.allocated.end()),
           "size_of knows what is not in use, or not what is");
    expect(!size || *size == found->second.size, "size_of says another size");
  }
  void expect_cheaply() const {
    auto const counts = pool_.counts();
    expect_counts(counts, users_, options_.max_bytes);
    expect(counts.reserved == log_->reserved, "it holds what its resource did not give");
    expect(counts.allocations == users_.allocations && counts.deallocations == users_.deallocations,
           "calls are counted wrongly");
    expect(counts.blocks_allocated - counts.blocks_returned == log_->blocks.size(),
           "blocks are counted wrongly");
  }

  byte_source& input_;
  simulated_streams order_;
  std::shared_ptr<block_log> log_;
  stream_pool_options options_;
  model users_;
  std::map<std::uint64_t, use> last_;  // of each unit of the alignment
  bytes limit_ = 1 << 18;
  int record_fails_in_ = -1, wait_fails_in_ = -1;
  // goes first, while what it is asked about is there
  stream_pool<logged<simulated_resource>, simulated_streams> pool_;
};

inline void run_streams(byte_source& input) {
  auto options = some_options<stream_pool_options>(input, 1 << 16);
  options.grows_first = input.chance(128);
  simulated_streams order;
  auto const log = std::make_shared<block_log>();
  try {
    stream_session session{input, order, log, options};
    expect(is_valid(options), "options were taken that cannot be");
    session.run();
  } catch (bad_argument const&) {
    expect(!is_valid(options), "options were refused that can be");
    return;
  }
  expect(log->blocks.empty(), "a pool is gone, and a block of its is not");
  expect(order.world().live_events == 0, "a pool is gone, and an event of its is not");
  expect(order.world().misuses == 0, "a stream was asked about after it was destroyed");
}

}  // namespace quarry::test
