// SPDX-License-Identifier: Apache-2.0
// MPI's functions with large counts in programs that quarry-mpicc --check made: those with ints do
// the checks.
#include "checks.hpp"
#include "large_counts.hpp"

using namespace quarry::mpi;

extern "C" {

// These have no checks.
#define quarry_check_MPI_Buffer_attach MPI_Buffer_attach
#define quarry_check_MPI_Buffer_detach MPI_Buffer_detach
#define quarry_check_MPI_Reduce_local MPI_Reduce_local
#define quarry_check_MPI_Pack MPI_Pack
#define quarry_check_MPI_Unpack MPI_Unpack
#define quarry_check_MPI_Pack_size MPI_Pack_size

#define QUARRY_LIST(...) __VA_ARGS__
#define N(value) in.number(value)
#define A(values, length) in.array(values, length)
#define P(values) reinterpret_cast<MPI_Aint const*>(values)
#define OUT(place) in.result(place)
#define INOUT(place) in.changed(place)
#define QUARRY_LARGE_COUNT(name, communicator, parameters, arguments)                 \
  QUARRY_HD decltype(MPI_##name) quarry_check_MPI_##name;                             \
  QUARRY_HD int quarry_check_MPI_##name##_c parameters {                              \
    narrowed in{communicator};                                                        \
    return in.run<quarry_check_MPI_##name>("MPI_" #name "_c", QUARRY_LIST arguments); \
  }
#define QUARRY_LARGE_COLLECTIVE(name, immediate, parameters, arguments)              \
  QUARRY_LARGE_COUNT(name, comm, (QUARRY_LIST parameters, MPI_Comm comm),            \
                     (QUARRY_LIST arguments, comm))                                  \
  QUARRY_LARGE_COUNT(immediate, comm,                                                \
                     (QUARRY_LIST parameters, MPI_Comm comm, MPI_Request * request), \
                     (QUARRY_LIST arguments, comm, request))                         \
  QUARRY_LARGE_COUNT(                                                                \
      name##_init, comm,                                                             \
      (QUARRY_LIST parameters, MPI_Comm comm, MPI_Info info, MPI_Request * request), \
      (QUARRY_LIST arguments, comm, info, request))
#include "quarry/mpi/mpi_large_count_rows.h"
#undef QUARRY_LARGE_COUNT
#undef QUARRY_LARGE_COLLECTIVE
#undef QUARRY_LIST
#undef N
#undef A
#undef P
#undef OUT
#undef INOUT
#undef quarry_check_MPI_Buffer_attach
#undef quarry_check_MPI_Buffer_detach
#undef quarry_check_MPI_Reduce_local
#undef quarry_check_MPI_Pack
#undef quarry_check_MPI_Unpack
#undef quarry_check_MPI_Pack_size

QUARRY_HD int quarry_check_MPI_Op_create_c(MPI_User_function_c* function, int commutes,
                                           MPI_Op* op) {
  int const error = MPI_Op_create_c(function, commutes, op);
  return note_made(error, made_object::kind::op, error == MPI_SUCCESS ? *op : 0);
}

QUARRY_HD decltype(MPI_Type_get_contents) quarry_check_MPI_Type_get_contents;
QUARRY_HD int quarry_check_MPI_Type_get_contents_c(MPI_Datatype type, MPI_Count max_integers,
                                                   MPI_Count max_addresses, MPI_Count,
                                                   MPI_Count max_types, int* integers,
                                                   MPI_Aint* addresses, MPI_Count*,
                                                   MPI_Datatype* types) {
  narrowed in{MPI_COMM_WORLD};
  return in.run<quarry_check_MPI_Type_get_contents>(
      "MPI_Type_get_contents_c", type, in.number(max_integers), in.number(max_addresses),
      in.number(max_types), integers, addresses, types);
}

}  // extern "C"
