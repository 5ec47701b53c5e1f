// SPDX-License-Identifier: Apache-2.0
#include "group_tree.hpp"
#include "new_communicators.hpp"
#include "split_order.hpp"
#include "splitting.hpp"

#ifndef QUARRY_MPI_PROCESSES
namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// The parts of all colors, which lie among empty entries.
struct color_parts {
  color_part* first;
  std::uint32_t count;

  [[nodiscard]] QUARRY_HD bool is_part(std::uint32_t place) const {
    return first[place].color != MPI_UNDEFINED;
  }
  /// Calls `act(part)` for each color.
  template <class Act>
  QUARRY_HD void for_each(Act const& act) const {
    for (std::uint32_t i = 0; i < count; ++i)
      if (is_part(i)) act(first[i]);
  }
};

/// Joins the parts of two groups that have the same color. Parts whose color the other group does
/// not have are freed. Returns false, and has freed all parts, if the heap has no memory.
QUARRY_SLOW bool join_parts(bridge const& across, color_parts const& own, bool is_made) {
  struct table {
    color_parts parts;
    std::uint64_t is_made;
  };
  table const other = across.exchange(table{own, is_made ? 1u : 0u});
  bool is_joined = is_made && other.is_made != 0;
  std::uint32_t match = 0;  // in the other table
  if (is_joined && across.is_first())
    own.for_each([&](color_part& here) {
      color_parts const& remote = other.parts;
      while (match < remote.count &&
             (!remote.is_part(match) || remote.first[match].color < here.color))
        ++match;
      if (match == remote.count || remote.first[match].color != here.color) return;
      color_part& there = remote.first[match];  // the other leader waits
      communicator_halves const halves =
          new_halves(here.part, across.rank.rank, there.part, across.world_leader);
      here.half = halves.own;
      there.half = halves.other;
      is_joined = is_joined && here.half != nullptr;
    });
  std::uint64_t const is_complete = is_joined ? 1 : 0;
  is_joined = across.exchange(is_complete) != 0 && is_joined;
  if (is_made)
    own.for_each([&](color_part& part) {
      if (!is_joined || part.half == nullptr) {
        discard(part.part);
        discard(part.half);
        part.half = nullptr;
      }
      part.part = part.half;
    });
  return is_joined;
}

}  // namespace

QUARRY_SLOW int split_members(rank_state& rank, MPI_Comm handle, int color, int key, MPI_Comm* part,
                              call which, char const* function) {
  membership& at = *member(rank, handle);
  membership& among = own_group(rank, at);
  bool const has_two = is_intercommunicator(at);
  MPI_Errhandler const handler = at.handler;
  std::uint32_t const size = among.size;
  bool const is_member = color != MPI_UNDEFINED;
  communicator* made = nullptr;
  std::uint32_t new_rank = 0;
  bool is_made = false;
  {
    split_table const table{rank, among, which, {color, key, among.rank}};
    wish_order order{};
    if (table.is_made()) {
      order = table.order();
      bool const is_first = is_member && order.place == order.first;
      std::uint32_t const members = order.end - order.first;
      color_part& own = table.parts()[order.place];
      own = {nullptr, nullptr, is_first ? color : MPI_UNDEFINED};
      if (is_first) own.part = new_communicator(members, members, members, new_contexts(), true);
      if (is_first && own.part == nullptr) table.note_failure();
      table.meet();
      new_rank = order.place - order.first;
      if (table.has_failed()) {
        discard(own.part);
      } else if (is_member) {
        table.parts()[order.first].part->members[new_rank] = rank.rank;
      }
    }
    if (has_two) {
      collective const across{rank, at, which};  // all ranks count it
      if (table.is_made()) table.meet();
      if (among.rank == 0 && !join_parts({across, at}, {table.parts(), table.is_made() ? size : 0},
                                         table.is_made() && !table.has_failed()))
        table.note_failure();
      table.meet();
    }
    is_made = table.is_made() && !table.has_failed();
    if (is_made && is_member) made = table.parts()[order.first].part;
    table.meet();
  }
  *part = MPI_COMM_NULL;
  bool const is_joined =
      is_made && (made == nullptr || join(rank, made, new_rank, handler, part) != nullptr);
  return is_joined ? MPI_SUCCESS : fail(rank, handle, MPI_ERR_NO_MEM, function, "size", size);
}

QUARRY_SLOW communicator* copy_of_members(rank_state& rank, membership& at) {
  membership& among = own_group(rank, at);
  communicator* made = nullptr;
  if (among.rank == 0) made = copy_of(*among.shared, new_contexts());
  if (is_intercommunicator(at)) {
    collective const across{rank, at, call::comm_dup};  // all ranks count it
    if (among.rank == 0) made = join_groups({across, at}, made);
  }
  broadcast_bytes(rank, among, &made, sizeof(made), 0, call::comm_dup);
  return made;
}

QUARRY_SLOW communicator* communicator_of(rank_state& rank, group& members, std::uint32_t own,
                                          int tag) {
  std::uint32_t const size = members.size;
  communicator* made = nullptr;
  bool const is_small = size <= 64;  // then one rank is fast enough
  if (own == 0) made = new_communicator(size, size, size, new_contexts(), true);
  for (std::uint32_t i = 0; is_small && made != nullptr && i < size; ++i)
    made->members[i] = members.world_rank(i);
  group_tree const tree{rank, members, own, tag};
  tree.broadcast(&made, sizeof(made));
  if (made != nullptr && !is_small) {
    made->members[own] = rank.rank;
    tree.arrive();
    tree.broadcast(nullptr, 0);  // the list is complete
  }
  return made;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
#endif
