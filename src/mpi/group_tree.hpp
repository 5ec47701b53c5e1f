// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collective.hpp"
#include "groups.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// The members of a group along a binomial tree. Their messages are in the world, where no other
/// operation has this kind of tag.
class group_tree {
 public:
  QUARRY_HD group_tree(rank_state& rank, group& members, std::uint32_t own, int tag)
      : rank_{rank},
        members_{members},
        own_{own},
        children_{tree_children(own, members.size)},
        through_{&rank.member_of[0], rank.member_of[0].context + 1},
        tag_{tag_of(static_cast<std::uint32_t>(tag), which)} {}
  /// Gives all members the data of the first.
  QUARRY_SLOW void broadcast(void* data, bytes size) const {
    if (own_ != 0)
      (void)receive_bytes(rank_, through_, data, size, world_rank(parent()), tag_, which);
    for (std::uint32_t child = children_; child-- != 0;)
      send_bytes(rank_, through_, data, size, world_rank(own_ + (1u << child)), tag_, which);
  }
  /// The first member waits until all have called it.
  QUARRY_SLOW void arrive() const {
    for (std::uint32_t child = 0; child < children_; ++child)
      (void)receive_bytes(rank_, through_, nullptr, 0, world_rank(own_ + (1u << child)), tag_,
                          which);
    if (own_ != 0) send_bytes(rank_, through_, nullptr, 0, world_rank(parent()), tag_, which);
  }

 private:
  static constexpr call which = call::comm_create_group;

  [[nodiscard]] QUARRY_HD std::uint32_t parent() const { return own_ & (own_ - 1); }
  [[nodiscard]] QUARRY_HD std::int32_t world_rank(std::uint32_t member) const {
    return static_cast<std::int32_t>(members_.world_rank(member));
  }

  rank_state& rank_;
  group& members_;
  std::uint32_t own_;
  std::uint32_t children_;  // own + 1, own + 2, own + 4, ...
  channel through_;
  std::int32_t tag_;
};

}  // namespace quarry::inline QUARRY_ABI::mpi
