// SPDX-License-Identifier: Apache-2.0
// Collectives of ranks that meet, without messages: ranks read each other's data.
#pragma once

#include "collective.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Data of each rank that the others read between two meetings. In one collective, each rank makes
/// one or does the same by an `entry_collective`.
///
///     publish, meeting, all read, meeting
///
/// The first meeting makes the data visible. After the second one, no rank reads it, so
/// that its owner can change it. Both make progress, as all waits do, so that a rank that is still
/// in a send to this rank is served.
///
/// A rank's place is one of those of its communicator. Operands of a reduction have been read
/// before any rank returns from it.
class published_data {
 public:
  /// Publishes `count` elements. Elements with gaps, data on a rank's stack, and data that changes
  /// while others read it, are copied.
  QUARRY_HD published_data(collective const& of, void const* data, bytes count, MPI_Datatype type,
                           bool changes = false)
      : of_{of},
        bytes_{count * element_size(of.rank, type)},
        copy_{of.rank, is_readable(of.rank, data, type) && !changes ? 0 : bytes_} {
    if (copy_.data() != nullptr) pack(of.rank, copy_.data(), data, count, type);
    of.places()[of.own].publish(
        copy_.data() != nullptr ? copy_.data() : static_cast<char const*>(data), bytes_, nullptr);
    of.meet();
  }
  QUARRY_HD ~published_data() { of_.meet(); }
  published_data(published_data const&) = delete;

  [[nodiscard]] QUARRY_HD bytes size_of(std::uint32_t rank) const {
    return of_.places()[rank].size;
  }
  [[nodiscard]] QUARRY_HD bytes own_size() const { return bytes_; }

  /// Reads bytes of another rank's data into elements of any type: `size` bytes, or what there is
  /// after `offset`.
  QUARRY_SLOW void read(std::uint32_t from, bytes offset, bytes size, void* to,
                        MPI_Datatype type) const {
    published_place const& source = of_.places()[from];
    bytes const rest = offset < source.size ? source.size - offset : 0;
    bytes const length = size < rest ? size : rest;
    if (length == 0) return;
    if (is_dense(of_.rank, type)) {
      copy_bytes(to, source.data + offset, length);
    } else {
      unpack(of_.rank, to, type, source.data + offset, length);
    }
  }

 private:
  [[nodiscard]] QUARRY_HD static bool is_readable(rank_state& rank, void const* data,
                                                  MPI_Datatype type) {
    return is_dense(rank, type) && is_shared_memory(data);
  }

  collective const& of_;
  bytes bytes_;
  scratch copy_;
};
static_assert(published_place::stride == meeting::part_bytes);

/// The root publishes its data, and all ranks read it.
QUARRY_SLOW void broadcast_directly(collective const& of, void* data, bytes count,
                                    MPI_Datatype type, std::uint32_t root);

/// Whether `reduce_directly` knows the operation on such elements. All ranks know the same.
[[nodiscard]] QUARRY_SLOW bool reduces_directly(membership const& among, int count,
                                                MPI_Datatype type, MPI_Op op);

/// Reduces the elements of all ranks. `received` is null if this rank does not get the result.
///
/// The ranks publish their elements. Each group of 32 ranks reduces its elements, of which each of
/// the ranks takes some, then 32 groups together do the same with what each of them has, and so on.
/// At last all ranks read the result. So the memory of all elements is read once. The order is that
/// of a binary tree over the ranks, as in reductions by messages.
QUARRY_SLOW void reduce_directly(collective const& of, void const* sent, void* received,
                                 bytes count, MPI_Datatype type, MPI_Op op);

}  // namespace quarry::inline QUARRY_ABI::mpi
