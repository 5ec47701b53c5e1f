// SPDX-License-Identifier: Apache-2.0
// Copies of communicators without waiting for the other ranks: the first rank to ask makes the
// copy, the others find it.
#include "requests.hpp"
#include "splitting.hpp"

#include <new>

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
struct immediate_copies {
  static constexpr std::uint32_t places = 64;
  immediate_copy of[places];
};

namespace {

/// The communicator's ring, which the first rank makes; null if the heap has no memory.
[[nodiscard]] QUARRY_SLOW immediate_copies* ring_of(communicator& shared) {
  simt::atomic_ref<immediate_copies*> const ring{shared.copies};
  immediate_copies* all = ring.load(simt::acquire);
  if (all != nullptr) return all;
  void* const memory = allocate(sizeof(immediate_copies));
  if (memory == nullptr) return nullptr;
  auto* const made = ::new (memory) immediate_copies{};
  if (ring.compare_exchange(all, made, simt::acq_rel)) return made;
  release(made);
  return ring.load(simt::acquire);  // another rank's
}

/// The communicator's copy with this number, the same for all ranks; null if the heap had no
/// memory.
[[nodiscard]] QUARRY_SLOW communicator* take_copy(rank_state& rank, communicator& shared,
                                                  immediate_copies& all, std::uint64_t number) {
  immediate_copy& place = all.of[number % immediate_copies::places];
  std::uint64_t const turn = 4 * (number / immediate_copies::places);
  simt::atomic_ref<std::uint64_t> const state{place.state};
  for (std::uint64_t seen = turn;;) {
    if (seen == turn && state.compare_exchange(seen, turn + 1, simt::acq_rel)) {
      place.made = copy_of(shared, rank.rank, new_contexts());
      state.store(turn + 2, simt::release);  // (M)
      note_activity();
      break;
    }
    poll_until(rank, reason_of(call::comm_dup, MPI_PROC_NULL, 0, shared.context + 1), [&] {
      if (reader_of(rank).has_message()) progress(rank);
      seen =
          state.load(simt::acquire);  // synchronizes with (M) and (F); a failed exchange does not
      return seen == turn || seen == turn + 2;
    });
    if (seen == turn + 2) break;
  }
  communicator* const made = place.made;
  // acq_rel: the last rank changes the place after the others have read it
  if (simt::atomic_ref<std::uint32_t>{place.taken}.fetch_add(1, simt::acq_rel) + 1 == shared.size) {
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
  immediate_copies* const all = extra == nullptr ? nullptr : ring_of(shared);
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
