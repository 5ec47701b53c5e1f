/* SPDX-License-Identifier: Apache-2.0 */
/* MPI for programs that quarry-mpicc compiles. Handles are integers: they can be compared, and can
   initialise constants. The functions follow version 3.1 of the MPI standard. This file declares a
   part of them; quarry-mpicc reports each call of another one as an error. */
#ifndef QUARRY_MPI_MPI_H
#define QUARRY_MPI_MPI_H

#ifdef __cplusplus
extern "C" {
#endif

#define MPI_VERSION 3
#define MPI_SUBVERSION 1

typedef int MPI_Comm;
typedef int MPI_Group;
typedef int MPI_Datatype;
typedef int MPI_Op;
typedef int MPI_Request;
typedef int MPI_Errhandler;
typedef int MPI_Info;
typedef int MPI_Win;
typedef long MPI_Aint;
typedef long long MPI_Offset;
typedef long long MPI_Count;

typedef struct MPI_Status {
  int MPI_SOURCE;
  int MPI_TAG;
  int MPI_ERROR;
  int is_cancelled;
  long long byte_count; /* the bytes of the message, without gaps */
} MPI_Status;

typedef void MPI_User_function(void* input, void* in_out, int* count, MPI_Datatype* type);
typedef void MPI_Comm_errhandler_function(MPI_Comm* communicator, int* error, ...);

#define MPI_COMM_NULL 0
#define MPI_COMM_WORLD 1
#define MPI_COMM_SELF 2
#define MPI_GROUP_NULL 0
#define MPI_GROUP_EMPTY 1
#define MPI_INFO_NULL 0
#define MPI_REQUEST_NULL 0
#define MPI_OP_NULL 0
#define MPI_DATATYPE_NULL 0
#define MPI_ERRHANDLER_NULL 0
#define MPI_ERRORS_ARE_FATAL 1
#define MPI_ERRORS_RETURN 2

#define MPI_ANY_SOURCE (-1)
#define MPI_ANY_TAG (-1)
#define MPI_PROC_NULL (-2)
#define MPI_ROOT (-3)
#define MPI_UNDEFINED (-32766)
#define MPI_BSEND_OVERHEAD 0
#define MPI_MAX_PROCESSOR_NAME 64
#define MPI_MAX_ERROR_STRING 256
#define MPI_MAX_OBJECT_NAME 64
#define MPI_IN_PLACE ((void*)-1)
#define MPI_BOTTOM ((void*)0)
#define MPI_STATUS_IGNORE ((MPI_Status*)0)
#define MPI_STATUSES_IGNORE ((MPI_Status*)0)
#define MPI_ERRCODES_IGNORE ((int*)0)

#define MPI_THREAD_SINGLE 0
#define MPI_THREAD_FUNNELED 1
#define MPI_THREAD_SERIALIZED 2
#define MPI_THREAD_MULTIPLE 3

#define MPI_IDENT 0
#define MPI_CONGRUENT 1
#define MPI_SIMILAR 2
#define MPI_UNEQUAL 3

/* Bits 8 and above of a basic type are its extent: the bytes from one element to the next. Bit 7
   marks a pair with a gap of a quarter of the extent; messages do not contain the gap. */
#define MPI_CHAR 0x101
#define MPI_SIGNED_CHAR 0x102
#define MPI_UNSIGNED_CHAR 0x103
#define MPI_BYTE 0x104
#define MPI_PACKED 0x105
#define MPI_C_BOOL 0x106
#define MPI_INT8_T 0x107
#define MPI_UINT8_T 0x108
#define MPI_SHORT 0x201
#define MPI_UNSIGNED_SHORT 0x202
#define MPI_INT16_T 0x203
#define MPI_UINT16_T 0x204
#define MPI_INT 0x401
#define MPI_UNSIGNED 0x402
#define MPI_FLOAT 0x403
#define MPI_INT32_T 0x404
#define MPI_UINT32_T 0x405
#define MPI_WCHAR 0x406
#define MPI_2INT 0x801
#define MPI_FLOAT_INT 0x803
#define MPI_LONG 0x804
#define MPI_UNSIGNED_LONG 0x805
#define MPI_LONG_LONG 0x806
#define MPI_LONG_LONG_INT 0x806
#define MPI_UNSIGNED_LONG_LONG 0x807
#define MPI_DOUBLE 0x808
#define MPI_INT64_T 0x809
#define MPI_UINT64_T 0x80a
#define MPI_AINT 0x80b
#define MPI_COUNT 0x80c
#define MPI_OFFSET 0x80d
#define MPI_C_COMPLEX 0x802
#define MPI_C_FLOAT_COMPLEX 0x802
#define MPI_C_DOUBLE_COMPLEX 0x1003
/* long double has the size that the compiler gives it: that of double on a GPU. */
#if defined(__NVPTX__) || defined(__CUDA_ARCH__)
#define MPI_LONG_DOUBLE 0x80f
#else
#define MPI_LONG_DOUBLE 0x1004
#endif
#define MPI_SHORT_INT 0x881
#define MPI_DOUBLE_INT 0x1081
#define MPI_LONG_INT 0x1082

#define MPI_MAX 1
#define MPI_MIN 2
#define MPI_SUM 3
#define MPI_PROD 4
#define MPI_LAND 5
#define MPI_BAND 6
#define MPI_LOR 7
#define MPI_BOR 8
#define MPI_LXOR 9
#define MPI_BXOR 10
#define MPI_MINLOC 11
#define MPI_MAXLOC 12
#define MPI_REPLACE 13
#define MPI_NO_OP 14

#define MPI_SUCCESS 0
#define MPI_ERR_BUFFER 1
#define MPI_ERR_COUNT 2
#define MPI_ERR_TYPE 3
#define MPI_ERR_TAG 4
#define MPI_ERR_COMM 5
#define MPI_ERR_RANK 6
#define MPI_ERR_REQUEST 7
#define MPI_ERR_ROOT 8
#define MPI_ERR_GROUP 9
#define MPI_ERR_OP 10
#define MPI_ERR_TOPOLOGY 11
#define MPI_ERR_DIMS 12
#define MPI_ERR_ARG 13
#define MPI_ERR_UNKNOWN 14
#define MPI_ERR_TRUNCATE 15
#define MPI_ERR_OTHER 16
#define MPI_ERR_INTERN 17
#define MPI_ERR_IN_STATUS 18
#define MPI_ERR_PENDING 19
#define MPI_ERR_NO_MEM 20
#define MPI_ERR_LASTCODE 63

int MPI_Init(int* argc, char*** argv);
int MPI_Init_thread(int* argc, char*** argv, int required, int* provided);
int MPI_Initialized(int* flag);
int MPI_Finalize(void);
int MPI_Finalized(int* flag);
int MPI_Abort(MPI_Comm communicator, int code);
double MPI_Wtime(void);
double MPI_Wtick(void);
int MPI_Get_processor_name(char* name, int* length);
int MPI_Get_version(int* version, int* subversion);
int MPI_Error_class(int code, int* error_class);
int MPI_Error_string(int code, char* text, int* length);

int MPI_Comm_rank(MPI_Comm communicator, int* rank);
int MPI_Comm_size(MPI_Comm communicator, int* size);
int MPI_Comm_dup(MPI_Comm communicator, MPI_Comm* copy);
int MPI_Comm_split(MPI_Comm communicator, int color, int key, MPI_Comm* part);
int MPI_Comm_free(MPI_Comm* communicator);
int MPI_Comm_compare(MPI_Comm first, MPI_Comm second, int* result);
int MPI_Comm_set_errhandler(MPI_Comm communicator, MPI_Errhandler handler);
int MPI_Comm_get_errhandler(MPI_Comm communicator, MPI_Errhandler* handler);
int MPI_Comm_create_errhandler(MPI_Comm_errhandler_function* function, MPI_Errhandler* handler);
int MPI_Errhandler_free(MPI_Errhandler* handler);
int MPI_Errhandler_set(MPI_Comm communicator, MPI_Errhandler handler);

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
int MPI_Probe(int from, int tag, MPI_Comm communicator, MPI_Status* status);
int MPI_Iprobe(int from, int tag, MPI_Comm communicator, int* flag, MPI_Status* status);
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
int MPI_Request_free(MPI_Request* request);

int MPI_Barrier(MPI_Comm communicator);
int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm communicator);
int MPI_Reduce(void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op, int root,
               MPI_Comm communicator);
int MPI_Allreduce(void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm communicator);
int MPI_Scan(void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op,
             MPI_Comm communicator);
int MPI_Exscan(void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op,
               MPI_Comm communicator);
int MPI_Gather(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
               int received_count, MPI_Datatype received_type, int root, MPI_Comm communicator);
int MPI_Gatherv(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                int const* received_counts, int const* displacements, MPI_Datatype received_type,
                int root, MPI_Comm communicator);
int MPI_Scatter(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                int received_count, MPI_Datatype received_type, int root, MPI_Comm communicator);
int MPI_Scatterv(void const* sent, int const* sent_counts, int const* displacements,
                 MPI_Datatype sent_type, void* received, int received_count,
                 MPI_Datatype received_type, int root, MPI_Comm communicator);
int MPI_Allgather(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                  int received_count, MPI_Datatype received_type, MPI_Comm communicator);
int MPI_Allgatherv(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                   int const* received_counts, int const* displacements, MPI_Datatype received_type,
                   MPI_Comm communicator);
int MPI_Alltoall(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                 int received_count, MPI_Datatype received_type, MPI_Comm communicator);
int MPI_Alltoallv(void const* sent, int const* sent_counts, int const* sent_displacements,
                  MPI_Datatype sent_type, void* received, int const* received_counts,
                  int const* received_displacements, MPI_Datatype received_type,
                  MPI_Comm communicator);
int MPI_Op_create(MPI_User_function* function, int commutes, MPI_Op* op);
int MPI_Op_free(MPI_Op* op);

int MPI_Type_size(MPI_Datatype type, int* size);
int MPI_Type_get_extent(MPI_Datatype type, MPI_Aint* lower_bound, MPI_Aint* extent);
int MPI_Type_contiguous(int count, MPI_Datatype old_type, MPI_Datatype* new_type);
int MPI_Type_vector(int count, int block_length, int stride, MPI_Datatype old_type,
                    MPI_Datatype* new_type);
int MPI_Type_commit(MPI_Datatype* type);
int MPI_Type_free(MPI_Datatype* type);

/* One-sided communication is not supported. These declarations are for programs whose own headers
   name these types. A call of such a function is an error of quarry-mpicc. */
#define MPI_WIN_NULL 0
#define MPI_WIN_BASE 1
#define MPI_WIN_SIZE 2
#define MPI_WIN_DISP_UNIT 3
#define MPI_WIN_CREATE_FLAVOR 4
#define MPI_WIN_MODEL 5
#define MPI_WIN_FLAVOR_CREATE 1
#define MPI_WIN_FLAVOR_ALLOCATE 2
#define MPI_WIN_FLAVOR_DYNAMIC 3
#define MPI_WIN_FLAVOR_SHARED 4
int MPI_Info_create(MPI_Info* info);
int MPI_Info_set(MPI_Info info, char const* key, char const* value);
int MPI_Info_free(MPI_Info* info);
int MPI_Win_create(void* base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm communicator,
                   MPI_Win* window);
int MPI_Win_allocate(MPI_Aint size, int unit, MPI_Info info, MPI_Comm communicator, void* base,
                     MPI_Win* window);
int MPI_Win_get_attr(MPI_Win window, int key, void* value, int* flag);
int MPI_Win_free(MPI_Win* window);

#ifdef __cplusplus
}
#endif
#endif
