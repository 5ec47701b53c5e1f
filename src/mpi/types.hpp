// SPDX-License-Identifier: Apache-2.0
// Datatypes: their sizes and bounds, and how their bytes lie in a buffer.
#pragma once

#include "copy_bytes.hpp"
#include "world.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Blocks of one size at a constant distance.
struct block_row {
  std::int64_t offset;  // of the first block
  bytes block;          // the bytes of each block
  bytes count;
  std::int64_t stride;  // 0 if there is one block
};

/// All rows, `count` times at a constant distance.
struct row_loop {
  bytes count;
  std::int64_t stride;
};

/// What the calls of MPI need to know of a type, without its layout.
struct type_facts {
  bytes size;      // of an element in a message
  bytes elements;  // basic elements; a pair has two
  bytes external;  // the size in the representation external32
  std::int64_t lower;
  std::int64_t upper;
  std::int64_t true_lower;
  std::int64_t true_upper;
  MPI_Datatype only_element;  // the basic type of all elements; MPI_DATATYPE_NULL if they differ
  std::uint32_t depth;        // how deeply types are nested; 0: basic
  std::uint16_t alignment;    // the strictest of all elements
  std::uint8_t marks_lower;   // the program has set the bound, for this type or a part of it
  std::uint8_t marks_upper;

  [[nodiscard]] QUARRY_HD std::int64_t extent() const { return upper - lower; }
};

/// The arguments of the call that made a type. They lie behind the rows.
struct type_contents {
  std::int32_t combiner;
  std::int32_t ints;
  std::int32_t addresses;
  std::int32_t types;
};

/// A type that the program made. Element i of a buffer begins at i * extent. Its bytes, in the
/// order of a message: the rows, in each repetition of the loops. The last loop is the outermost.
struct derived_type {
  static constexpr std::uint32_t max_loops = 4;

  type_facts facts;
  type_contents contents;
  std::uint32_t references;  // handles, types that were made of this one, receives that have begun
  std::uint32_t handles;     // 0: the program has freed the type
  std::uint32_t is_committed;
  std::uint32_t is_dense;     // elements lie in a buffer as in a message
  std::uint64_t alignment;    // the bits of all offsets of rows
  std::uint32_t block_bytes;  // if all rows are one short block of this size; else 0
  std::uint32_t loop_count;
  bytes row_count;
  row_loop loops[max_loops];
  derived_type* next_released;
  char* name;  // null: none
  // row_count rows, then the contents: addresses, ints, types

  [[nodiscard]] QUARRY_HD block_row* rows() { return reinterpret_cast<block_row*>(this + 1); }
  [[nodiscard]] QUARRY_HD MPI_Aint* addresses() {
    return reinterpret_cast<MPI_Aint*>(rows() + row_count);
  }
  [[nodiscard]] QUARRY_HD int* ints() {
    return reinterpret_cast<int*>(addresses() + contents.addresses);
  }
  [[nodiscard]] QUARRY_HD MPI_Datatype* types() { return ints() + contents.ints; }
};

inline constexpr MPI_Datatype first_derived = 0x10000;

[[nodiscard]] QUARRY_HD constexpr bool is_basic(MPI_Datatype type) {
  return type >= 0x101 && type < first_derived && ((type >> 8) <= 32);
}

/// Whether a basic type is a pair with a gap, which messages do not contain.
[[nodiscard]] QUARRY_HD constexpr bool has_gap(MPI_Datatype basic) { return (basic & 0x80) != 0; }

/// Whether a basic type is a pair of Fortran: two numbers of one type.
[[nodiscard]] QUARRY_HD constexpr bool is_fortran_pair(MPI_Datatype basic) {
  return basic == MPI_2INTEGER || basic == MPI_2REAL || basic == MPI_2DOUBLE_PRECISION;
}

/// Whether a basic type is a number and its place, for MPI_MINLOC and MPI_MAXLOC. The place is an
/// int, but in pairs of Fortran of the number's type.
[[nodiscard]] QUARRY_HD constexpr bool is_pair(MPI_Datatype basic) {
  return has_gap(basic) || basic == MPI_2INT || basic == MPI_FLOAT_INT || is_fortran_pair(basic);
}

/// The type that the program made; null if there is none with this handle.
[[nodiscard]] QUARRY_HD inline derived_type* derived(rank_state& rank, MPI_Datatype type) {
  auto const index = static_cast<std::uint32_t>(type - first_derived);
  return type >= first_derived && index < rank.types.capacity ? rank.types.entries[index] : nullptr;
}

/// The last number of a basic type of `extent` bytes, 1 to 8; numbers begin with 1.
[[nodiscard]] QUARRY_HD constexpr std::uint32_t last_number(std::uint32_t extent) {
  return extent == 1   ? MPI_CHARACTER & 0xff
         : extent == 2 ? MPI_UINT16_T & 0xff
         : extent == 4 ? MPI_REAL & 0xff
                       : MPI_2REAL & 0xff;
}

/// Whether mpi.h names the type.
[[nodiscard]] QUARRY_HD constexpr bool is_named(MPI_Datatype type) {
  if (type == MPI_SHORT_INT || type == MPI_DOUBLE_INT || type == MPI_LONG_INT ||
      type == MPI_LONG_DOUBLE || type == MPI_LONG_DOUBLE_INT || type == MPI_C_LONG_DOUBLE_COMPLEX ||
      type == MPI_C_DOUBLE_COMPLEX || type == MPI_DOUBLE_COMPLEX || type == MPI_2DOUBLE_PRECISION)
    return true;
  auto const number = static_cast<std::uint32_t>(type) & 0xff;
  auto const extent = static_cast<std::uint32_t>(type) >> 8;
  return is_basic(type) && extent <= 8 && (extent & (extent - 1)) == 0 &&
         number - 1 < last_number(extent);
}

/// Whether the type exists.
[[nodiscard]] QUARRY_HD inline bool is_known_type(rank_state& rank, MPI_Datatype type) {
  if (is_basic(type)) return is_named(type);
  derived_type const* const made = derived(rank, type);
  return made != nullptr && made->handles != 0;
}

/// Whether messages can have elements of the type.
[[nodiscard]] QUARRY_HD inline bool is_type(rank_state& rank, MPI_Datatype type) {
  return is_known_type(rank, type) && (is_basic(type) || derived(rank, type)->is_committed != 0);
}

/// The bytes that an element of a basic type has in a message.
[[nodiscard]] QUARRY_HD constexpr bytes basic_size(MPI_Datatype basic) {
  auto const extent = static_cast<bytes>(basic) >> 8;
  if (!has_gap(basic)) return extent;
  return extent == 32 ? 20 : extent - extent / 4;
}

/// The bytes that an element has in a message.
[[nodiscard]] QUARRY_HD inline bytes element_size(rank_state& rank, MPI_Datatype type) {
  if (is_basic(type)) return basic_size(type);
  derived_type const* const made = derived(rank, type);
  return made == nullptr ? 0 : made->facts.size;
}

/// The distance of elements in a buffer.
[[nodiscard]] QUARRY_HD inline std::int64_t element_extent(rank_state& rank, MPI_Datatype type) {
  if (is_basic(type)) return type >> 8;
  derived_type const* const made = derived(rank, type);
  return made == nullptr ? 0 : made->facts.extent();
}

/// The part of a buffer that elements use. It includes the gaps between their bytes and their
/// bounds: a function of the program may copy whole structs. `first` is a multiple of `alignment`,
/// so that elements have their alignment in memory that begins at such an address.
struct element_span {
  static constexpr std::int64_t alignment = 16;

  std::int64_t first;  // the offset of its first byte from the buffer's address
  bytes size;

  /// The distance of such parts that lie one behind another.
  [[nodiscard]] QUARRY_HD bytes distance() const {
    return (size + alignment - 1) / alignment * alignment;
  }
};
[[nodiscard]] QUARRY_HD inline element_span span_of(rank_state& rank, bytes count,
                                                    MPI_Datatype type) {
  if (is_basic(type)) return {0, count * (static_cast<bytes>(type) >> 8)};
  derived_type const* const made = derived(rank, type);
  if (made == nullptr || count == 0 || made->facts.size == 0) return {0, 0};
  type_facts const& facts = made->facts;
  std::int64_t const last = static_cast<std::int64_t>(count - 1) * facts.extent();
  bool const begins_with_gap = facts.lower < facts.true_lower;
  bool const ends_with_gap = facts.upper > facts.true_upper;
  std::int64_t const lowest =
      (begins_with_gap ? facts.lower : facts.true_lower) + (last < 0 ? last : 0);
  std::int64_t const first = lowest & -element_span::alignment;
  std::int64_t const end = (ends_with_gap ? facts.upper : facts.true_upper) + (last < 0 ? 0 : last);
  return {first, static_cast<bytes>(end - first)};
}

/// Whether elements lie in a buffer as in a message.
[[nodiscard]] QUARRY_HD inline bool is_dense(rank_state& rank, MPI_Datatype type) {
  if (is_basic(type)) return !has_gap(type);
  derived_type const* const made = derived(rank, type);
  return made == nullptr || made->is_dense != 0;
}

/// Keeps the type until `release_type`, although the program may free its handle.
QUARRY_HD inline void retain_type(rank_state& rank, MPI_Datatype type) {
  if (is_basic(type)) return;
  if (derived_type* const made = derived(rank, type)) ++made->references;
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
