// SPDX-License-Identifier: Apache-2.0
#include "convert_elements.hpp"

#include "scratch.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

QUARRY_SLOW void convert_elements(rank_state& rank, void const* source, bytes count,
                                  MPI_Datatype type, void* target, MPI_Datatype to_type) {
  bytes const length = count * element_size(rank, type);
  if (is_dense(rank, type))
    return unpack(rank, target, to_type, static_cast<char const*>(source), length);
  if (is_dense(rank, to_type)) return pack(rank, static_cast<char*>(target), source, count, type);
  if (type == to_type) return copy_elements(rank, target, source, count, type);
  scratch const packed{rank, length};
  pack(rank, packed.data(), source, count, type);
  unpack(rank, target, to_type, packed.data(), length);
}

}  // namespace quarry::inline QUARRY_ABI::mpi
