// SPDX-License-Identifier: Apache-2.0
// MPI's messages and requests in programs that quarry-mpicc --check made.
#include "persistent_requests.hpp"
#include "scratch.hpp"
#include "signatures.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// The runtime's handles of the program's requests, for the time of a call.
class request_list {
 public:
  QUARRY_HD request_list(int count, MPI_Request* requests)
      : rank_{self()},
        count_{count < 0 ? 0 : count},
        requests_{requests},
        memory_{rank_, static_cast<bytes>(count_) * sizeof(MPI_Request)} {
    for (int i = 0; i < count_; ++i) handles()[i] = runtime_handle(rank_, requests_[i]);
  }
  [[nodiscard]] QUARRY_HD MPI_Request* handles() const {
    return reinterpret_cast<MPI_Request*>(memory_.data());
  }
  /// After the call, which has returned `error`.
  QUARRY_HD int finish(int error) const {
    compare_signatures(rank_);
    for (int i = 0; i < count_; ++i) note_ended(rank_, &requests_[i], handles()[i]);
    return error;
  }

 private:
  rank_state& rank_;
  int count_;
  MPI_Request* requests_;
  scratch memory_;
};

QUARRY_SLOW int check_send(void const* data, int count, MPI_Datatype type, int to, int tag,
                           MPI_Comm communicator, mode how, call which, char const* function) {
  check_buffer({data, count, type, to}, false);
  return send_signed(data, count, type, to, tag, communicator, how, which, function);
}

QUARRY_SLOW int check_isend(void const* data, int count, MPI_Datatype type, int to, int tag,
                            MPI_Comm communicator, mode how, MPI_Request* request,
                            char const* function) {
  checked_buffer const used{data, count, type, to};
  check_buffer(used, false);
  return note_begun(isend_signed(data, count, type, to, tag, communicator, how, request, function),
                    request, begun_operation::send, used);
}

[[nodiscard]] QUARRY_HD bytes elements(int count) {
  return static_cast<bytes>(count < 0 ? 0 : count);
}

/// Whether a buffered send has room in the attached buffer. If not, it is refused.
[[nodiscard]] QUARRY_SLOW bool fits_attached(int count, MPI_Datatype type) {
  return count >= 0 && fits_buffer(self(), elements(count), type);
}

/// Begins the messages of a persistent request, with the signature of what it sends.
struct signed_start {
  rank_state& rank;

  QUARRY_HD void operator()(request& asked) const {
    operation_pair::arguments const& sent = operation_pair::of(asked).sent;
    type_signature signature;
    if (sent.exists != 0) signature = signature_of(rank, static_cast<bytes>(sent.count), sent.type);
    start_signed_pair(rank, asked, call::start, signature);
  }
};

/// MPI_Startall for the program's requests.
QUARRY_SLOW int start_checked(int count, MPI_Request const* requests, MPI_Request const* handles,
                              char const* function) {
  rank_state& rank = self();
  for (int i = 0; i < count; ++i) check_start(rank, requests[i]);
  int const error = start_all(rank, count, handles, signed_start{rank}, function);
  for (int i = 0; i < count; ++i) note_started(rank, requests[i]);
  compare_signatures(rank);
  return error;
}

/// After a call that has received a message.
QUARRY_SLOW int end_receive(int error) {
  compare_signatures(self());
  return error;
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int quarry_check_MPI_Send(void const* data, int count, MPI_Datatype type, int to, int tag,
                                    MPI_Comm communicator) {
  return check_send(data, count, type, to, tag, communicator, mode::standard, call::send,
                    "MPI_Send");
}
QUARRY_HD int quarry_check_MPI_Ssend(void const* data, int count, MPI_Datatype type, int to,
                                     int tag, MPI_Comm communicator) {
  return check_send(data, count, type, to, tag, communicator, mode::synchronous, call::ssend,
                    "MPI_Ssend");
}
QUARRY_HD int quarry_check_MPI_Bsend(void const* data, int count, MPI_Datatype type, int to,
                                     int tag, MPI_Comm communicator) {
  if (fits_attached(count, type))
    return check_send(data, count, type, to, tag, communicator, mode::buffered, call::send,
                      "MPI_Bsend");
  check_buffer({data, count, type, to}, false);
  return MPI_Bsend(data, count, type, to, tag, communicator);
}
QUARRY_HD int quarry_check_MPI_Rsend(void const* data, int count, MPI_Datatype type, int to,
                                     int tag, MPI_Comm communicator) {
  return check_send(data, count, type, to, tag, communicator, mode::standard, call::send,
                    "MPI_Rsend");
}
QUARRY_HD int quarry_check_MPI_Isend(void const* data, int count, MPI_Datatype type, int to,
                                     int tag, MPI_Comm communicator, MPI_Request* request) {
  return check_isend(data, count, type, to, tag, communicator, mode::standard, request,
                     "MPI_Isend");
}
QUARRY_HD int quarry_check_MPI_Issend(void const* data, int count, MPI_Datatype type, int to,
                                      int tag, MPI_Comm communicator, MPI_Request* request) {
  return check_isend(data, count, type, to, tag, communicator, mode::synchronous, request,
                     "MPI_Issend");
}
QUARRY_HD int quarry_check_MPI_Ibsend(void const* data, int count, MPI_Datatype type, int to,
                                      int tag, MPI_Comm communicator, MPI_Request* request) {
  if (fits_attached(count, type))
    return check_isend(data, count, type, to, tag, communicator, mode::buffered, request,
                       "MPI_Ibsend");
  checked_buffer const used{data, count, type, to};
  check_buffer(used, false);
  return note_begun(MPI_Ibsend(data, count, type, to, tag, communicator, request), request,
                    begun_operation::send, used);
}
QUARRY_HD int quarry_check_MPI_Irsend(void const* data, int count, MPI_Datatype type, int to,
                                      int tag, MPI_Comm communicator, MPI_Request* request) {
  return check_isend(data, count, type, to, tag, communicator, mode::standard, request,
                     "MPI_Irsend");
}
QUARRY_HD int quarry_check_MPI_Recv(void* data, int count, MPI_Datatype type, int from, int tag,
                                    MPI_Comm communicator, MPI_Status* status) {
  check_buffer({data, count, type, from}, true);
  return end_receive(MPI_Recv(data, count, type, from, tag, communicator, status));
}
QUARRY_HD int quarry_check_MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag,
                                     MPI_Comm communicator, MPI_Request* request) {
  checked_buffer const used{data, count, type, from};
  check_buffer(used, true);
  return end_receive(note_begun(MPI_Irecv(data, count, type, from, tag, communicator, request),
                                request, begun_operation::receive, used));
}
QUARRY_HD int quarry_check_MPI_Mrecv(void* data, int count, MPI_Datatype type, MPI_Message* message,
                                     MPI_Status* status) {
  check_buffer({data, count, type}, true);
  return end_receive(MPI_Mrecv(data, count, type, message, status));
}
QUARRY_HD int quarry_check_MPI_Imrecv(void* data, int count, MPI_Datatype type,
                                      MPI_Message* message, MPI_Request* request) {
  checked_buffer const used{data, count, type};
  check_buffer(used, true);
  return end_receive(note_begun(MPI_Imrecv(data, count, type, message, request), request,
                                begun_operation::receive, used));
}
QUARRY_HD int quarry_check_MPI_Sendrecv(void const* sent, int sent_count, MPI_Datatype sent_type,
                                        int to, int sent_tag, void* received, int received_count,
                                        MPI_Datatype received_type, int from, int received_tag,
                                        MPI_Comm communicator, MPI_Status* status) {
  checked_buffer const read{sent, sent_count, sent_type, to};
  checked_buffer const written{received, received_count, received_type, from};
  check_buffer(read, false);
  check_buffer(written, true);
  check_apart(read, written);
  return end_receive(sendrecv_signed(sent, sent_count, sent_type, to, sent_tag, received,
                                     received_count, received_type, from, received_tag,
                                     communicator, status, "MPI_Sendrecv",
                                     signature_of(self(), elements(sent_count), sent_type)));
}
QUARRY_HD int quarry_check_MPI_Sendrecv_replace(void* data, int count, MPI_Datatype type, int to,
                                                int sent_tag, int from, int received_tag,
                                                MPI_Comm communicator, MPI_Status* status) {
  rank_state& rank = self();
  check_buffer({data, count, type, to == MPI_PROC_NULL ? from : to}, true);
  if (count < 0 || !is_type(rank, type))
    return MPI_Sendrecv_replace(data, count, type, to, sent_tag, from, received_tag, communicator,
                                status);
  bytes const size = elements(count) * element_size(rank, type);
  scratch const packed{rank, size};
  pack(rank, packed.data(), data, elements(count), type);
  return end_receive(sendrecv_signed(packed.data(), static_cast<std::int64_t>(size), MPI_BYTE, to,
                                     sent_tag, data, count, type, from, received_tag, communicator,
                                     status, "MPI_Sendrecv_replace",
                                     signature_of(rank, elements(count), type)));
}
QUARRY_HD int quarry_check_MPI_Isendrecv(void const* sent, int sent_count, MPI_Datatype sent_type,
                                         int to, int sent_tag, void* received, int received_count,
                                         MPI_Datatype received_type, int from, int received_tag,
                                         MPI_Comm communicator, MPI_Request* request) {
  checked_buffer const read{sent, sent_count, sent_type, to};
  checked_buffer const written{received, received_count, received_type, from};
  check_buffer(read, false);
  check_buffer(written, true);
  check_apart(read, written);
  rank_state& rank = self();
  quarry::mpi::request* made = nullptr;
  int const error = new_exchange({const_cast<void*>(sent), sent_count, sent_type, to, sent_tag, 1},
                                 {received, received_count, received_type, from, received_tag, 1},
                                 communicator, "MPI_Isendrecv", request, made);
  if (error == MPI_SUCCESS)
    start_signed_pair(rank, *made, call::isendrecv,
                      signature_of(rank, elements(sent_count), sent_type));
  return end_receive(note_both(error, request, begun_operation::exchange, read, written));
}
QUARRY_HD int quarry_check_MPI_Isendrecv_replace(void* data, int count, MPI_Datatype type, int to,
                                                 int sent_tag, int from, int received_tag,
                                                 MPI_Comm communicator, MPI_Request* request) {
  checked_buffer const written{data, count, type, from};
  check_buffer({data, count, type, to == MPI_PROC_NULL ? from : to}, true);
  rank_state& rank = self();
  quarry::mpi::request* made = nullptr;
  int const error = new_replacement(data, count, type, to, sent_tag, from, received_tag,
                                    communicator, "MPI_Isendrecv_replace", request, made);
  if (error == MPI_SUCCESS)
    start_signed_pair(rank, *made, call::isendrecv, signature_of(rank, elements(count), type));
  return end_receive(
      note_both(error, request, begun_operation::exchange, {nullptr, 0, MPI_BYTE}, written));
}
QUARRY_HD int quarry_check_MPI_Wait(MPI_Request* request, MPI_Status* status) {
  rank_state& rank = self();
  MPI_Request now = runtime_handle(rank, *request);
  int const error = MPI_Wait(&now, status);
  compare_signatures(rank);
  note_ended(rank, request, now);
  return error;
}
QUARRY_HD int quarry_check_MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  rank_state& rank = self();
  MPI_Request now = runtime_handle(rank, *request);
  int const error = MPI_Test(&now, flag, status);
  compare_signatures(rank);
  note_ended(rank, request, now);
  return error;
}
QUARRY_HD int quarry_check_MPI_Send_init(void const* data, int count, MPI_Datatype type, int to,
                                         int tag, MPI_Comm communicator, MPI_Request* request) {
  return note_persistent(MPI_Send_init(data, count, type, to, tag, communicator, request), request,
                         begun_operation::send, {data, count, type, to});
}
QUARRY_HD int quarry_check_MPI_Ssend_init(void const* data, int count, MPI_Datatype type, int to,
                                          int tag, MPI_Comm communicator, MPI_Request* request) {
  return note_persistent(MPI_Ssend_init(data, count, type, to, tag, communicator, request), request,
                         begun_operation::send, {data, count, type, to});
}
QUARRY_HD int quarry_check_MPI_Bsend_init(void const* data, int count, MPI_Datatype type, int to,
                                          int tag, MPI_Comm communicator, MPI_Request* request) {
  return note_persistent(MPI_Bsend_init(data, count, type, to, tag, communicator, request), request,
                         begun_operation::send, {data, count, type, to});
}
QUARRY_HD int quarry_check_MPI_Rsend_init(void const* data, int count, MPI_Datatype type, int to,
                                          int tag, MPI_Comm communicator, MPI_Request* request) {
  return note_persistent(MPI_Rsend_init(data, count, type, to, tag, communicator, request), request,
                         begun_operation::send, {data, count, type, to});
}
QUARRY_HD int quarry_check_MPI_Recv_init(void* data, int count, MPI_Datatype type, int from,
                                         int tag, MPI_Comm communicator, MPI_Request* request) {
  return note_persistent(MPI_Recv_init(data, count, type, from, tag, communicator, request),
                         request, begun_operation::receive, {data, count, type, from});
}
QUARRY_HD int quarry_check_MPI_Start(MPI_Request* request) {
  MPI_Request const now = runtime_handle(self(), *request);
  return start_checked(1, request, &now, "MPI_Start");
}
QUARRY_HD int quarry_check_MPI_Startall(int count, MPI_Request* requests) {
  request_list const list{count, requests};
  return start_checked(count, requests, list.handles(), "MPI_Startall");
}
QUARRY_HD int quarry_check_MPI_Request_get_status(MPI_Request request, int* flag,
                                                  MPI_Status* status) {
  rank_state& rank = self();
  int const error = MPI_Request_get_status(runtime_handle(rank, request), flag, status);
  if (error == MPI_SUCCESS && *flag != 0) note_done(rank, request);
  return error;
}
QUARRY_HD int quarry_check_MPI_Grequest_start(MPI_Grequest_query_function* query,
                                              MPI_Grequest_free_function* free,
                                              MPI_Grequest_cancel_function* cancel, void* state,
                                              MPI_Request* request) {
  return note_begun(MPI_Grequest_start(query, free, cancel, state, request), request,
                    begun_operation::generalized);
}
QUARRY_HD int quarry_check_MPI_Grequest_complete(MPI_Request request) {
  return MPI_Grequest_complete(runtime_handle(self(), request));
}
QUARRY_HD int quarry_check_MPI_Cancel(MPI_Request* request) {
  MPI_Request now = runtime_handle(self(), *request);
  return MPI_Cancel(&now);
}
QUARRY_HD int quarry_check_MPI_Request_free(MPI_Request* request) {
  rank_state& rank = self();
  compare_signatures(rank);
  MPI_Request now = runtime_handle(rank, *request);
  int const error = MPI_Request_free(&now);
  if (error == MPI_SUCCESS) note_released(rank, request);
  return error;
}
QUARRY_HD int quarry_check_MPI_Waitall(int count, MPI_Request* requests, MPI_Status* statuses) {
  request_list const list{count, requests};
  return list.finish(MPI_Waitall(count, list.handles(), statuses));
}
QUARRY_HD int quarry_check_MPI_Testall(int count, MPI_Request* requests, int* flag,
                                       MPI_Status* statuses) {
  request_list const list{count, requests};
  return list.finish(MPI_Testall(count, list.handles(), flag, statuses));
}
QUARRY_HD int quarry_check_MPI_Waitany(int count, MPI_Request* requests, int* index,
                                       MPI_Status* status) {
  request_list const list{count, requests};
  return list.finish(MPI_Waitany(count, list.handles(), index, status));
}
QUARRY_HD int quarry_check_MPI_Testany(int count, MPI_Request* requests, int* index, int* flag,
                                       MPI_Status* status) {
  request_list const list{count, requests};
  return list.finish(MPI_Testany(count, list.handles(), index, flag, status));
}
QUARRY_HD int quarry_check_MPI_Waitsome(int count, MPI_Request* requests, int* done, int* indices,
                                        MPI_Status* statuses) {
  request_list const list{count, requests};
  return list.finish(MPI_Waitsome(count, list.handles(), done, indices, statuses));
}
QUARRY_HD int quarry_check_MPI_Testsome(int count, MPI_Request* requests, int* done, int* indices,
                                        MPI_Status* statuses) {
  request_list const list{count, requests};
  return list.finish(MPI_Testsome(count, list.handles(), done, indices, statuses));
}

}  // extern "C"
