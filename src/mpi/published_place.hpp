// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "seat.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// What a rank publishes in a collective operation whose ranks read each other's memory. It lies in
/// the rank's part of meeting_place. The rank writes it before a meeting. After this meeting and
/// until the next one, all ranks may read it.
struct alignas(16) published_place {
  static constexpr bytes stride = 64;  // meeting::part_bytes

  char const* data;
  bytes size;
  char* result;  // of a reduction: where the first rank of a group leaves what the group has

  [[nodiscard]] QUARRY_HD static published_place& of(std::uint32_t rank) {
    return *reinterpret_cast<published_place*>(the_meeting().parts + rank * stride);
  }
};
static_assert(sizeof(published_place) <= published_place::stride);

/// The bits of addresses and sizes that decide which units a copy can have.
[[nodiscard]] QUARRY_HD inline std::uint32_t unit_bits(void const* address) {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uint64_t>(address)) % 16;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
