// SPDX-License-Identifier: Apache-2.0
// What programs ask of a communicator, its name, and its end.
#include "attributes.hpp"
#include "communicator_objects.hpp"
#include "format.hpp"
#include "information.hpp"
#include "operation_pair.hpp"
#include "requests.hpp"
#include "schedule.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// Compares two lists of the world's ranks: communicators' members. `own` is the caller.
QUARRY_SLOW int compare(communicator const& left, communicator const& right, std::uint32_t own) {
  if (&left == &right) return MPI_IDENT;
  if (left.size != right.size) return MPI_UNEQUAL;
  int result = MPI_CONGRUENT;
  for (std::uint32_t i = 0; i < left.size; ++i) {
    std::uint32_t const wanted = left.world_rank(i, own);
    if (wanted == right.world_rank(i, own)) continue;
    result = MPI_SIMILAR;
    bool is_member = false;
    for (std::uint32_t k = 0; k < right.size && !is_member; ++k)
      is_member = right.world_rank(k, own) == wanted;
    if (!is_member) return MPI_UNEQUAL;
  }
  return result;
}

/// Frees what few memberships have.
QUARRY_SLOW void free_extra(rank_state& rank, membership& at) {
  membership_extra* const extra = extra_of(rank, at);
  if (extra == nullptr) return;
  if (extra->neighbours != nullptr) release(extra->neighbours);
  if (extra->hints != nullptr) free_information(extra->hints);
  release(extra);
  free_entry(rank.extras, at.extra - 1);
  at.extra = 0;
}

/// Whether the rank has begun operations, or may begin some by MPI_Start, that receive messages
/// with the context or the next one.
[[nodiscard]] QUARRY_SLOW bool may_receive(rank_state& rank, std::uint32_t context) {
  for (request const* at = rank.posted_first; at != nullptr; at = at->next)
    if ((at->context | 1) == (context | 1)) return true;
  for (schedule const* at = rank.schedules; at != nullptr; at = at->next)
    if (at->at.context == context) return true;
  for (std::uint32_t i = 0; i < rank.requests.capacity; ++i) {
    request const* const kept = rank.requests.entries[i];
    if (kept == nullptr || kept->is_persistent == 0) continue;
    bool const is_pair = kept->what == request::kind::pair;
    if (is_pair && operation_pair::of(*kept).at.context == context) return true;
    if (kept->what == request::kind::collective && schedule_of(*kept).at.context == context)
      return true;
  }
  return false;
}

QUARRY_SLOW int free_communicator(MPI_Comm* handle, char const* function) {
  rank_state& rank = self();
  if (member(rank, *handle) == nullptr || *handle <= MPI_COMM_SELF)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_COMM, function, "communicator", *handle);
  if (int const error = delete_attributes(rank, attribute::owner::communicator, *handle))
    return fail(rank, *handle, error, function, "attributes of communicator", *handle);
  membership* const at = member(rank, *handle);  // after the program's functions
  communicator* const shared = at->shared;
  for (communicator* each = shared; each != nullptr; each = each->local)
    if (may_receive(rank, each->context))
      simt::atomic_ref<std::uint32_t>{each->keeps_contexts}.store(1, simt::relaxed);
  free_extra(rank, *at);
  at->shared = nullptr;
  keep_handler(rank, *handle, at->handler);
  release_handler(rank, at->handler);
  drop(shared);
  *handle = MPI_COMM_NULL;
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Comm_rank(MPI_Comm communicator, int* rank) {
  rank_state& caller = self();
  membership const* const at = member(caller, communicator);
  if (at == nullptr)
    return fail(caller, communicator, MPI_ERR_COMM, "MPI_Comm_rank", "communicator", communicator);
  *rank = static_cast<int>(at->rank);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Comm_size(MPI_Comm communicator, int* size) {
  rank_state& caller = self();
  membership const* const at = member(caller, communicator);
  if (at == nullptr)
    return fail(caller, communicator, MPI_ERR_COMM, "MPI_Comm_size", "communicator", communicator);
  *size = static_cast<int>(is_intercommunicator(*at) ? at->shared->local->size : at->size);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Comm_free(MPI_Comm* communicator) {
  return free_communicator(communicator, "MPI_Comm_free");
}
/// Messages of freed communicators arrive, so there is nothing to wait for.
QUARRY_HD int MPI_Comm_disconnect(MPI_Comm* communicator) {
  return free_communicator(communicator, "MPI_Comm_disconnect");
}

QUARRY_HD int MPI_Comm_compare(MPI_Comm first, MPI_Comm second, int* result) {
  rank_state& rank = self();
  membership const* const left = member(rank, first);
  membership const* const right = member(rank, second);
  if (left == nullptr || right == nullptr)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_COMM, "MPI_Comm_compare", "communicator",
                left == nullptr ? first : second);
  *result = MPI_UNEQUAL;
  if (is_intercommunicator(*left) != is_intercommunicator(*right)) return MPI_SUCCESS;
  *result = compare(*left->shared, *right->shared, rank.rank);
  if (!is_intercommunicator(*left) || *result == MPI_IDENT) return MPI_SUCCESS;
  int const local = compare(*left->shared->local, *right->shared->local, rank.rank);
  if (local > *result) *result = local;  // the constants are in this order
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Comm_set_name(MPI_Comm communicator, char const* name) {
  rank_state& rank = self();
  membership* const at = member(rank, communicator);
  if (at == nullptr)
    return fail(rank, communicator, MPI_ERR_COMM, "MPI_Comm_set_name", "communicator",
                communicator);
  membership_extra* const extra = make_extra(rank, *at);
  if (extra == nullptr)
    return fail(rank, communicator, MPI_ERR_NO_MEM, "MPI_Comm_set_name", "size",
                sizeof(membership_extra));
  text_buffer text{extra->name, MPI_MAX_OBJECT_NAME - 1};
  text.add(name);
  extra->name[text.length()] = 0;
  extra->is_named = 1;
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Comm_get_name(MPI_Comm communicator, char* name, int* length) {
  rank_state& rank = self();
  membership const* const at = member(rank, communicator);
  if (at == nullptr)
    return fail(rank, communicator, MPI_ERR_COMM, "MPI_Comm_get_name", "communicator",
                communicator);
  membership_extra const* const extra = extra_of(rank, *at);
  text_buffer text{name, MPI_MAX_OBJECT_NAME - 1};
  if (extra != nullptr && extra->is_named != 0) {
    text.add(extra->name);
  } else if (communicator <= MPI_COMM_SELF) {
    text.add(communicator == MPI_COMM_WORLD ? "MPI_COMM_WORLD" : "MPI_COMM_SELF");
  }
  name[text.length()] = 0;
  *length = static_cast<int>(text.length());
  return MPI_SUCCESS;
}

}  // extern "C"
