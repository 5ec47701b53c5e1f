// SPDX-License-Identifier: Apache-2.0
#include "splitting.hpp"

#include "attributes.hpp"
#include "groups.hpp"
#include "information.hpp"
#include "new_communicators.hpp"

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

QUARRY_SLOW int split(rank_state& rank, MPI_Comm handle, int color, int key, MPI_Comm* part,
                      call which, char const* function) {
  membership* const at = member(rank, handle);
  if (at == nullptr) return fail(rank, handle, MPI_ERR_COMM, function, "communicator", handle);
  if (color < 0 && color != MPI_UNDEFINED)
    return fail(rank, handle, MPI_ERR_ARG, function, "color", color);
  return split_members(rank, handle, color, key, part, which, function);
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
  membership const& among = own_group(rank, *at);
  communicator* const made = copy_of_members(rank, *at);
  if (made == nullptr || join(rank, made, among.rank, at->handler, copy) == nullptr)
    return fail(rank, handle, MPI_ERR_NO_MEM, function, "size", among.size);
  return MPI_SUCCESS;
}

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
  communicator* const made = communicator_of(rank, *members, own, tag);
  if (made == nullptr || join(rank, made, own, handler, result) == nullptr)
    return fail(rank, handle, MPI_ERR_NO_MEM, name, "size", members->size);
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
