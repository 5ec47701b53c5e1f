// SPDX-License-Identifier: Apache-2.0
#include "split_by_messages.hpp"

#include "scratch.hpp"
#include "splitting.hpp"

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

}  // namespace

QUARRY_SLOW std::uint32_t context_of_first(rank_state& rank, membership& among, call which) {
  std::uint32_t context = among.rank == 0 ? new_contexts() : 0;
  broadcast_bytes(rank, among, &context, sizeof(context), 0, which);
  return context;
}

QUARRY_SLOW int split_by_messages(rank_state& rank, MPI_Comm handle, wish const& own,
                                  MPI_Comm* part, call which, char const* function) {
  membership& among = *member(rank, handle);
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

}  // namespace quarry::inline QUARRY_ABI::mpi
#endif
