// SPDX-License-Identifier: Apache-2.0
// Datatypes: their sizes, and how their bytes lie in a buffer.
#pragma once

#include "copy_bytes.hpp"
#include "world.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Bytes of an element that lie together.
struct type_run {
  std::int64_t offset;
  bytes size;
};

/// A type that the program made. Its bytes are runs; element i of a buffer begins at i * extent.
struct derived_type {
  bytes size;
  std::int64_t lower_bound;
  std::int64_t extent;
  std::uint32_t runs;
  std::uint32_t references;  // the handle, and the receives that have begun
  std::uint32_t is_committed;
  std::uint32_t is_freed;     // the handle is invalid
  std::int64_t stride;        // the distance of runs; 0 if it is not constant
  std::uint64_t alignment;    // the bits of all offsets, and of the extent
  std::uint32_t block_bytes;  // of each run; 0 if they differ, or are longer than this has room for
  std::uint32_t unused;
  // `runs` runs follow, in the order of their bytes in a message

  [[nodiscard]] QUARRY_HD type_run* first() { return reinterpret_cast<type_run*>(this + 1); }
  [[nodiscard]] QUARRY_HD bool is_dense() {
    return size == 0 ||
           (runs == 1 && first()->offset == 0 && static_cast<std::int64_t>(size) == extent);
  }
};

inline constexpr MPI_Datatype first_derived = 0x10000;

[[nodiscard]] QUARRY_HD constexpr bool is_basic(MPI_Datatype type) {
  return type >= 0x101 && type < first_derived && ((type >> 8) <= 16);
}

/// Whether a basic type is a pair with a gap, which messages do not contain.
[[nodiscard]] QUARRY_HD constexpr bool has_gap(MPI_Datatype basic) { return (basic & 0x80) != 0; }

/// The type that the program made; null if there is none with this handle.
[[nodiscard]] QUARRY_HD inline derived_type* derived(rank_state& rank, MPI_Datatype type) {
  auto const index = static_cast<std::uint32_t>(type - first_derived);
  return type >= first_derived && index < rank.types.capacity ? rank.types.entries[index] : nullptr;
}

/// The last number of a basic type of `extent` bytes, 1 to 8; numbers begin with 1.
[[nodiscard]] QUARRY_HD constexpr std::uint32_t last_number(std::uint32_t extent) {
  return extent == 1   ? MPI_UINT8_T & 0xff
         : extent == 2 ? MPI_UINT16_T & 0xff
         : extent == 4 ? MPI_WCHAR & 0xff
                       : MPI_OFFSET & 0xff;
}

/// Whether mpi.h names the type.
[[nodiscard]] QUARRY_HD constexpr bool is_named(MPI_Datatype type) {
  if (type == MPI_SHORT_INT || type == MPI_DOUBLE_INT || type == MPI_LONG_INT ||
      type == MPI_LONG_DOUBLE)
    return true;
  auto const number = static_cast<std::uint32_t>(type) & 0xff;
  auto const extent = static_cast<std::uint32_t>(type) >> 8;
  if (extent == 16) return type == MPI_C_DOUBLE_COMPLEX;
  return is_basic(type) && (extent & (extent - 1)) == 0 && number - 1 < last_number(extent);
}

/// Whether the type exists.
[[nodiscard]] QUARRY_HD inline bool is_known_type(rank_state& rank, MPI_Datatype type) {
  if (is_basic(type)) return is_named(type);
  derived_type const* const made = derived(rank, type);
  return made != nullptr && made->is_freed == 0;
}

/// Whether messages can have elements of the type.
[[nodiscard]] QUARRY_HD inline bool is_type(rank_state& rank, MPI_Datatype type) {
  return is_known_type(rank, type) && (is_basic(type) || derived(rank, type)->is_committed != 0);
}

/// The bytes that an element has in a message.
[[nodiscard]] QUARRY_HD inline bytes element_size(rank_state& rank, MPI_Datatype type) {
  if (is_basic(type)) {
    auto const distance = static_cast<bytes>(type) >> 8;
    return has_gap(type) ? distance - distance / 4 : distance;
  }
  derived_type const* const made = derived(rank, type);
  return made == nullptr ? 0 : made->size;
}

/// The distance of elements in a buffer.
[[nodiscard]] QUARRY_HD inline std::int64_t element_extent(rank_state& rank, MPI_Datatype type) {
  if (is_basic(type)) return type >> 8;
  derived_type const* const made = derived(rank, type);
  return made == nullptr ? 0 : made->extent;
}

/// The offset of the first byte of an element; may be negative.
[[nodiscard]] QUARRY_HD inline std::int64_t lower_bound(rank_state& rank, MPI_Datatype type) {
  derived_type const* const made = is_basic(type) ? nullptr : derived(rank, type);
  return made == nullptr ? 0 : made->lower_bound;
}

/// Whether elements lie in a buffer as in a message.
[[nodiscard]] QUARRY_HD inline bool is_dense(rank_state& rank, MPI_Datatype type) {
  if (is_basic(type)) return !has_gap(type);
  derived_type* const made = derived(rank, type);
  return made == nullptr || made->is_dense();
}

/// Keeps the type until `release_type`, although the program may free its handle.
QUARRY_HD inline void retain_type(rank_state& rank, MPI_Datatype type) {
  if (is_basic(type)) return;
  if (derived_type* const made = derived(rank, type)) ++made->references;
}
/// Sets the fields that say how regular the runs are.
QUARRY_HD inline void describe_runs(derived_type& made) {
  type_run const* const runs = made.first();
  if (made.runs == 0) return;
  bool is_uniform = runs[0].size <= 0xffffffffu;
  bool is_regular = runs[0].offset == 0;
  std::int64_t const stride = made.runs > 1 ? runs[1].offset - runs[0].offset : made.extent;
  made.alignment = static_cast<std::uint64_t>(made.extent);
  for (std::uint32_t i = 0; i < made.runs; ++i) {
    is_uniform = is_uniform && runs[i].size == runs[0].size;
    is_regular = is_regular && runs[i].offset == i * stride;
    made.alignment |= static_cast<std::uint64_t>(runs[i].offset);
  }
  if (is_uniform) made.block_bytes = static_cast<std::uint32_t>(runs[0].size);
  if (is_regular) made.stride = stride;
}

QUARRY_SLOW void release_type(rank_state& rank, MPI_Datatype type);

/// Copies `count` elements from one buffer to another buffer of the same type.
QUARRY_SLOW void copy_elements(rank_state& rank, void* to, void const* from, bytes count,
                               MPI_Datatype type);

/// Copies `count` elements to a message.
QUARRY_SLOW void pack(rank_state& rank, char* to, void const* from, bytes count, MPI_Datatype type);

/// Copies the first `size` bytes of a message to elements in a buffer.
QUARRY_SLOW void unpack(rank_state& rank, void* to, MPI_Datatype type, char const* from,
                        bytes size);

}  // namespace quarry::inline QUARRY_ABI::mpi
