// SPDX-License-Identifier: Apache-2.0
// MPI's functions with counts of the type MPI_Count: those with ints do the work.
#include "large_counts.hpp"

using namespace quarry::mpi;

extern "C" {

#define QUARRY_LIST(...) __VA_ARGS__
#define N(value) in.number(value)
#define A(values, length) in.array(values, length)
#define P(values) reinterpret_cast<MPI_Aint const*>(values)
#define OUT(place) in.result(place)
#define INOUT(place) in.changed(place)
#define QUARRY_LARGE_COUNT(name, communicator, parameters, arguments)    \
  QUARRY_HD int MPI_##name##_c parameters {                              \
    narrowed in{communicator};                                           \
    return in.run<MPI_##name>("MPI_" #name "_c", QUARRY_LIST arguments); \
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

QUARRY_HD int MPI_Get_count_c(MPI_Status const* status, MPI_Datatype type, MPI_Count* count) {
  MPI_Count size = 0;
  if (int const error = MPI_Type_size_x(type, &size)) return error;
  if (size == 0) {
    *count = status->byte_count == 0 ? 0 : MPI_UNDEFINED;
  } else {
    *count = status->byte_count % size == 0 ? status->byte_count / size : MPI_UNDEFINED;
  }
  return MPI_SUCCESS;
}
QUARRY_HD int MPI_Get_elements_c(MPI_Status const* status, MPI_Datatype type, MPI_Count* count) {
  return MPI_Get_elements_x(status, type, count);
}
QUARRY_HD int MPI_Status_set_elements_c(MPI_Status* status, MPI_Datatype type, MPI_Count count) {
  return MPI_Status_set_elements_x(status, type, count);
}

QUARRY_HD int MPI_Type_size_c(MPI_Datatype type, MPI_Count* size) {
  return MPI_Type_size_x(type, size);
}
QUARRY_HD int MPI_Type_get_extent_c(MPI_Datatype type, MPI_Count* lower_bound, MPI_Count* extent) {
  return MPI_Type_get_extent_x(type, lower_bound, extent);
}
QUARRY_HD int MPI_Type_get_true_extent_c(MPI_Datatype type, MPI_Count* lower_bound,
                                         MPI_Count* extent) {
  return MPI_Type_get_true_extent_x(type, lower_bound, extent);
}
/// No type has large counts.
QUARRY_HD int MPI_Type_get_envelope_c(MPI_Datatype type, MPI_Count* integers, MPI_Count* addresses,
                                      MPI_Count* large_counts, MPI_Count* types, int* combiner) {
  narrowed in{MPI_COMM_WORLD};
  int const error =
      in.run<MPI_Type_get_envelope>("MPI_Type_get_envelope_c", type, in.result(integers),
                                    in.result(addresses), in.result(types), combiner);
  if (error == MPI_SUCCESS) *large_counts = 0;
  return error;
}
QUARRY_HD int MPI_Type_get_contents_c(MPI_Datatype type, MPI_Count max_integers,
                                      MPI_Count max_addresses, MPI_Count, MPI_Count max_types,
                                      int* integers, MPI_Aint* addresses, MPI_Count*,
                                      MPI_Datatype* types) {
  narrowed in{MPI_COMM_WORLD};
  return in.run<MPI_Type_get_contents>("MPI_Type_get_contents_c", type, in.number(max_integers),
                                       in.number(max_addresses), in.number(max_types), integers,
                                       addresses, types);
}

QUARRY_HD int MPI_Pack_external_c(char const* representation, void const* input, MPI_Count count,
                                  MPI_Datatype type, void* output, MPI_Count output_size,
                                  MPI_Count* position) {
  narrowed in{MPI_COMM_WORLD};
  MPI_Aint place = *position;
  int const error =
      in.run<MPI_Pack_external>("MPI_Pack_external_c", representation, input, in.number(count),
                                type, output, static_cast<MPI_Aint>(output_size), &place);
  if (error == MPI_SUCCESS) *position = place;
  return error;
}
QUARRY_HD int MPI_Unpack_external_c(char const* representation, void const* input,
                                    MPI_Count input_size, MPI_Count* position, void* output,
                                    MPI_Count count, MPI_Datatype type) {
  narrowed in{MPI_COMM_WORLD};
  MPI_Aint place = *position;
  int const error = in.run<MPI_Unpack_external>("MPI_Unpack_external_c", representation, input,
                                                static_cast<MPI_Aint>(input_size), &place, output,
                                                in.number(count), type);
  if (error == MPI_SUCCESS) *position = place;
  return error;
}
QUARRY_HD int MPI_Pack_external_size_c(char const* representation, MPI_Count count,
                                       MPI_Datatype type, MPI_Count* size) {
  narrowed in{MPI_COMM_WORLD};
  MPI_Aint result = 0;
  int const error = in.run<MPI_Pack_external_size>("MPI_Pack_external_size_c", representation,
                                                   in.number(count), type, &result);
  if (error == MPI_SUCCESS) *size = result;
  return error;
}

}  // extern "C"
