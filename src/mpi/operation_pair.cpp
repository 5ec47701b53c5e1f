// SPDX-License-Identifier: Apache-2.0
#include "operation_pair.hpp"

#include <cstddef>
#include <new>

namespace quarry::inline QUARRY_ABI::mpi {

static_assert(offsetof(operation_pair, outgoing) ==
              offsetof(operation_pair, send) + sizeof(request));  // `message_of`

QUARRY_SLOW request* new_pair(rank_state& rank, MPI_Comm handle, membership& at,
                              operation_pair::arguments const& sent,
                              operation_pair::arguments const& received, mode how,
                              MPI_Request* result) {
  void* const memory = wait_for_memory(rank, reason_of(call::memory),
                                       [] { return allocate(sizeof(operation_pair)); });
  auto& made = *::new (memory) operation_pair{};
  made.sent = sent;
  made.received = received;
  made.how = how;
  made.at = at;
  made.at.shared = &made.peers;
  made.peers.size = ~std::uint32_t{0};
  made.peers.context = at.context;
  if (sent.exists != 0) {
    retain_type(rank, sent.type);
    if (sent.peer != MPI_PROC_NULL)
      made.sent.peer = static_cast<std::int32_t>(
          at.shared->world_rank(static_cast<std::uint32_t>(sent.peer), rank.rank));
  }
  if (received.exists != 0) retain_type(rank, received.type);
  request* const owner = new_request(rank, result);
  owner->what = request::kind::pair;
  owner->data = &made;
  owner->communicator = handle;
  owner->count = static_cast<std::uint64_t>(received.exists != 0 ? received.count : sent.count);
  owner->context = at.context;
  return owner;
}

QUARRY_SLOW void start_pair(rank_state& rank, request& pair, call which) {
  start_pair_by(rank, pair, [&](operation_pair& begun, message& own) {
    operation_pair::arguments const& made = begun.sent;
    return start_send(rank, {&begun.at, begun.at.context}, made.data,
                      static_cast<bytes>(made.count), made.type, made.peer, made.tag, begun.how,
                      which, own);
  });
}

QUARRY_SLOW int new_exchange(operation_pair::arguments const& sent,
                             operation_pair::arguments const& received, MPI_Comm handle,
                             char const* function, MPI_Request* result, request*& made) {
  rank_state& rank = self();
  membership* at = nullptr;
  if (int const error = check_message(rank, handle, sent.count, sent.type, sent.peer, sent.tag,
                                      false, function, at))
    return error;
  if (int const error = check_message(rank, handle, received.count, received.type, received.peer,
                                      received.tag, true, function, at))
    return error;
  made = new_pair(rank, handle, *at, sent, received, mode::standard, result);
  return MPI_SUCCESS;
}

QUARRY_SLOW int new_replacement(void* data, int count, MPI_Datatype type, int to, int sent_tag,
                                int from, int received_tag, MPI_Comm handle, char const* function,
                                MPI_Request* result, request*& made) {
  rank_state& rank = self();
  membership* at = nullptr;
  if (int const error = check_message(rank, handle, count, type, to, sent_tag, false, function, at))
    return error;
  if (int const error =
          check_message(rank, handle, count, type, from, received_tag, true, function, at))
    return error;
  bytes const size = static_cast<bytes>(count) * element_size(rank, type);
  char* const packed = wait_for_memory(rank, reason_of(call::isendrecv),
                                       [&] { return static_cast<char*>(allocate(size + 1)); });
  pack(rank, packed, data, static_cast<bytes>(count), type);
  made = new_pair(rank, handle, *at,
                  {packed, static_cast<std::int64_t>(size), MPI_BYTE, to, sent_tag, 1},
                  {data, count, type, from, received_tag, 1}, mode::standard, result);
  operation_pair::of(*made).copy = packed;
  return MPI_SUCCESS;
}

QUARRY_SLOW bool is_pair_complete(request& pair) {
  if (pair.is_done != 0) return true;
  operation_pair& begun = operation_pair::of(pair);
  if (begun.received.exists != 0 && begun.receive.is_done == 0) return false;
  if (begun.sent.exists != 0 && !is_message_complete(begun.send)) return false;
  pair.is_done = begun.send.is_done;
  if (begun.received.exists == 0) return true;
  request const& receive = begun.receive;
  pair.source = receive.source;
  pair.tag = receive.tag;
  pair.size = receive.size;
  pair.error = receive.error;
  pair.is_done = receive.is_done;
  return true;
}

QUARRY_SLOW void delete_pair(rank_state& rank, request& pair) {
  operation_pair& done = operation_pair::of(pair);
  if (done.sent.exists != 0) release_type(rank, done.sent.type);
  if (done.received.exists != 0) release_type(rank, done.received.type);
  if (done.copy != nullptr) release(done.copy);
  release(&done);
}

}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Isendrecv(void const* sent, int sent_count, MPI_Datatype sent_type, int to,
                            int sent_tag, void* received, int received_count,
                            MPI_Datatype received_type, int from, int received_tag,
                            MPI_Comm communicator, MPI_Request* request) {
  quarry::mpi::request* made = nullptr;
  if (int const error =
          new_exchange({const_cast<void*>(sent), sent_count, sent_type, to, sent_tag, 1},
                       {received, received_count, received_type, from, received_tag, 1},
                       communicator, "MPI_Isendrecv", request, made))
    return error;
  start_pair(self(), *made, call::isendrecv);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Isendrecv_replace(void* data, int count, MPI_Datatype type, int to, int sent_tag,
                                    int from, int received_tag, MPI_Comm communicator,
                                    MPI_Request* request) {
  quarry::mpi::request* made = nullptr;
  if (int const error = new_replacement(data, count, type, to, sent_tag, from, received_tag,
                                        communicator, "MPI_Isendrecv_replace", request, made))
    return error;
  start_pair(self(), *made, call::isendrecv);
  return MPI_SUCCESS;
}

}  // extern "C"
