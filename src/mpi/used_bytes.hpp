// SPDX-License-Identifier: Apache-2.0
// The bytes of buffers, for checks: those between the elements' bytes do not count.
#pragma once

#include "types.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Elements in a buffer. If they have no gaps they are MPI_BYTE.
struct used_elements {
  char const* data = nullptr;
  bytes count = 0;  // 0: no bytes
  MPI_Datatype type = MPI_BYTE;

  [[nodiscard]] QUARRY_HD bool is_dense() const { return type == MPI_BYTE; }
};

/// The elements of a buffer; none if the type is unknown or not committed, or if the buffer is null
/// and the type has no gaps.
[[nodiscard]] QUARRY_SLOW used_elements elements_in(rank_state& rank, void const* data, bytes count,
                                                    MPI_Datatype type);

/// From the first byte of the elements to behind the last one.
struct byte_span {
  std::int64_t begin;
  std::int64_t end;
};
[[nodiscard]] QUARRY_SLOW byte_span span_of(rank_state& rank, used_elements const& of);

/// Whether two buffers have a common byte. No memory is allocated. Of two types with gaps, takes a
/// search for each block of the one with fewer blocks. A search takes constant time if the type is
/// one row of blocks in loops. Of n rows it takes O(log n) if they are in the order of their
/// addresses, else O(n).
[[nodiscard]] QUARRY_SLOW bool have_common_byte(rank_state& rank, used_elements const& left,
                                                used_elements const& right);

/// Whether two of the parts of a buffer have a common byte. The blocks of each part lie apart. O(n)
/// for n parts that lie apart in the order of their addresses. Others take 16 bytes of memory and
/// O(log b) for each of their b blocks; the result is false if the heap has no memory for that.
[[nodiscard]] QUARRY_SLOW bool have_common_byte(rank_state& rank, used_elements const* parts,
                                                bytes count);

/// Continues a hash by the bytes of the elements, in the order of a message. O(bytes).
[[nodiscard]] QUARRY_SLOW std::uint64_t hash_of(rank_state& rank, used_elements const& of,
                                                std::uint64_t hash);

}  // namespace quarry::inline QUARRY_ABI::mpi
