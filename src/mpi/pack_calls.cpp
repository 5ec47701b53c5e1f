// SPDX-License-Identifier: Apache-2.0
// MPI's functions that copy elements to contiguous memory and back, and those for addresses.
#include "derived_types.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// Checks the arguments of MPI_Pack and MPI_Unpack. `size`: the bytes of the elements.
[[nodiscard]] QUARRY_SLOW int check(rank_state& rank, int count, MPI_Datatype type, int room,
                                    int position, MPI_Comm handle, char const* function,
                                    bytes& size) {
  if (member(rank, handle) == nullptr)
    return fail(rank, handle, MPI_ERR_COMM, function, "communicator", handle);
  if (count < 0) return fail(rank, handle, MPI_ERR_COUNT, function, "count", count);
  if (!is_type(rank, type)) return fail(rank, handle, MPI_ERR_TYPE, function, "datatype", type);
  if (room < 0) return fail(rank, handle, MPI_ERR_ARG, function, "size", room);
  if (position < 0 || position > room)
    return fail(rank, handle, MPI_ERR_ARG, function, "position", position);
  size = static_cast<bytes>(count) * element_size(rank, type);
  if (size > static_cast<bytes>(room - position))
    return fail(rank, handle, MPI_ERR_TRUNCATE, function, "count", count);
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Pack(void const* input, int count, MPI_Datatype type, void* output,
                       int output_size, int* position, MPI_Comm communicator) {
  rank_state& rank = self();
  bytes size = 0;
  if (int const error =
          check(rank, count, type, output_size, *position, communicator, "MPI_Pack", size))
    return error;
  pack(rank, static_cast<char*>(output) + *position, input, static_cast<bytes>(count), type);
  *position += static_cast<int>(size);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Unpack(void const* input, int input_size, int* position, void* output, int count,
                         MPI_Datatype type, MPI_Comm communicator) {
  rank_state& rank = self();
  bytes size = 0;
  if (int const error =
          check(rank, count, type, input_size, *position, communicator, "MPI_Unpack", size))
    return error;
  unpack(rank, output, type, static_cast<char const*>(input) + *position, size);
  *position += static_cast<int>(size);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Pack_size(int count, MPI_Datatype type, MPI_Comm communicator, int* size) {
  rank_state& rank = self();
  bytes exact = 0;
  if (int const error =
          check(rank, count, type, 0x7fffffff, 0, communicator, "MPI_Pack_size", exact))
    return error;
  *size = static_cast<int>(exact);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Get_address(void const* location, MPI_Aint* address) {
  *address = reinterpret_cast<MPI_Aint>(location);
  return MPI_SUCCESS;
}
QUARRY_HD int MPI_Address(void* location, MPI_Aint* address) {
  return MPI_Get_address(location, address);
}
QUARRY_HD MPI_Aint MPI_Aint_add(MPI_Aint base, MPI_Aint distance) {
  return static_cast<MPI_Aint>(static_cast<std::uint64_t>(base) +
                               static_cast<std::uint64_t>(distance));
}
QUARRY_HD MPI_Aint MPI_Aint_diff(MPI_Aint address, MPI_Aint base) {
  return static_cast<MPI_Aint>(static_cast<std::uint64_t>(address) -
                               static_cast<std::uint64_t>(base));
}

}  // extern "C"
