// SPDX-License-Identifier: Apache-2.0
// A stateless model checker. It runs a few lanes in every order of their atomic accesses, under
// sequential consistency.
#pragma once

#include "quarry/simt/host_lane.hpp"

#include <boost/context/fiber.hpp>
#include <boost/context/stack_context.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace quarry::test {

/// The lanes of one run, and the condition that must hold when all lanes have ended. The explorer
/// makes a new scenario for each schedule.
struct scenario {
  std::vector<std::function<void()>> lanes;
  std::function<std::string()> check;  ///< describes the first problem; empty if there is none
};

struct explore_options {
  /// How often a schedule may leave a lane that could continue (CHESS: Musuvathi and Qadeer, 2007).
  /// Leaving a lane that waits or has ended is free.
  std::uint32_t preemptions = 2;
  std::uint64_t max_schedules = 5'000'000;
  std::uint32_t max_steps =
      20'000;  ///< of one schedule; a longer schedule is reported as a livelock
  /// True: the lanes belong to one warp and never form a group. False: each lane is a block.
  bool in_one_warp = false;
};

struct exploration {
  std::uint64_t schedules = 0;
  bool complete = false;  ///< every schedule within the bounds was run
  std::string failure;    ///< the first failure, with its schedule
};

/// Runs every schedule of a scenario, depth first, until a schedule fails. All lanes run on this
/// thread, as fibers. The explorer chooses the next lane before each atomic access.
///
/// A lane that calls `pause` waits until each other lane that can run has taken a step. This makes
/// bounded waits end (fair stateless model checking, by the same authors, 2008).
class explorer {
 public:
  explorer(std::function<scenario()> make, explore_options options)
      : make_{std::move(make)}, options_{options} {}

  exploration run() {
    exploration result;
    do {
      result.failure = run_one();
      ++result.schedules;
      if (!result.failure.empty()) return result;
    } while (next_schedule() && result.schedules < options_.max_schedules);
    result.complete = choices_.empty();
    return result;
  }

 private:
  static constexpr std::size_t max_lanes = 4;
  static constexpr std::size_t stack_bytes = 64 * 1024;
  static constexpr std::uint32_t no_lane = ~std::uint32_t{0};

  struct stop {};

  /// The lanes that could continue at one point. The lane that continues without a preemption is
  /// first.
  struct choice {
    std::array<std::uint8_t, max_lanes> options;
    std::uint8_t count;
    std::uint8_t taken;
  };

  class explored_lane final : public simt::host_lane {
   public:
    explored_lane(std::uint32_t index, std::uint32_t count, explorer& owner)
        : host_lane{owner.options_.in_one_warp ? simt::place{0, index, 1, count}
                                               : simt::place{index, 0, count, 1}},
          owner_{owner} {}

    simt::lane_mask coalesce(void const*) override { return simt::lane_mask{1} << lane(); }
    std::array<std::uint64_t, simt::warp_size> const& exchange(simt::lane_mask, std::uint64_t value,
                                                               char const*) override {
      values_[lane()] = value;
      return values_;
    }
    void block_barrier() override { throw std::logic_error{"explored lanes have no barriers"}; }
    void grid_barrier() override { throw std::logic_error{"explored lanes have no barriers"}; }
    void interleave() override { owner_.step(*this, false); }
    std::uint64_t& block_word() override { return word_; }
    void pause() override { owner_.step(*this, true); }

    [[nodiscard]] std::uint32_t index() const { return own_place().block + own_place().thread; }

    boost::context::fiber fiber;

   private:
    explorer& owner_;
    std::array<std::uint64_t, simt::warp_size> values_{};
    std::uint64_t word_ = 0;
  };

  /// Reuses the same stacks for each schedule.
  struct stack_pool {
    std::vector<void*>* unused;

    boost::context::stack_context allocate() {
      void* bottom = nullptr;
      if (unused->empty()) {
        bottom = std::malloc(stack_bytes);
        if (bottom == nullptr) throw std::bad_alloc{};
      } else {
        bottom = unused->back();
        unused->pop_back();
      }
      boost::context::stack_context stack;
      stack.size = stack_bytes;
      stack.sp = static_cast<char*>(bottom) + stack_bytes;
      return stack;
    }
    void deallocate(boost::context::stack_context& stack) {
      unused->push_back(static_cast<char*>(stack.sp) - stack_bytes);
    }
  };

  struct stacks {
    std::vector<void*> unused;
    stacks() = default;
    stacks(stacks const&) = delete;
    stacks& operator=(stacks const&) = delete;
    ~stacks() {
      for (void* const bottom : unused) std::free(bottom);
    }
  };

  std::string run_one() {
    scenario const run = make_();
    if (run.lanes.size() > max_lanes)
      throw std::invalid_argument{"explore: a scenario has at most 4 lanes"};
    lanes_.clear();
    waits_for_ = {};
    depth_ = 0;
    preemptions_ = 0;
    failure_.clear();
    steps_.clear();
    stopping_ = false;
    auto const count = static_cast<std::uint32_t>(run.lanes.size());
    running_ = (1u << count) - 1;
    for (std::uint32_t i = 0; i < count; ++i) {
      lanes_.push_back(std::make_unique<explored_lane>(i, count, *this));
      start(*lanes_[i], run.lanes[i]);
    }
    for (next_ = choose(no_lane, false); next_ != no_lane;) resume(*lanes_[next_]);
    stopping_ = true;
    for (auto& lane : lanes_) {
      if (is_running(lane->index())) resume(*lane);  // unwinds its stack
    }
    if (failure_.empty()) failure_ = run.check();
    if (!failure_.empty()) failure_ += "; " + schedule();
    return failure_;
  }

  void start(explored_lane& lane, std::function<void()> const& body) {
    lane.fiber = boost::context::fiber{std::allocator_arg, stack_pool{&stacks_.unused},
                                       [this, &lane, &body](boost::context::fiber&& main) {
                                         main_ = std::move(main);
                                         try {
                                           if (!stopping_) body();
                                         } catch (stop const&) {
                                         } catch (std::exception const& problem) {
                                           fail(std::string{"a lane threw: "} + problem.what());
                                         }
                                         running_ &= ~(1u << lane.index());
                                         if (!stopping_) next_ = choose(lane.index(), true);
                                         return std::move(main_);
                                       }};
  }

  void resume(explored_lane& lane) {
    simt::current_lane = &lane;
    lane.fiber = std::move(lane.fiber).resume();
    simt::current_lane = nullptr;
  }

  /// Called on a lane's stack before its next access.
  void step(explored_lane& lane, bool waits) {
    if (stopping_) throw stop{};
    if (waits) {
      std::uint32_t others = 0;
      for (std::uint32_t i = 0; i < lanes_.size(); ++i)
        if (i != lane.index() && can_run(i)) others |= 1u << i;
      waits_for_[lane.index()] = others;
    }
    next_ = choose(lane.index(), waits);
    if (next_ == lane.index()) return;
    main_ = std::move(main_).resume();
    if (stopping_) throw stop{};
  }

  [[nodiscard]] bool is_running(std::uint32_t lane) const { return (running_ >> lane & 1) != 0; }
  [[nodiscard]] bool can_run(std::uint32_t lane) const {
    return is_running(lane) && (waits_for_[lane] & running_) == 0;
  }

  /// The lane that takes the next step; `no_lane` if all lanes have ended or the run has failed.
  std::uint32_t choose(std::uint32_t current, bool leaves) {
    if (!failure_.empty()) return no_lane;
    if (steps_.size() >= options_.max_steps) {
      fail("livelock");
      return no_lane;
    }
    bool const continues = current != no_lane && !leaves;
    std::uint32_t chosen = current;
    if (!continues || preemptions_ < options_.preemptions) {
      choice point{};
      if (continues) point.options[point.count++] = static_cast<std::uint8_t>(current);
      add_others(point, current);
      if (point.count == 0) return no_lane;
      chosen = point.options[decide(point)];
      if (continues && chosen != current) ++preemptions_;
    }
    for (std::uint32_t& lanes : waits_for_) lanes &= ~(1u << chosen);
    waits_for_[chosen] = 0;
    steps_.push_back(static_cast<std::uint8_t>(chosen));
    return chosen;
  }

  /// Adds the lanes that can run, beginning behind `current`. Adds the waiting lanes if no lane can
  /// run.
  void add_others(choice& point, std::uint32_t current) const {
    auto const count = static_cast<std::uint32_t>(lanes_.size());
    for (bool const despite_waiting : {false, true}) {
      for (std::uint32_t i = 1; i <= count; ++i) {
        std::uint32_t other = current == no_lane ? i - 1 : current + i;
        if (other >= count) other -= count;
        if (point.count != 0 && point.options[0] == other) continue;
        if (can_run(other) || (despite_waiting && is_running(other))) {
          point.options[point.count++] = static_cast<std::uint8_t>(other);
        }
      }
      if (point.count != 0) return;
    }
  }

  /// This schedule's choice at its next point with more than one possibility.
  std::uint32_t decide(choice const& point) {
    if (point.count == 1) return 0;
    if (depth_ == choices_.size()) choices_.push_back(point);
    choice const& planned = choices_[depth_++];
    if (planned.count != point.count)
      throw std::logic_error{
          "explore: the scenario is not deterministic; its lanes may depend only on the schedule"};
    return planned.taken;
  }

  bool next_schedule() {
    while (!choices_.empty() && choices_.back().taken + 1 == choices_.back().count)
      choices_.pop_back();
    if (choices_.empty()) return false;
    ++choices_.back().taken;
    return true;
  }

  void fail(std::string message) {
    if (failure_.empty()) failure_ = std::move(message);
  }

  /// The lanes in the order of their steps: 0*5 is five steps of lane 0.
  [[nodiscard]] std::string schedule() const {
    std::string text = "schedule";
    for (std::size_t begin = 0; begin < steps_.size() && text.size() < 2000;) {
      std::size_t end = begin;
      while (end < steps_.size() && steps_[end] == steps_[begin]) ++end;
      text += ' ' + std::to_string(steps_[begin]) + '*' + std::to_string(end - begin);
      begin = end;
    }
    return text;
  }

  std::function<scenario()> make_;
  explore_options options_;
  stacks stacks_;
  std::vector<choice> choices_;
  std::size_t depth_ = 0;
  std::vector<std::unique_ptr<explored_lane>> lanes_;
  std::uint32_t running_ = 0;                         // a bit for each lane that has not ended
  std::array<std::uint32_t, max_lanes> waits_for_{};  // lanes that must take a step before lane i
  std::vector<std::uint8_t> steps_;
  std::uint32_t preemptions_ = 0;
  std::uint32_t next_ = no_lane;
  std::string failure_;
  bool stopping_ = false;
  boost::context::fiber main_;
};

inline exploration explore(std::function<scenario()> make, explore_options options = {}) {
  return explorer{std::move(make), options}.run();
}

/// Fails the test unless every schedule within the bounds was run, and its check found no problem.
inline void expect_all_schedules_hold(std::function<scenario()> make, explore_options options) {
  auto const result = explore(std::move(make), options);
  EXPECT_EQ(result.failure, "");
  EXPECT_TRUE(result.complete);
  std::cout << "  " << result.schedules << " schedules with at most " << options.preemptions
            << " preemptions\n";
}

}  // namespace quarry::test
