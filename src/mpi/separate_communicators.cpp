// SPDX-License-Identifier: Apache-2.0
#include "collective.hpp"
#include "group_tree.hpp"
#include "new_communicators.hpp"
#include "scratch.hpp"
#include "split_order.hpp"

#ifdef QUARRY_MPI_PROCESSES
namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// Whether the member with the wish `left` comes first. Members with equal keys keep their order.
[[nodiscard]] QUARRY_HD bool is_before(wish const* wishes, std::uint32_t left,
                                       std::uint32_t right) {
  return wishes[left].key != wishes[right].key ? wishes[left].key < wishes[right].key
                                               : left < right;
}

/// Sorts the numbers of members by their wishes.
QUARRY_SLOW void sort(std::uint32_t* numbers, std::uint32_t count, wish const* wishes) {
  for (std::uint32_t gap = count / 2; gap > 0; gap /= 2)
    for (std::uint32_t i = gap; i < count; ++i)
      for (std::uint32_t k = i; k >= gap && is_before(wishes, numbers[k], numbers[k - gap]);
           k -= gap) {
        std::uint32_t const moved = numbers[k];
        numbers[k] = numbers[k - gap];
        numbers[k - gap] = moved;
      }
}

/// The members of the caller's color, in their order; null if the heap has no memory. `new_rank` is
/// the caller's.
[[nodiscard]] QUARRY_SLOW communicator* part_of(rank_state& rank, wish const* wishes,
                                                std::uint32_t size, wish const& own,
                                                std::uint32_t context, std::uint32_t& new_rank) {
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < size; ++i)
    if (wishes[i].color == own.color) ++count;
  communicator* const made = new_communicator(count, count, 1, context, false);
  if (made == nullptr) return nullptr;
  std::uint32_t next = 0;
  for (std::uint32_t i = 0; i < size; ++i)
    if (wishes[i].color == own.color) made->members[next++] = i;
  sort(made->members, count, wishes);
  for (std::uint32_t i = 0; i < count; ++i) {
    made->members[i] = wishes[made->members[i]].rank;
    if (made->members[i] == rank.rank) new_rank = i;
  }
  return made;
}

/// The first of two new contexts, which the first member draws; 0 if all are in use. All members
/// call it.
[[nodiscard]] QUARRY_SLOW std::uint32_t context_of_first(rank_state& rank, membership& among,
                                                         call which) {
  std::uint32_t context = among.rank == 0 ? new_contexts() : 0;
  broadcast_bytes(rank, among, &context, sizeof(context), 0, which);
  return context;
}

}  // namespace

/// The first member collects all wishes and sends them to all members, so that each of n members
/// needs 12 n bytes for the time of the call. Members of different colors share a context: no rank
/// has two of the parts.
QUARRY_SLOW int split_members(rank_state& rank, MPI_Comm handle, int color, int key, MPI_Comm* part,
                              call which, char const* function) {
  membership& among = *member(rank, handle);
  wish const own{color, key, rank.rank};
  MPI_Errhandler const handler = among.handler;
  std::uint32_t const size = among.size;
  std::uint32_t const context = context_of_first(rank, among, which);
  communicator* made = nullptr;
  std::uint32_t new_rank = 0;
  {
    bytes const of_all = size * sizeof(wish);
    scratch const memory{rank, of_all};
    auto* const wishes = reinterpret_cast<wish*>(memory.data());
    {
      collective const of{rank, among, which};
      if (of.own != 0) of.send(&own, sizeof(own), 0);
      wishes[of.own] = own;
      for (std::uint32_t from = 1; of.own == 0 && from < size; ++from)
        of.receive(&wishes[from], sizeof(wish), from);
    }
    broadcast_bytes(rank, among, wishes, of_all, 0, which);
    if (own.color != MPI_UNDEFINED) made = part_of(rank, wishes, size, own, context, new_rank);
  }
  *part = MPI_COMM_NULL;
  if (own.color == MPI_UNDEFINED && context != 0) return MPI_SUCCESS;
  if (made != nullptr && join(rank, made, new_rank, handler, part) != nullptr) return MPI_SUCCESS;
  return fail(rank, handle, MPI_ERR_NO_MEM, function, "size", size);
}

QUARRY_SLOW communicator* copy_of_members(rank_state& rank, membership& at) {
  std::uint32_t const context = context_of_first(rank, at, call::comm_dup);
  return copy_of(*at.shared, context);
}

QUARRY_SLOW communicator* communicator_of(rank_state& rank, group& members, std::uint32_t own,
                                          int tag) {
  std::uint32_t context = own == 0 ? new_contexts() : 0;
  group_tree const tree{rank, members, own, tag};
  tree.broadcast(&context, sizeof(context));
  communicator* const made = new_communicator(members.size, members.size, 1, context, false);
  for (std::uint32_t i = 0; made != nullptr && i < members.size; ++i)
    made->members[i] = members.world_rank(i);
  return made;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
#endif
