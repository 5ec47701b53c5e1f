// SPDX-License-Identifier: Apache-2.0
#include "splitting.hpp"

#include "attributes.hpp"
#include "groups.hpp"
#include "information.hpp"
#include "split_by_messages.hpp"
#include "split_order.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

QUARRY_SLOW communicator* join_groups(bridge const& across, communicator* local) {
  communicator* const other = across.exchange(local);
  communicator_halves made{};
  if (across.is_first()) made = new_halves(local, across.rank.rank, other, across.world_leader);
  communicator* const given = across.exchange(made.other);
  communicator* const half = across.is_first() ? made.own : given;
  if (half == nullptr) discard(local);
  return half;
}

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

QUARRY_SLOW int split(rank_state& rank, MPI_Comm handle, int color, int key, MPI_Comm* part,
                      call which, char const* function) {
  membership* const at = member(rank, handle);
  if (at == nullptr) return fail(rank, handle, MPI_ERR_COMM, function, "communicator", handle);
  if (color < 0 && color != MPI_UNDEFINED)
    return fail(rank, handle, MPI_ERR_ARG, function, "color", color);
#ifdef QUARRY_MPI_PROCESSES
  return split_by_messages(rank, handle, {color, key, rank.rank}, part, which, function);
#endif
  membership& among = own_group(rank, *at);
  bool const has_two = is_intercommunicator(*at);
  MPI_Errhandler const handler = at->handler;
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
      collective const across{rank, *at, which};  // all ranks count it
      if (table.is_made()) table.meet();
      if (among.rank == 0 && !join_parts({across, *at}, {table.parts(), table.is_made() ? size : 0},
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

namespace {

/// Copies what the rank's membership in a communicator has beyond the others'. False if the heap
/// has no memory.
[[nodiscard]] QUARRY_SLOW bool copy_extra(rank_state& rank, MPI_Comm from, MPI_Comm to) {
  membership_extra const* const old = extra_of(rank, *member(rank, from));
  if (old == nullptr || (old->hints == nullptr && old->neighbours == nullptr)) return true;
  membership_extra* const made = make_extra(rank, *member(rank, to));
  if (made == nullptr) return false;
  if (old->hints != nullptr) made->hints = copy_of(*old->hints);
  if (old->neighbours != nullptr) made->neighbours = copy_of(*old->neighbours);
  return (made->hints != nullptr) == (old->hints != nullptr) &&
         (made->neighbours != nullptr) == (old->neighbours != nullptr);
}

/// A communicator of the same ranks, without the attributes.
QUARRY_SLOW int duplicate(rank_state& rank, MPI_Comm handle, MPI_Comm* copy, char const* function) {
  membership* const at = member(rank, handle);
  if (at == nullptr) return fail(rank, handle, MPI_ERR_COMM, function, "communicator", handle);
  membership& among = own_group(rank, *at);
#ifdef QUARRY_MPI_PROCESSES
  std::uint32_t const context = context_of_first(rank, among, call::comm_dup);
  communicator* const own = copy_of(*among.shared, context);
  if (own == nullptr || join(rank, own, among.rank, at->handler, copy) == nullptr)
    return fail(rank, handle, MPI_ERR_NO_MEM, function, "size", among.size);
  return MPI_SUCCESS;
#endif
  communicator* made = nullptr;
  if (among.rank == 0) made = copy_of(*among.shared, new_contexts());
  if (is_intercommunicator(*at)) {
    collective const across{rank, *at, call::comm_dup};  // all ranks count it
    if (among.rank == 0) made = join_groups({across, *at}, made);
  }
  broadcast_bytes(rank, among, &made, sizeof(made), 0, call::comm_dup);
  if (made == nullptr || join(rank, made, among.rank, at->handler, copy) == nullptr)
    return fail(rank, handle, MPI_ERR_NO_MEM, function, "size", among.size);
  return MPI_SUCCESS;
}

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

}  // namespace

QUARRY_SLOW int copy_attached(rank_state& rank, MPI_Comm from, MPI_Comm* copy,
                              char const* function) {
  int error = MPI_ERR_NO_MEM;
  if (copy_extra(rank, from, *copy))
    error = copy_attributes(rank, attribute::owner::communicator, from, *copy);
  if (error == MPI_SUCCESS) return MPI_SUCCESS;
  (void)MPI_Comm_free(copy);
  return fail(rank, from, error, function, "attributes of communicator", from);
}

QUARRY_SLOW int give_info(MPI_Info info, MPI_Comm* copy) {
  int const error = info == MPI_INFO_NULL ? MPI_SUCCESS : MPI_Comm_set_info(*copy, info);
  if (error != MPI_SUCCESS) (void)MPI_Comm_free(copy);
  return error;
}

}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Comm_split(MPI_Comm communicator, int color, int key, MPI_Comm* part) {
  return split(self(), communicator, color, key, part, call::comm_split, "MPI_Comm_split");
}

QUARRY_HD int MPI_Comm_split_type(MPI_Comm communicator, int type, int key, MPI_Info,
                                  MPI_Comm* part) {
  char const* const name = "MPI_Comm_split_type";
  if (type != MPI_COMM_TYPE_SHARED && type != MPI_UNDEFINED)
    return fail(self(), communicator, MPI_ERR_ARG, name, "type", type);
#ifdef QUARRY_MPI_PROCESSES
  auto const sharing = static_cast<int>(the_processes().own);
#else
  int const sharing = 0;  // all ranks share memory
#endif
  int const color = type == MPI_UNDEFINED ? MPI_UNDEFINED : sharing;
  return split(self(), communicator, color, key, part, call::comm_split, name);
}

QUARRY_HD int MPI_Comm_create(MPI_Comm communicator, MPI_Group handle, MPI_Comm* part) {
  char const* const name = "MPI_Comm_create";
  rank_state& rank = self();
  membership const* const at = member(rank, communicator);
  group* const members = group_of(rank, handle);
  if (members == nullptr) return fail(rank, communicator, MPI_ERR_GROUP, name, "group", handle);
  int const own = members->rank_of(rank.rank);
  // Ranks may give different groups that have no common member: the first member is the color.
  int color = MPI_UNDEFINED;
  if (own != MPI_UNDEFINED)
    color =
        at != nullptr && is_intercommunicator(*at) ? 0 : static_cast<int>(members->world_rank(0));
  return split(rank, communicator, color, own, part, call::comm_create, name);
}

QUARRY_HD int MPI_Comm_create_group(MPI_Comm handle, MPI_Group group_handle, int tag,
                                    MPI_Comm* result) {
  char const* const name = "MPI_Comm_create_group";
  rank_state& rank = self();
  membership const* const at = member(rank, handle);
  if (at == nullptr || is_intercommunicator(*at))
    return fail(rank, handle, MPI_ERR_COMM, name, "communicator", handle);
  group* const members = group_of(rank, group_handle);
  if (members == nullptr) return fail(rank, handle, MPI_ERR_GROUP, name, "group", group_handle);
  if (tag < 0) return fail(rank, handle, MPI_ERR_TAG, name, "tag", tag);
  *result = MPI_COMM_NULL;
  int const place = members->rank_of(rank.rank);
  if (place == MPI_UNDEFINED) return MPI_SUCCESS;
  auto const own = static_cast<std::uint32_t>(place);
  MPI_Errhandler const handler = at->handler;
  std::uint32_t const size = members->size;
  communicator* made = nullptr;
#ifdef QUARRY_MPI_PROCESSES
  std::uint32_t context = own == 0 ? new_contexts() : 0;
  group_tree const own_tree{rank, *members, own, tag};
  own_tree.broadcast(&context, sizeof(context));
  made = new_communicator(size, size, 1, context, false);
  for (std::uint32_t i = 0; made != nullptr && i < size; ++i)
    made->members[i] = members->world_rank(i);
  if (made == nullptr || join(rank, made, own, handler, result) == nullptr)
    return fail(rank, handle, MPI_ERR_NO_MEM, name, "size", size);
  return MPI_SUCCESS;
#endif
  bool const is_small = size <= 64;  // then one rank is fast enough
  if (own == 0) made = new_communicator(size, size, size, new_contexts(), true);
  for (std::uint32_t i = 0; is_small && made != nullptr && i < size; ++i)
    made->members[i] = members->world_rank(i);
  group_tree const tree{rank, *members, own, tag};
  tree.broadcast(&made, sizeof(made));
  if (made != nullptr && !is_small) {
    made->members[own] = rank.rank;
    tree.arrive();
    tree.broadcast(nullptr, 0);  // the list is complete
  }
  if (made == nullptr || join(rank, made, own, handler, result) == nullptr)
    return fail(rank, handle, MPI_ERR_NO_MEM, name, "size", size);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Comm_dup(MPI_Comm communicator, MPI_Comm* copy) {
  rank_state& rank = self();
  int const error = duplicate(rank, communicator, copy, "MPI_Comm_dup");
  return error != MPI_SUCCESS ? error : copy_attached(rank, communicator, copy, "MPI_Comm_dup");
}

QUARRY_HD int MPI_Comm_dup_with_info(MPI_Comm communicator, MPI_Info info, MPI_Comm* copy) {
  if (int const error = MPI_Comm_dup(communicator, copy)) return error;
  return give_info(info, copy);
}

}  // extern "C"
