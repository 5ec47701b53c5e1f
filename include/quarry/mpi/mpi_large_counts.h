/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of MPI 4 that take counts of the type MPI_Count. Counts must not exceed the largest
   int: other counts, and such displacements, fail with MPI_ERR_COUNT. Included by mpi.h. */
#ifndef QUARRY_MPI_MPI_LARGE_COUNTS_H
#define QUARRY_MPI_MPI_LARGE_COUNTS_H

#include "mpi_messages.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void MPI_User_function_c(void* input, void* in_out, MPI_Count* count, MPI_Datatype* type);

#define QUARRY_LIST(...) __VA_ARGS__
#define QUARRY_LARGE_COUNT(name, communicator, parameters, arguments) int MPI_##name##_c parameters;
#define QUARRY_LARGE_COLLECTIVE(name, immediate, parameters, arguments)                 \
  int MPI_##name##_c(QUARRY_LIST parameters, MPI_Comm comm);                            \
  int MPI_##immediate##_c(QUARRY_LIST parameters, MPI_Comm comm, MPI_Request* request); \
  int MPI_##name##_init_c(QUARRY_LIST parameters, MPI_Comm comm, MPI_Info info,         \
                          MPI_Request* request);
#include "mpi_large_count_rows.h"
#undef QUARRY_LARGE_COUNT
#undef QUARRY_LARGE_COLLECTIVE
#undef QUARRY_LIST

int MPI_Op_create_c(MPI_User_function_c* function, int commutes, MPI_Op* op);
int MPI_Get_count_c(MPI_Status const* status, MPI_Datatype type, MPI_Count* count);
int MPI_Get_elements_c(MPI_Status const* status, MPI_Datatype type, MPI_Count* count);
int MPI_Status_set_elements_c(MPI_Status* status, MPI_Datatype type, MPI_Count count);
int MPI_Type_size_c(MPI_Datatype type, MPI_Count* size);
int MPI_Type_get_extent_c(MPI_Datatype type, MPI_Count* lower_bound, MPI_Count* extent);
int MPI_Type_get_true_extent_c(MPI_Datatype type, MPI_Count* lower_bound, MPI_Count* extent);
int MPI_Type_get_envelope_c(MPI_Datatype type, MPI_Count* integers, MPI_Count* addresses,
                            MPI_Count* large_counts, MPI_Count* types, int* combiner);
int MPI_Type_get_contents_c(MPI_Datatype type, MPI_Count max_integers, MPI_Count max_addresses,
                            MPI_Count max_large_counts, MPI_Count max_types, int* integers,
                            MPI_Aint* addresses, MPI_Count* large_counts, MPI_Datatype* types);
int MPI_Pack_external_c(char const* representation, void const* input, MPI_Count count,
                        MPI_Datatype type, void* output, MPI_Count output_size,
                        MPI_Count* position);
int MPI_Unpack_external_c(char const* representation, void const* input, MPI_Count input_size,
                          MPI_Count* position, void* output, MPI_Count count, MPI_Datatype type);
int MPI_Pack_external_size_c(char const* representation, MPI_Count count, MPI_Datatype type,
                             MPI_Count* size);

#ifdef __cplusplus
}
#endif
#endif
