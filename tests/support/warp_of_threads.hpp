// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/simt/host_lane.hpp"

#include <barrier>
#include <thread>
#include <utility>
#include <vector>

namespace quarry::test {

/// A warp of OS threads. They form one group the first time that they ask for a group; later each
/// thread is a group of its own. With fibers the seed decides which lanes form a group, and
/// ThreadSanitizer cannot follow fibers.
class warp_of_threads {
 public:
  /// Runs `kernel` on `lanes` lanes. Each lane must ask for a group.
  template <class Kernel>
  static void run(std::uint32_t lanes, Kernel const& kernel) {
    warp_of_threads warp{lanes};
    std::vector<std::jthread> threads;
    for (std::uint32_t thread = 0; thread < lanes; ++thread) {
      threads.emplace_back([&, thread] {
        member lane{warp, thread};
        simt::current_lane = &lane;
        kernel();
        simt::current_lane = nullptr;
      });
    }
  }

 private:
  using values = std::array<std::uint64_t, simt::warp_size>;

  class member final : public simt::host_lane {
   public:
    member(warp_of_threads& warp, std::uint32_t thread)
        : host_lane{{0, thread, 1, warp.lanes_}}, warp_{warp} {}

    simt::lane_mask coalesce(void const*) override {
      return std::exchange(is_alone_, true) ? 1u << lane()
                                            : static_cast<simt::lane_mask>(low_bits(warp_.lanes_));
    }
    values const& exchange(simt::lane_mask members, std::uint64_t value, char const*) override {
      if (members == 1u << lane()) {
        received_[lane()] = value;
        return received_;
      }
      warp_.shared_[lane()] = value;
      warp_.barrier_.arrive_and_wait();
      received_ = warp_.shared_;
      warp_.barrier_.arrive_and_wait();
      return received_;
    }
    void block_barrier() override { warp_.barrier_.arrive_and_wait(); }
    void grid_barrier() override { block_barrier(); }
    void interleave() override {}
    std::uint64_t& block_word() override { return word_; }
    void pause() override { std::this_thread::yield(); }

   private:
    std::uint64_t word_ = 0;  // no test shares a block's word
    warp_of_threads& warp_;
    bool is_alone_ = false;
    values received_{};
  };

  explicit warp_of_threads(std::uint32_t lanes)
      : lanes_{lanes}, barrier_{static_cast<std::ptrdiff_t>(lanes)} {}

  std::uint32_t lanes_;
  std::barrier<> barrier_;
  values shared_{};
};

}  // namespace quarry::test
