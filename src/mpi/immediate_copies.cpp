// SPDX-License-Identifier: Apache-2.0
// Copies of communicators without waiting for the other ranks: the first rank to ask makes the
// copy, the others find it.
#include "copy_bytes.hpp"
#include "message_parts.hpp"
#include "requests.hpp"
#include "shared_once.hpp"
#include "splitting.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// A copy that not all ranks have got yet.
struct immediate_copy {
  /// Of the copies whose numbers have this place, 4 * n: the n-th is to be made; 4 * n + 1: a rank
  /// makes it; 4 * n + 2: it is made. Atomic.
  std::uint64_t state;
  communicator* made[2];  // for the two groups; of one group, the first; null if the heap was full
  std::uint32_t taken;    // atomic: how many ranks have it
};

/// In a communicator, or in the pair of groups of an intercommunicator. A rank waits if it is so
/// many copies ahead of another rank.
///
/// Memory order. (M) releases the copy to those that see it (S). The last rank to take it (T) sees
/// that the others have read the place, and frees the place for the next copy (F), whose maker
/// acquires it by (S), or by the exchange that claims the place (C). No test can relax (F) and (C):
/// the maker's allocation in the heap orders as much.
struct immediate_copies {
  static constexpr std::uint32_t places = 64;
  immediate_copy of[places];
};

namespace {

/// Which ranks copy a communicator.
struct copying_ranks {
  communicator* shared;
  std::uint32_t count;     // of all groups
  std::uint32_t is_first;  // of an intercommunicator: the group whose first rank is lower

  QUARRY_SLOW copying_ranks(communicator& copied, std::uint32_t own)
      : shared{&copied}, count{copied.size}, is_first{1} {
    if (copied.local == nullptr) return;
    count += copied.local->size;
    is_first = copied.local->world_rank(0, own) < copied.members[0] ? 1 : 0;
  }
};

/// Makes the halves of a copy: that of the first group in `made[0]`. Both are null if the heap has
/// no memory. The other group's object may be freed, so this reads the caller's half alone.
QUARRY_SLOW void copy_halves(rank_state& rank, copying_ranks const& of, communicator** made) {
  std::uint32_t const size = of.shared->size;
  communicator* const own = copy_of(*of.shared->local, new_contexts());
  communicator* const other = new_communicator(size, size, size, new_contexts(), true);
  if (other != nullptr)
    copy_bytes(other->members, of.shared->members, size * sizeof(std::uint32_t));
  auto const [half, other_half] = new_halves(own, rank.rank, other, of.shared->members[0]);
  if (half == nullptr) {
    discard(own);
    discard(other);
  }
  made[of.is_first != 0 ? 0 : 1] = half;
  made[of.is_first != 0 ? 1 : 0] = other_half;
}

/// The communicator's copy with this number, the same for all ranks of a group; null if the heap
/// had no memory.
[[nodiscard]] QUARRY_SLOW communicator* take_copy(rank_state& rank, copying_ranks const& of,
                                                  immediate_copies& all, std::uint64_t number) {
  immediate_copy& place = all.of[number % immediate_copies::places];
  std::uint64_t const turn = 4 * (number / immediate_copies::places);
  simt::atomic_ref<std::uint64_t> const state{place.state};
  for (std::uint64_t seen = turn;;) {
    if (seen == turn && state.compare_exchange(seen, turn + 1, simt::acq_rel)) {  // (C)
      if (of.shared->local == nullptr)
        place.made[0] = copy_of(*of.shared, new_contexts());
      else
        copy_halves(rank, of, place.made);
      state.store(turn + 2, copy_made_order);  // (M)
      note_activity();
      break;
    }
    wait_until(rank, reason_of(call::comm_dup, MPI_PROC_NULL, 0, of.shared->context + 1), [&] {
      seen = state.load(copy_seen_order);  // (S)
      return seen == turn || seen == turn + 2;
    });
    if (seen == turn + 2) break;
  }
  communicator* const made = place.made[of.is_first != 0 ? 0 : 1];
  simt::atomic_ref<std::uint32_t> const taken{place.taken};
  if (taken.fetch_add(1, copy_taken_order) + 1 == of.count) {  // (T)
    place.taken = 0;
    state.store(turn + 4, simt::release);  // (F)
    note_activity();
  }
  return made;
}

QUARRY_SLOW int copy_at_once(rank_state& rank, MPI_Comm handle, MPI_Comm* copy,
                             char const* function) {
  membership* const at = member(rank, handle);
  if (at == nullptr) return fail(rank, handle, MPI_ERR_COMM, function, "communicator", handle);
  if constexpr (spans_processes) return fail_across_processes(rank, handle, function);
  std::uint32_t const own = at->rank;
  communicator& shared = *at->shared;
  membership_extra* const extra = make_extra(rank, *at);
  immediate_copies* const all =
      extra == nullptr ? nullptr
                       : shared_once(shared.pair == nullptr ? shared.copies : shared.pair->copies);
  communicator* const made =
      all == nullptr ? nullptr : take_copy(rank, {shared, rank.rank}, *all, extra->copies++);
  if (made == nullptr || join(rank, made, own, at->handler, copy) == nullptr)
    return fail(rank, handle, MPI_ERR_NO_MEM, function, "size", shared.size);
  return copy_attached(rank, handle, copy, function);
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

/// The request is complete at once.
QUARRY_HD int MPI_Comm_idup(MPI_Comm communicator, MPI_Comm* copy, MPI_Request* request) {
  if (int const error = copy_at_once(self(), communicator, copy, "MPI_Comm_idup")) return error;
  *request = sent_request;
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Comm_idup_with_info(MPI_Comm communicator, MPI_Info info, MPI_Comm* copy,
                                      MPI_Request* request) {
  if (int const error = copy_at_once(self(), communicator, copy, "MPI_Comm_idup_with_info"))
    return error;
  *request = sent_request;
  return give_info(info, copy);
}

}  // extern "C"
