// SPDX-License-Identifier: Apache-2.0
// Copies of communicators without waiting for the other ranks: the first rank to ask makes the
// copy, the others find it.
#include "requests.hpp"
#include "shared_once.hpp"
#include "splitting.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// A copy that not all ranks have got yet.
struct immediate_copy {
  /// Of the copies whose numbers have this place, 4 * n: the n-th is to be made; 4 * n + 1: a rank
  /// makes it; 4 * n + 2: it is made. Atomic.
  std::uint64_t state;
  communicator* made;   // null if the heap had no memory
  std::uint32_t taken;  // atomic: how many ranks have it
};

/// In a communicator. A rank waits if it is so many copies ahead of another rank.
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

/// The communicator's copy with this number, the same for all ranks; null if the heap had no
/// memory.
[[nodiscard]] QUARRY_SLOW communicator* take_copy(rank_state& rank, communicator& shared,
                                                  immediate_copies& all, std::uint64_t number) {
  immediate_copy& place = all.of[number % immediate_copies::places];
  std::uint64_t const turn = 4 * (number / immediate_copies::places);
  simt::atomic_ref<std::uint64_t> const state{place.state};
  for (std::uint64_t seen = turn;;) {
    if (seen == turn && state.compare_exchange(seen, turn + 1, simt::acq_rel)) {  // (C)
      place.made = copy_of(shared, new_contexts());
      state.store(turn + 2, copy_made_order);  // (M)
      note_activity();
      break;
    }
    wait_until(rank, reason_of(call::comm_dup, MPI_PROC_NULL, 0, shared.context + 1), [&] {
      seen = state.load(copy_seen_order);  // (S)
      return seen == turn || seen == turn + 2;
    });
    if (seen == turn + 2) break;
  }
  communicator* const made = place.made;
  simt::atomic_ref<std::uint32_t> const taken{place.taken};
  if (taken.fetch_add(1, copy_taken_order) + 1 == shared.size) {  // (T)
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
  if (is_intercommunicator(*at)) return MPI_Comm_dup(handle, copy);
  std::uint32_t const own = at->rank;
  communicator& shared = *at->shared;
  membership_extra* const extra = make_extra(rank, *at);
  immediate_copies* const all = extra == nullptr ? nullptr : shared_once(shared.copies);
  communicator* const made =
      all == nullptr ? nullptr : take_copy(rank, shared, *all, extra->copies++);
  if (made == nullptr || join(rank, made, own, at->handler, copy) == nullptr)
    return fail(rank, handle, MPI_ERR_NO_MEM, function, "size", shared.size);
  return copy_attached(rank, handle, copy, function);
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

/// The request is complete at once. The copy of an intercommunicator waits for the other ranks.
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
