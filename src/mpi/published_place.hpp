// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "seat.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// What a member of a communicator publishes in a collective operation whose ranks read each
/// other's memory. The member writes it before a meeting. After this meeting and until the next
/// one, all members may read it.
struct alignas(16) published_place {
  static constexpr bytes stride = 64;  // meeting::part_bytes

  char const* data;
  bytes size;  // of the data; of parts of different sizes: of an element, or 0 if it has gaps
  union {
    char* result;  // of a reduction: where the first member of a group leaves what the group has
    MPI_Datatype const* types;  // of parts of different types; else null
  };
  // Of parts of different sizes (published_parts.hpp).
  int const* counts;         // of the part for each member, in elements
  int const* displacements;  // in elements; in bytes if there are `types`
  MPI_Datatype type;
  std::uint32_t lanes;       // GPU: those that continue together after a meeting (joining_members)
  std::uint64_t numbers[2];  // of even and of odd meetings (reduce_few); not of the world

  /// Leaves `numbers` as they are: others may still read that of the last meeting.
  QUARRY_HD void publish(char const* published, bytes length, char* place_of_result) {
    data = published;
    size = length;
    result = place_of_result;
  }
};
static_assert(sizeof(published_place) == published_place::stride);

/// The places of all members, by their ranks in the communicator.
struct published_places {
  char* first;

  [[nodiscard]] QUARRY_HD published_place& operator[](std::uint32_t rank) const {
    return *reinterpret_cast<published_place*>(first + rank * published_place::stride);
  }
};

/// Those of the world are in meeting_place.
[[nodiscard]] QUARRY_HD inline published_places places_of_world() { return {the_meeting().parts}; }

/// The bits of addresses and sizes that decide which units a copy can have.
[[nodiscard]] QUARRY_HD inline std::uint32_t unit_bits(void const* address) {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uint64_t>(address)) % 16;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
