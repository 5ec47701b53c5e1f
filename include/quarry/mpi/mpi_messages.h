/* SPDX-License-Identifier: Apache-2.0 */
/* Messages between two ranks, and requests. Included by mpi.h. */
#ifndef QUARRY_MPI_MPI_MESSAGES_H
#define QUARRY_MPI_MPI_MESSAGES_H

#ifdef __cplusplus
extern "C" {
#endif

typedef int MPI_Message; /* a message that MPI_Mprobe has found */
#define MPI_MESSAGE_NULL 0
#define MPI_MESSAGE_NO_PROC (-1)

typedef int MPI_Grequest_query_function(void* state, MPI_Status* status);
typedef int MPI_Grequest_free_function(void* state);
typedef int MPI_Grequest_cancel_function(void* state, int is_complete);

int MPI_Send(void const* data, int count, MPI_Datatype type, int to, int tag,
             MPI_Comm communicator);
int MPI_Ssend(void const* data, int count, MPI_Datatype type, int to, int tag,
              MPI_Comm communicator);
int MPI_Bsend(void const* data, int count, MPI_Datatype type, int to, int tag,
              MPI_Comm communicator);
int MPI_Rsend(void const* data, int count, MPI_Datatype type, int to, int tag,
              MPI_Comm communicator);
int MPI_Isend(void const* data, int count, MPI_Datatype type, int to, int tag,
              MPI_Comm communicator, MPI_Request* request);
int MPI_Issend(void const* data, int count, MPI_Datatype type, int to, int tag,
               MPI_Comm communicator, MPI_Request* request);
int MPI_Ibsend(void const* data, int count, MPI_Datatype type, int to, int tag,
               MPI_Comm communicator, MPI_Request* request);
int MPI_Irsend(void const* data, int count, MPI_Datatype type, int to, int tag,
               MPI_Comm communicator, MPI_Request* request);
int MPI_Buffer_attach(void* buffer, int size);
int MPI_Buffer_detach(void* buffer_address, int* size);
int MPI_Recv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm communicator,
             MPI_Status* status);
int MPI_Irecv(void* data, int count, MPI_Datatype type, int from, int tag, MPI_Comm communicator,
              MPI_Request* request);
int MPI_Sendrecv(void const* sent, int sent_count, MPI_Datatype sent_type, int to, int sent_tag,
                 void* received, int received_count, MPI_Datatype received_type, int from,
                 int received_tag, MPI_Comm communicator, MPI_Status* status);
int MPI_Sendrecv_replace(void* data, int count, MPI_Datatype type, int to, int sent_tag, int from,
                         int received_tag, MPI_Comm communicator, MPI_Status* status);
int MPI_Isendrecv(void const* sent, int sent_count, MPI_Datatype sent_type, int to, int sent_tag,
                  void* received, int received_count, MPI_Datatype received_type, int from,
                  int received_tag, MPI_Comm communicator, MPI_Request* request);
int MPI_Isendrecv_replace(void* data, int count, MPI_Datatype type, int to, int sent_tag, int from,
                          int received_tag, MPI_Comm communicator, MPI_Request* request);
int MPI_Probe(int from, int tag, MPI_Comm communicator, MPI_Status* status);
int MPI_Iprobe(int from, int tag, MPI_Comm communicator, int* flag, MPI_Status* status);
int MPI_Mprobe(int from, int tag, MPI_Comm communicator, MPI_Message* message, MPI_Status* status);
int MPI_Improbe(int from, int tag, MPI_Comm communicator, int* flag, MPI_Message* message,
                MPI_Status* status);
int MPI_Mrecv(void* data, int count, MPI_Datatype type, MPI_Message* message, MPI_Status* status);
int MPI_Imrecv(void* data, int count, MPI_Datatype type, MPI_Message* message,
               MPI_Request* request);
int MPI_Get_count(MPI_Status const* status, MPI_Datatype type, int* count);
int MPI_Wait(MPI_Request* request, MPI_Status* status);
int MPI_Waitall(int count, MPI_Request* requests, MPI_Status* statuses);
int MPI_Waitany(int count, MPI_Request* requests, int* index, MPI_Status* status);
int MPI_Waitsome(int count, MPI_Request* requests, int* done_count, int* indices,
                 MPI_Status* statuses);
int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status);
int MPI_Testall(int count, MPI_Request* requests, int* flag, MPI_Status* statuses);
int MPI_Testany(int count, MPI_Request* requests, int* index, int* flag, MPI_Status* status);
int MPI_Testsome(int count, MPI_Request* requests, int* done_count, int* indices,
                 MPI_Status* statuses);
int MPI_Start(MPI_Request* request);
int MPI_Startall(int count, MPI_Request* requests);
int MPI_Request_free(MPI_Request* request);
int MPI_Request_get_status(MPI_Request request, int* flag, MPI_Status* status);
int MPI_Cancel(MPI_Request* request);
int MPI_Test_cancelled(MPI_Status const* status, int* flag);
int MPI_Status_set_cancelled(MPI_Status* status, int flag);

/* Persistent requests */
int MPI_Send_init(void const* data, int count, MPI_Datatype type, int to, int tag,
                  MPI_Comm communicator, MPI_Request* request);
int MPI_Ssend_init(void const* data, int count, MPI_Datatype type, int to, int tag,
                   MPI_Comm communicator, MPI_Request* request);
int MPI_Bsend_init(void const* data, int count, MPI_Datatype type, int to, int tag,
                   MPI_Comm communicator, MPI_Request* request);
int MPI_Rsend_init(void const* data, int count, MPI_Datatype type, int to, int tag,
                   MPI_Comm communicator, MPI_Request* request);
int MPI_Recv_init(void* data, int count, MPI_Datatype type, int from, int tag,
                  MPI_Comm communicator, MPI_Request* request);
int MPI_Start(MPI_Request* request);
int MPI_Startall(int count, MPI_Request* requests);

/* Generalized requests: operations of the program's own */
int MPI_Grequest_start(MPI_Grequest_query_function* query, MPI_Grequest_free_function* free,
                       MPI_Grequest_cancel_function* cancel, void* state, MPI_Request* request);
int MPI_Grequest_complete(MPI_Request request);

#ifdef __cplusplus
}
#endif
#endif
