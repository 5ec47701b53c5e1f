// SPDX-License-Identifier: Apache-2.0
// The protocol of arrival in a communicator other than the world.
#pragma once

#include "meeting_place.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// How the members of a communicator meet: each adds to a counter of the communicator, and waits
/// until bit 31 changes. Member 0 adds more than the others, so that all of them together add 2^31.
/// So a member needs no number of the meeting, and nobody sets the counter back. Bit 31 changes
/// again only after this member has arrived at the next meeting of the counter. Members that arrive
/// together, as lanes of one warp, arrive as one.
///
/// A counter is of one kind of operation, as in meeting_place.hpp.
///
/// Memory order. (J) is an acq_rel RMW: the last member to arrive sees what all others wrote
/// before, since all RMWs of the counter are one release sequence. (L) is an acquire load of a
/// value of this sequence, and so orders the same for the members that wait. Lanes that arrive
/// as one synchronize with their leader before it arrives, and after it if it is the last.
///
/// So a member leaves a meeting only after all others have arrived at it. What a member has read
/// before it arrives may change after the meeting.
class member_arrival {
 public:
  QUARRY_HD member_arrival(std::uint32_t& counter, std::uint32_t size)
      : counter_{counter}, size_{size} {}

  /// Arrives with the lanes of the group. `is_first`: this lane is member 0. Returns whether all
  /// members have arrived.
  [[nodiscard]] QUARRY_HD bool arrive(simt::lane_group group, bool is_first) {
    sync(group);
    bool const has_first = group.size() > 1 ? group.ballot(is_first) != 0 : is_first;
    std::uint32_t const added = group.size() + (has_first ? phase - size_ : 0);
    if (group.is_leader()) before_ = counter_.fetch_add(added, member_arrive_order);  // (J)
    if (group.size() > 1) before_ = group.broadcast(before_);
    bool const is_last = has_changed(before_ + added);
    if (is_last) sync(group);
    return is_last;
  }

  /// Whether all members have arrived.
  [[nodiscard]] QUARRY_HD bool is_complete() const {
    return has_changed(counter_.load(member_wait_order));  // (L)
  }
  /// The same without an order: a hint.
  [[nodiscard]] QUARRY_HD bool may_be_complete() const {
    return has_changed(counter_.load(simt::relaxed));
  }

 private:
  static constexpr std::uint32_t phase = 1u << 31;

  [[nodiscard]] QUARRY_HD bool has_changed(std::uint32_t value) const {
    return ((value ^ before_) & phase) != 0;
  }

  simt::atomic_ref<std::uint32_t> counter_;
  std::uint32_t size_;
  std::uint32_t before_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI::mpi
