// SPDX-License-Identifier: Apache-2.0
// The types of programs that quarry-mpicc --check made.
#include "checks.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

QUARRY_SLOW int note_type(int error, MPI_Datatype const* made) {
  return note_made(error, made_object::kind::type, error == MPI_SUCCESS ? *made : 0);
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int quarry_check_MPI_Type_create_hvector(int count, int block_length, MPI_Aint stride,
                                                   MPI_Datatype old_type, MPI_Datatype* new_type) {
  int const error = MPI_Type_create_hvector(count, block_length, stride, old_type, new_type);
  return note_type(error, new_type);
}
QUARRY_HD int quarry_check_MPI_Type_indexed(int count, int const* lengths, int const* places,
                                            MPI_Datatype old_type, MPI_Datatype* new_type) {
  int const error = MPI_Type_indexed(count, lengths, places, old_type, new_type);
  return note_type(error, new_type);
}
QUARRY_HD int quarry_check_MPI_Type_create_hindexed(int count, int const* lengths,
                                                    MPI_Aint const* places, MPI_Datatype old_type,
                                                    MPI_Datatype* new_type) {
  int const error = MPI_Type_create_hindexed(count, lengths, places, old_type, new_type);
  return note_type(error, new_type);
}
QUARRY_HD int quarry_check_MPI_Type_create_indexed_block(int count, int block_length,
                                                         int const* places, MPI_Datatype old_type,
                                                         MPI_Datatype* new_type) {
  int const error = MPI_Type_create_indexed_block(count, block_length, places, old_type, new_type);
  return note_type(error, new_type);
}
QUARRY_HD int quarry_check_MPI_Type_create_hindexed_block(int count, int block_length,
                                                          MPI_Aint const* places,
                                                          MPI_Datatype old_type,
                                                          MPI_Datatype* new_type) {
  int const error = MPI_Type_create_hindexed_block(count, block_length, places, old_type, new_type);
  return note_type(error, new_type);
}
QUARRY_HD int quarry_check_MPI_Type_create_struct(int count, int const* lengths,
                                                  MPI_Aint const* places, MPI_Datatype const* types,
                                                  MPI_Datatype* new_type) {
  int const error = MPI_Type_create_struct(count, lengths, places, types, new_type);
  return note_type(error, new_type);
}
QUARRY_HD int quarry_check_MPI_Type_create_resized(MPI_Datatype old_type, MPI_Aint lower_bound,
                                                   MPI_Aint extent, MPI_Datatype* new_type) {
  int const error = MPI_Type_create_resized(old_type, lower_bound, extent, new_type);
  return note_type(error, new_type);
}
QUARRY_HD int quarry_check_MPI_Type_dup(MPI_Datatype old_type, MPI_Datatype* new_type) {
  int const error = MPI_Type_dup(old_type, new_type);
  return note_type(error, new_type);
}
QUARRY_HD int quarry_check_MPI_Type_create_subarray(int dimensions, int const* sizes,
                                                    int const* part_sizes, int const* starts,
                                                    int order, MPI_Datatype old_type,
                                                    MPI_Datatype* new_type) {
  int const error =
      MPI_Type_create_subarray(dimensions, sizes, part_sizes, starts, order, old_type, new_type);
  return note_type(error, new_type);
}
QUARRY_HD int quarry_check_MPI_Type_create_darray(int size, int rank, int dimensions,
                                                  int const* sizes, int const* distributions,
                                                  int const* arguments, int const* process_counts,
                                                  int order, MPI_Datatype old_type,
                                                  MPI_Datatype* new_type) {
  int const error = MPI_Type_create_darray(size, rank, dimensions, sizes, distributions, arguments,
                                           process_counts, order, old_type, new_type);
  return note_type(error, new_type);
}
QUARRY_HD int quarry_check_MPI_Type_hvector(int count, int block_length, MPI_Aint stride,
                                            MPI_Datatype old_type, MPI_Datatype* new_type) {
  int const error = MPI_Type_hvector(count, block_length, stride, old_type, new_type);
  return note_type(error, new_type);
}
QUARRY_HD int quarry_check_MPI_Type_hindexed(int count, int* lengths, MPI_Aint* places,
                                             MPI_Datatype old_type, MPI_Datatype* new_type) {
  int const error = MPI_Type_hindexed(count, lengths, places, old_type, new_type);
  return note_type(error, new_type);
}
QUARRY_HD int quarry_check_MPI_Type_struct(int count, int* lengths, MPI_Aint* places,
                                           MPI_Datatype* types, MPI_Datatype* new_type) {
  int const error = MPI_Type_struct(count, lengths, places, types, new_type);
  return note_type(error, new_type);
}

/// The program frees the types that it gets.
QUARRY_HD int quarry_check_MPI_Type_get_contents(MPI_Datatype type, int max_integers,
                                                 int max_addresses, int max_types, int* integers,
                                                 MPI_Aint* addresses, MPI_Datatype* types) {
  int const error = MPI_Type_get_contents(type, max_integers, max_addresses, max_types, integers,
                                          addresses, types);
  int unused = 0, count = 0;
  if (error == MPI_SUCCESS) (void)MPI_Type_get_envelope(type, &unused, &unused, &count, &unused);
  for (int i = 0; i < count; ++i)
    if (derived(self(), types[i]) != nullptr) (void)note_type(error, &types[i]);
  return error;
}

}  // extern "C"
