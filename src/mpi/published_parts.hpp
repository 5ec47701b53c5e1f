// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "root_window.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// A rank's buffer with a part for each member of a communicator, of different sizes. All members
/// make one, in the same collective, and each reads its part of all others' buffers:
///
///     publish, meeting, all read, meeting
///
/// The order is that of published_data. Members also read the arrays of counts and displacements,
/// and the datatype, which stay as they are until the second meeting. What others cannot read,
/// because it lies on a rank's stack, and a buffer that changes meanwhile, are copied.
class published_parts {
 public:
  /// `of_ranks` has arrays of counts and displacements.
  QUARRY_SLOW published_parts(collective const& of, void const* data, rank_parts const& of_ranks,
                              MPI_Datatype type, bool changes);
  QUARRY_HD ~published_parts() { of_.meet(); }
  published_parts(published_parts const&) = delete;

  /// Whether the elements of a member have gaps, so that only `read` can copy them.
  [[nodiscard]] QUARRY_HD bool has_gaps(std::uint32_t member) const {
    return of_.places()[member].size == 0;
  }
  /// Copies the part of a member for this rank, at most `room` bytes. Notes an error if it is
  /// longer.
  QUARRY_SLOW void read(std::uint32_t member, typed_elements const& target, bytes room) const;

 private:
  QUARRY_SLOW void copy_arrays(rank_parts const& of_ranks);

  collective const& of_;
  scratch packed_;  // the buffer's elements, one after another, if others cannot read it
  scratch arrays_;  // two: counts and displacements
};

}  // namespace quarry::inline QUARRY_ABI::mpi
