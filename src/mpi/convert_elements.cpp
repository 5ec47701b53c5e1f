// SPDX-License-Identifier: Apache-2.0
#include "convert_elements.hpp"

#include "scratch.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

QUARRY_SLOW void convert_elements(rank_state& caller, typed_elements const& source,
                                  typed_elements const& target, bytes size) {
  if (size == 0) return;
  auto* const from = static_cast<char const*>(source.data);
  if (is_dense(source.owner, source.type))
    return unpack(target.owner, target.data, target.type, from, size);
  bytes const element = element_size(source.owner, source.type);
  bytes const count = (size + element - 1) / element;
  bool const is_whole = count * element == size;
  if (is_whole && is_dense(target.owner, target.type))
    return pack(source.owner, static_cast<char*>(target.data), from, count, source.type);
  if (is_whole && source.type == target.type && &source.owner == &target.owner)
    return copy_elements(source.owner, target.data, from, count, source.type);
  scratch const packed{caller, count * element};
  pack(source.owner, packed.data(), from, count, source.type);
  unpack(target.owner, target.data, target.type, packed.data(), size);
}

QUARRY_SLOW void convert_elements(rank_state& rank, void const* source, bytes count,
                                  MPI_Datatype type, void* target, MPI_Datatype to_type) {
  convert_elements(rank, {rank, const_cast<void*>(source), type}, {rank, target, to_type},
                   count * element_size(rank, type));
}

}  // namespace quarry::inline QUARRY_ABI::mpi
