// SPDX-License-Identifier: Apache-2.0
#include "scheduled_collective.hpp"

#include "reduction.hpp"

#include <new>

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// The bits of a schedule's tags: that it is one, that MPI_Start begins it, and the number of the
/// operation. Messages of an operation of neighbours also have a direction. An operation may be in
/// progress while the program begins and completes others on its communicator, so the number should
/// wrap late: at 2^28, among neighbours at 2^21.
constexpr std::int32_t schedule_tag = 1 << 30;
constexpr std::int32_t persistent_tag = 1 << 29;
constexpr std::uint32_t number_bits = 28;
constexpr std::uint32_t direction_bits = 7;
/// In a communicator of two groups: the message stays in its group.
constexpr std::int32_t local_tag = 1 << number_bits;
/// In another one: the operation is one of neighbours.
constexpr std::int32_t neighbour_tag = 1 << number_bits;

/// The bits of the operation's number.
[[nodiscard]] QUARRY_HD std::int32_t number_tag(operation what, std::uint32_t number) {
  if (!is_among_neighbours(what))
    return static_cast<std::int32_t>(number & ((1u << number_bits) - 1));
  std::uint32_t const mask = (1u << (number_bits - direction_bits)) - 1;
  return neighbour_tag | static_cast<std::int32_t>((number & mask) << direction_bits);
}

}  // namespace

QUARRY_SLOW used_parts parts_of(collective_call const& wanted, collective_peers const& peers) {
  bool const is_root = peers.is_root(wanted.root);
  bool const is_outside = peers.has_two_groups && wanted.root == MPI_PROC_NULL;
  bool const is_elsewhere = peers.has_two_groups && is_root;  // the other group has the parts
  switch (wanted.what) {
    case operation::barrier:
      return {0, 0};
    case operation::bcast:
      return {0, is_outside ? 0u : 1u};
    case operation::reduce:
      return {0, is_outside ? 0u : 1u};
    case operation::gather:
    case operation::gatherv:
      if (is_outside) return {0, 0};
      return {is_elsewhere ? 0u : 1u, is_root ? peers.remote.size : 0};
    case operation::scatter:
    case operation::scatterv:
      if (is_outside) return {0, 0};
      return {is_root ? peers.remote.size : 0, is_elsewhere ? 0u : 1u};
    case operation::allgather:
    case operation::allgatherv:
      return {1, peers.remote.size};
    case operation::alltoall:
    case operation::alltoallv:
    case operation::alltoallw:
      return {peers.remote.size, peers.remote.size};
    case operation::reduce_scatter:
    case operation::reduce_scatter_block:
      return {0, peers.local.size};
    case operation::neighbor_allgather:
    case operation::neighbor_allgatherv:
      return {1, static_cast<std::uint32_t>(peers.near.sources)};
    case operation::neighbor_alltoall:
    case operation::neighbor_alltoallv:
    case operation::neighbor_alltoallw:
      return {static_cast<std::uint32_t>(peers.near.targets),
              static_cast<std::uint32_t>(peers.near.sources)};
    default:
      return {0, 1};
  }
}

QUARRY_SLOW collective_peers peers_of(rank_state& rank, membership& at, operation what) {
  collective_peers result{};
  result.remote = {at.shared, at.size, at.rank, 0};
  result.local = result.remote;
  result.has_two_groups = is_intercommunicator(at);
  if (result.has_two_groups) {
    membership const& own = own_group(rank, at);
    result.local = {own.shared, own.size, own.rank, 0};
  }
  if (is_among_neighbours(what)) result.near = neighbours_of(rank, at);
  return result;
}

namespace {

QUARRY_SLOW int check_buffer(rank_state& rank, MPI_Comm handle, part_buffer const& buffer,
                             std::uint32_t parts, char const* function) {
  if (parts == 0 || buffer.is_in_place()) return MPI_SUCCESS;
  std::uint32_t const counts = buffer.counts == nullptr ? 1 : parts;
  for (std::uint32_t i = 0; i < counts; ++i)
    if (buffer.count_of(i) < 0)
      return fail(rank, handle, MPI_ERR_COUNT, function, "count", buffer.count_of(i));
  std::uint32_t const types = buffer.types == nullptr ? 1 : parts;
  for (std::uint32_t i = 0; i < types; ++i)
    if (!is_type(rank, buffer.type_of(i)))
      return fail(rank, handle, MPI_ERR_TYPE, function, "datatype", buffer.type_of(i));
  return MPI_SUCCESS;
}

QUARRY_SLOW int check_call(rank_state& rank, MPI_Comm handle, collective_call const& wanted,
                           collective_peers const& peers, char const* function) {
  bool const is_for_one_group = wanted.what == operation::scan ||
                                wanted.what == operation::exscan ||
                                is_among_neighbours(wanted.what);
  if (peers.has_two_groups && is_for_one_group)
    return fail(rank, handle, MPI_ERR_COMM, function, "communicator", handle);
  if (is_among_neighbours(wanted.what) && !peers.near.is_known)
    return fail(rank, handle, MPI_ERR_TOPOLOGY, function, "communicator", handle);
  bool const is_special =
      peers.has_two_groups && (wanted.root == MPI_ROOT || wanted.root == MPI_PROC_NULL);
  if (!is_special &&
      (wanted.root < 0 || static_cast<std::uint32_t>(wanted.root) >= peers.remote.size))
    return fail(rank, handle, MPI_ERR_ROOT, function, "root", wanted.root);
  used_parts const parts = parts_of(wanted, peers);
  if (int const error = check_buffer(rank, handle, wanted.sent, parts.sent, function)) return error;
  if (int const error = check_buffer(rank, handle, wanted.received, parts.received, function))
    return error;
  if (reduces(wanted.what) && parts.received != 0 &&
      !is_reducible(rank, wanted.op, wanted.received.type))
    return fail(rank, handle, MPI_ERR_OP, function, "operation", wanted.op);
  return MPI_SUCCESS;
}

/// Makes the schedule; null if the heap has no memory.
[[nodiscard]] QUARRY_SLOW schedule* make_schedule(rank_state& rank, collective_call const& wanted,
                                                  form how, membership& at,
                                                  collective_peers peers) {
  void* const memory = allocate(sizeof(schedule));
  if (memory == nullptr) return nullptr;
  auto* const made = ::new (memory) schedule{};
  made->at.rank = at.rank;
  made->at.context = at.context;
  made->peers.context = at.context;
  made->at.shared = &made->peers;
  made->what = wanted.what;
  made->how = how;
  made->op = wanted.op;
  retain_op(rank, wanted.op);
  peers.remote.tag = schedule_tag | (how == form::persistent ? persistent_tag : 0) |
                     number_tag(wanted.what, at.collectives);
  peers.local.tag = peers.remote.tag | (peers.has_two_groups ? local_tag : 0);
  schedule_builder builder{rank, *made};
  add_steps(builder, rank, wanted, peers);
  // Neighbours may be any ranks, so that all receives must begin.
  std::uint32_t const most =
      is_among_neighbours(wanted.what) ? ~std::uint32_t{0} : most_scheduled_messages;
  if (!builder.finish(most)) {
    delete_schedule(rank, made);
    return nullptr;
  }
  ++at.collectives;
  return made;
}

/// Gives the schedule to a new request.
QUARRY_SLOW void give_to_request(rank_state& rank, schedule& made, MPI_Comm communicator,
                                 MPI_Request* handle) {
  request* const owner = new_request(rank, handle);
  owner->what = request::kind::collective;
  owner->data = &made;
  owner->communicator = communicator;
  owner->source = MPI_ANY_SOURCE;  // an empty status
  owner->tag = MPI_ANY_TAG;
  owner->error = made.error;
  owner->is_done = made.is_done;
  made.owner = owner;
}

/// Begins the schedule, and gives it to a new request unless it is done.
QUARRY_SLOW void begin_schedule(rank_state& rank, schedule& made, MPI_Comm communicator,
                                MPI_Request* handle) {
  start_schedule(rank, made);
  if (made.is_done == 0 || made.error != MPI_SUCCESS)
    return give_to_request(rank, made, communicator, handle);
  delete_schedule(rank, &made);
  *handle = sent_request;
}

/// Checks the call and makes its schedule. Returns an MPI error code, which was reported. A
/// function of its own, so that its memory is not in use while the rank waits.
QUARRY_SLOW int prepare(rank_state& rank, collective_call const& wanted, form how,
                        MPI_Comm communicator, char const* function, schedule*& made) {
  membership* const at = member(rank, communicator);
  if (at == nullptr)
    return fail(rank, communicator, MPI_ERR_COMM, function, "communicator", communicator);
  collective_peers const peers = peers_of(rank, *at, wanted.what);
  if (int const error = check_call(rank, communicator, wanted, peers, function)) return error;
  made = make_schedule(rank, wanted, how, *at, peers);
  return made != nullptr ? MPI_SUCCESS
                         : fail(rank, communicator, MPI_ERR_NO_MEM, function, "size", at->size);
}

/// Runs a schedule to its end. Returns the first error.
QUARRY_SLOW int run_to_end(rank_state& rank, schedule& made) {
  start_schedule(rank, made);
  wait_until(rank, reason_of(made), [&] { return made.is_done != 0; });
  std::int32_t const error = made.error;
  delete_schedule(rank, &made);
  return error;
}

}  // namespace

QUARRY_SLOW int run_scheduled(collective_call const& wanted, form how, MPI_Comm communicator,
                              MPI_Request* handle, char const* function) {
  rank_state& rank = self();
  schedule* made = nullptr;
  int error = prepare(rank, wanted, how, communicator, function, made);
  if (error != MPI_SUCCESS) return error;
  switch (how) {
    case form::persistent:
      give_to_request(rank, *made, communicator, handle);
      made->owner->is_persistent = 1;
      made->owner->is_active = 0;
      return MPI_SUCCESS;
    case form::nonblocking:
      begin_schedule(rank, *made, communicator, handle);
      return MPI_SUCCESS;
    default:
      break;
  }
  error = run_to_end(rank, *made);
  return error == MPI_SUCCESS ? MPI_SUCCESS
                              : fail(rank, communicator, error, function, "rank",
                                     static_cast<std::int64_t>(member(rank, communicator)->rank));
}

}  // namespace quarry::inline QUARRY_ABI::mpi
