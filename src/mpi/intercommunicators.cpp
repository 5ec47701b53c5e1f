// SPDX-License-Identifier: Apache-2.0
// Communicators whose ranks send to another group.
#include "groups.hpp"
#include "message_parts.hpp"
#include "scratch.hpp"
#include "splitting.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// Whether two communicators have a common member. `own` and `other` are the leaders' numbers in
/// the world.
QUARRY_SLOW bool overlap(rank_state& rank, communicator const& left, std::uint32_t own,
                         communicator const& right, std::uint32_t other) {
  bytes const size = bytes{layout().size} / 8 + 1;
  scratch const seen{rank, size};
  for (bytes i = 0; i < size; ++i) seen.data()[i] = 0;
  for (std::uint32_t i = 0; i < left.size; ++i) {
    std::uint32_t const world = left.world_rank(i, own);
    seen.data()[world / 8] = static_cast<char>(seen.data()[world / 8] | 1 << world % 8);
  }
  for (std::uint32_t i = 0; i < right.size; ++i) {
    std::uint32_t const world = right.world_rank(i, other);
    if ((seen.data()[world / 8] >> world % 8 & 1) != 0) return true;
  }
  return false;
}

/// What the leaders' work has given: a communicator, or an error.
struct creation {
  communicator* made = nullptr;
  std::int64_t error = MPI_SUCCESS;
  std::uint64_t first_is_other = 0;  // MPI_Intercomm_merge: the other group has the lower ranks
};

/// The leaders' part of MPI_Intercomm_create.
QUARRY_SLOW creation create_as_leader(bridge const& across, membership const& local) {
  communicator const* const other = across.exchange(
      const_cast<communicator const*>(local.shared));  // it lives until the next exchange
  std::uint64_t const is_refused =
      overlap(across.rank, *local.shared, across.rank.rank, *other, across.world_leader) ? 1 : 0;
  (void)across.exchange(is_refused);  // both leaders find the same
  if (is_refused != 0) return {nullptr, MPI_ERR_COMM};
  communicator* const made = join_groups(across, copy_of(*local.shared, new_contexts()));
  return {made, made == nullptr ? MPI_ERR_NO_MEM : MPI_SUCCESS};
}

/// The leaders' part of MPI_Intercomm_merge.
QUARRY_SLOW creation merge_as_leader(bridge const& across, membership const& at, bool is_high) {
  std::uint64_t const other_is_high = across.exchange(std::uint64_t{is_high ? 1u : 0u});
  bool const is_first = (other_is_high != 0) == is_high ? across.is_first() : other_is_high != 0;
  communicator const& own = *at.shared->local;
  communicator const& other = *at.shared;
  communicator* made = nullptr;
  if (is_first) {
    std::uint32_t const size = own.size + other.size;
    made = new_communicator(size, size, size, new_contexts(), true);
    if (made != nullptr) {
      for (std::uint32_t i = 0; i < own.size; ++i)
        made->members[i] = own.world_rank(i, across.rank.rank);
      for (std::uint32_t i = 0; i < other.size; ++i) made->members[own.size + i] = other.members[i];
    }
  }
  communicator* const got = across.exchange(made);
  if (!is_first) made = got;
  return {made, made == nullptr ? MPI_ERR_NO_MEM : MPI_SUCCESS, is_first ? 0u : 1u};
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Comm_test_inter(MPI_Comm communicator, int* flag) {
  rank_state& rank = self();
  membership const* const at = member(rank, communicator);
  if (at == nullptr)
    return fail(rank, communicator, MPI_ERR_COMM, "MPI_Comm_test_inter", "communicator",
                communicator);
  *flag = is_intercommunicator(*at) ? 1 : 0;
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Comm_remote_size(MPI_Comm communicator, int* size) {
  rank_state& rank = self();
  membership const* const at = member(rank, communicator);
  if (at == nullptr || !is_intercommunicator(*at))
    return fail(rank, communicator, MPI_ERR_COMM, "MPI_Comm_remote_size", "intercommunicator",
                communicator);
  *size = static_cast<int>(at->size);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Intercomm_create(MPI_Comm local, int local_leader, MPI_Comm between,
                                   int remote_leader, int tag, MPI_Comm* result) {
  char const* const name = "MPI_Intercomm_create";
  constexpr call which = call::intercomm_create;
  rank_state& rank = self();
  if constexpr (spans_processes) return fail_across_processes(rank, local, name);
  membership* const at = member(rank, local);
  if (at == nullptr || is_intercommunicator(*at))
    return fail(rank, local, MPI_ERR_COMM, name, "local communicator", local);
  if (static_cast<std::uint32_t>(local_leader) >= at->size)
    return fail(rank, local, MPI_ERR_RANK, name, "local leader", local_leader);
  creation made;
  if (at->rank == static_cast<std::uint32_t>(local_leader)) {
    // A wrong argument of the leader alone: the other ranks of its group get the error too.
    membership* const peers = member(rank, between);
    if (peers == nullptr) {
      made.error = MPI_ERR_COMM;
    } else if (static_cast<std::uint32_t>(remote_leader) >= peers->size) {
      made.error = MPI_ERR_RANK;
    } else if (tag < 0) {
      made.error = MPI_ERR_TAG;
    } else {
      made = create_as_leader({rank,
                               {peers, peers->context + 1},
                               remote_leader,
                               tag_of(static_cast<std::uint32_t>(tag), which),
                               which},
                              *at);
    }
  }
  broadcast_bytes(rank, *at, &made, sizeof(made), static_cast<std::uint32_t>(local_leader), which);
  if (made.error != MPI_SUCCESS)
    return fail(rank, local, static_cast<int>(made.error), name, "remote leader", remote_leader);
  return join(rank, made.made, at->rank, at->handler, result) != nullptr
             ? MPI_SUCCESS
             : fail(rank, local, MPI_ERR_NO_MEM, name, "remote leader", remote_leader);
}

QUARRY_HD int MPI_Intercomm_merge(MPI_Comm communicator, int high, MPI_Comm* result) {
  char const* const name = "MPI_Intercomm_merge";
  constexpr call which = call::intercomm_merge;
  rank_state& rank = self();
  membership* const at = member(rank, communicator);
  if (at == nullptr || !is_intercommunicator(*at))
    return fail(rank, communicator, MPI_ERR_COMM, name, "intercommunicator", communicator);
  membership& among = own_group(rank, *at);
  MPI_Errhandler const handler = at->handler;
  std::uint32_t const own = among.rank, remote_size = at->size;
  creation made;
  {
    collective const across{rank, *at, which};  // all ranks count it
    if (own == 0) made = merge_as_leader({across, *at}, *at, high != 0);
  }
  broadcast_bytes(rank, among, &made, sizeof(made), 0, which);
  if (made.made == nullptr ||
      join(rank, made.made, made.first_is_other != 0 ? own + remote_size : own, handler, result) ==
          nullptr)
    return fail(rank, communicator, MPI_ERR_NO_MEM, name, "size", remote_size);
  return MPI_SUCCESS;
}

}  // extern "C"
