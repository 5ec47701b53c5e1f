// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "collective.hpp"
#include "convert_elements.hpp"
#include "scheduled_collective.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// A rank's buffer with a part for each member of a communicator, of different sizes. All members
/// make one, in the same collective, and each reads its part of all others' buffers:
///
///     publish, meeting, all read, meeting
///
/// The order is that of published_data. Members also read the arrays of counts, displacements and
/// types, and the datatypes, which stay as they are until the second meeting. So a member leaves
/// only when nobody reads its memory any more. What others cannot read, because it lies on a rank's
/// stack, and a buffer that changes meanwhile, are copied.
class published_parts {
 public:
  /// `parts` has arrays of counts and displacements. With types, it must not change.
  QUARRY_SLOW published_parts(collective const& of, part_buffer const& parts, bool changes);
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
  QUARRY_SLOW void copy_arrays(part_buffer const& parts) const;
  QUARRY_SLOW void pack_all(part_buffer const& parts) const;

  collective const& of_;
  scratch packed_;  // the buffer's elements, one after another, if others cannot read it
  scratch arrays_;  // counts, displacements and, if there are any, types
};

}  // namespace quarry::inline QUARRY_ABI::mpi
