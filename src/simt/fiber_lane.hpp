// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/simt/host_lane.hpp"

#include "fiber_switches.hpp"

#include <boost/context/fiber.hpp>

#include <array>
#include <cstddef>
#include <cstdint>

namespace quarry::inline QUARRY_ABI::simt {

class scheduler;

/// The event that a lane of fibers waits for. `ready` lanes do not wait.
enum class wait : std::uint8_t { ready, parked, coalesce, exchange, meet, block, grid, done };

/// A lane that runs as a fiber, and what its scheduler knows of it.
class fiber_lane final : public host_lane {
 public:
  fiber_lane(place own, std::uint32_t thread, scheduler& owner)
      : host_lane{own, thread}, owner_{owner} {}

  lane_mask coalesce(void const* site) override;
  std::array<std::uint64_t, warp_size> const& exchange(lane_mask members, std::uint64_t value,
                                                       char const* operation) override;
  bool returns_together() const override;
  std::uint64_t call_together(void const* site) override;
  void return_together(std::uint64_t call) override;
  void block_barrier() override;
  void grid_barrier() override;
  std::uint64_t& block_word() override;
  void interleave() override;
  void pause() override;
  bool park() override;
  void wake(std::uint64_t rank) override;
  std::uint64_t time_run(std::uint64_t now) const override { return ran + (now - resumed_at); }

  wait waiting = wait::ready;
  // coalesce: the site where the lane waits. Afterwards `members` is the lane's group
  void const* site = nullptr;
  lane_mask members = 0;                            // exchange: the group
  char const* pending_operation = nullptr;          // exchange: the operation
  std::uint64_t call = 0;                           // coalesce, meet: the number of the call
  bool is_calling = false;                          // coalesce: the group calls a function together
  bool is_woken = false;                            // parked: by `wake`
  std::uint64_t value = 0;                          // exchange: the value that this lane sends
  std::array<std::uint64_t, warp_size> received{};  // exchange: the values that the lane receives
  std::size_t ready_index = 0;                      // position among the scheduler's ready lanes
  std::size_t coalescing_index = 0;                 // the same among lanes that wait for a group
  boost::context::fiber fiber;
  sanitized_fiber for_sanitizers;
  std::uint64_t ran = 0;         // until it was resumed, by the schedule's clock
  std::uint64_t resumed_at = 0;  // the same clock

 private:
  scheduler& owner_;
};

}  // namespace quarry::inline QUARRY_ABI::simt
