/* SPDX-License-Identifier: Apache-2.0 */
/* MPI for programs that quarry-mpicc compiles. Handles are integers: they can be compared, and can
   initialise constants. The functions follow version 3.1 of the MPI standard. Of version 4 there
   are persistent collective operations, MPI_Isendrecv, and the functions whose names end with _c.
   This file declares a part of both; quarry-mpicc reports a call of any other MPI function as an
   error. */
#ifndef QUARRY_MPI_MPI_H
#define QUARRY_MPI_MPI_H

/* For programs that rely on the header of another MPI to include them. */
#include <stddef.h>
#include <stdint.h>

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
typedef MPI_Comm_errhandler_function MPI_Comm_errhandler_fn;
typedef MPI_Comm_errhandler_function MPI_Handler_function;

#define MPI_COMM_NULL 0
#define MPI_COMM_WORLD 1
#define MPI_COMM_SELF 2
#define MPI_GROUP_NULL 0
#define MPI_GROUP_EMPTY 1
#define MPI_INFO_NULL 0
#define MPI_INFO_ENV 1
#define MPI_REQUEST_NULL 0
#define MPI_OP_NULL 0
#define MPI_DATATYPE_NULL 0
#define MPI_ERRHANDLER_NULL 0
#define MPI_ERRORS_ARE_FATAL 1
#define MPI_ERRORS_RETURN 2
#define MPI_ERRORS_ABORT 3

#define MPI_ANY_SOURCE (-1)
#define MPI_ANY_TAG (-1)
#define MPI_PROC_NULL (-2)
#define MPI_ROOT (-3)
#define MPI_UNDEFINED (-32766)
#define MPI_BSEND_OVERHEAD 0
#define MPI_MAX_PROCESSOR_NAME 64
#define MPI_MAX_ERROR_STRING 256
#define MPI_MAX_LIBRARY_VERSION_STRING 64
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
#define MPI_ERR_KEYVAL 21
#define MPI_ERR_INFO 22
#define MPI_ERR_INFO_KEY 23
#define MPI_ERR_INFO_VALUE 24
#define MPI_ERR_INFO_NOKEY 25
#define MPI_ERR_ERRHANDLER 26
#define MPI_ERR_WIN 27
#define MPI_ERR_BASE 28
#define MPI_ERR_SIZE 29
#define MPI_ERR_DISP 30
#define MPI_ERR_LOCKTYPE 31
#define MPI_ERR_ASSERT 32
#define MPI_ERR_RMA_CONFLICT 33
#define MPI_ERR_RMA_SYNC 34
#define MPI_ERR_RMA_RANGE 35
#define MPI_ERR_RMA_ATTACH 36
#define MPI_ERR_RMA_SHARED 37
#define MPI_ERR_RMA_FLAVOR 38
#define MPI_ERR_SPAWN 39
#define MPI_ERR_PORT 40
#define MPI_ERR_SERVICE 41
#define MPI_ERR_NAME 42
#define MPI_ERR_FILE 43
#define MPI_ERR_ACCESS 44
#define MPI_ERR_AMODE 45
#define MPI_ERR_BAD_FILE 46
#define MPI_ERR_CONVERSION 47
#define MPI_ERR_DUP_DATAREP 48
#define MPI_ERR_FILE_EXISTS 49
#define MPI_ERR_FILE_IN_USE 50
#define MPI_ERR_IO 51
#define MPI_ERR_NO_SPACE 52
#define MPI_ERR_NO_SUCH_FILE 53
#define MPI_ERR_NOT_SAME 54
#define MPI_ERR_QUOTA 55
#define MPI_ERR_READ_ONLY 56
#define MPI_ERR_UNSUPPORTED_DATAREP 57
#define MPI_ERR_UNSUPPORTED_OPERATION 58
#define MPI_ERR_PROC_ABORTED 59
#define MPI_ERR_SESSION 60
#define MPI_ERR_VALUE_TOO_LARGE 61
#define MPI_ERR_LASTCODE 63

int MPI_Init(int* argc, char*** argv);
int MPI_Init_thread(int* argc, char*** argv, int required, int* provided);
int MPI_Query_thread(int* provided);
int MPI_Is_thread_main(int* flag);
int MPI_Initialized(int* flag);
int MPI_Finalize(void);
int MPI_Finalized(int* flag);
int MPI_Abort(MPI_Comm communicator, int code);
double MPI_Wtime(void);
double MPI_Wtick(void);
int MPI_Get_processor_name(char* name, int* length);
int MPI_Get_version(int* version, int* subversion);
int MPI_Get_library_version(char* text, int* length);
int MPI_Alloc_mem(MPI_Aint size, MPI_Info info, void* address);
int MPI_Free_mem(void* memory);
#ifndef __CUDACC__ /* of the runtime, whose compiler accepts no variadic functions */
int MPI_Pcontrol(int level, ...);
#endif

int MPI_Error_class(int code, int* error_class);
int MPI_Error_string(int code, char* text, int* length);
int MPI_Add_error_class(int* error_class);
int MPI_Add_error_code(int error_class, int* code);
int MPI_Add_error_string(int code, char const* text);

int MPI_Comm_set_errhandler(MPI_Comm communicator, MPI_Errhandler handler);
int MPI_Comm_get_errhandler(MPI_Comm communicator, MPI_Errhandler* handler);
int MPI_Comm_create_errhandler(MPI_Comm_errhandler_function* function, MPI_Errhandler* handler);
int MPI_Errhandler_free(MPI_Errhandler* handler);
int MPI_Comm_call_errhandler(MPI_Comm communicator, int code);
int MPI_Errhandler_create(MPI_Comm_errhandler_function* function, MPI_Errhandler* handler);
int MPI_Errhandler_get(MPI_Comm communicator, MPI_Errhandler* handler);
int MPI_Errhandler_set(MPI_Comm communicator, MPI_Errhandler handler);

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
int MPI_Win_create(void* base, MPI_Aint size, int unit, MPI_Info info, MPI_Comm communicator,
                   MPI_Win* window);
int MPI_Win_allocate(MPI_Aint size, int unit, MPI_Info info, MPI_Comm communicator, void* base,
                     MPI_Win* window);
int MPI_Win_get_attr(MPI_Win window, int key, void* value, int* flag);
int MPI_Win_free(MPI_Win* window);

#ifdef __cplusplus
}
#endif

#include "mpi_absent.h"
#include "mpi_collectives.h"
#include "mpi_communicators.h"
#include "mpi_datatypes.h"
#include "mpi_large_counts.h"
#include "mpi_messages.h"
#include "mpi_profiling.h" /* of all above */

#endif
