// SPDX-License-Identifier: Apache-2.0
// Copies of many short blocks, as types with gaps have them, without a call for each.
#pragma once

#include "thread_copy.hpp"
#include "types.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Where the blocks of one side of a copy begin: at a constant distance, or where rows say.
struct block_places {
  std::int64_t stride;
  block_row const* rows;  // null: the blocks are at multiples of `stride`

  [[nodiscard]] QUARRY_HD std::int64_t offset_of(bytes block) const {
    return rows != nullptr ? rows[block].offset : static_cast<std::int64_t>(block) * stride;
  }
};

/// Copies a unit of each block, where the blocks are at constant distances.
template <class Unit>
QUARRY_SLOW void copy_column(char* to, std::int64_t to_stride, char const* from,
                             std::int64_t from_stride, bytes blocks) {
  constexpr std::uint32_t batch = 8;
  QUARRY_NO_UNROLL
  for (; blocks >= batch; blocks -= batch) {
    Unit loaded[batch];
    QUARRY_UNROLL
    for (std::uint32_t k = 0; k < batch; ++k) {
      loaded[k] = *reinterpret_cast<Unit const*>(from);
      from += from_stride;
    }
    QUARRY_UNROLL
    for (std::uint32_t k = 0; k < batch; ++k) {
      *reinterpret_cast<Unit*>(to) = loaded[k];
      to += to_stride;
    }
  }
  QUARRY_NO_UNROLL
  for (; blocks != 0; --blocks) {
    *reinterpret_cast<Unit*>(to) = *reinterpret_cast<Unit const*>(from);
    from += from_stride;
    to += to_stride;
  }
}

template <class Unit>
QUARRY_SLOW void copy_block_units(char* to, block_places const& to_places, char const* from,
                                  block_places const& from_places, bytes blocks,
                                  std::uint32_t units) {
  // A GPU loads units of several blocks together, which is faster than block by block.
  if (units <= 8 && to_places.rows == nullptr && from_places.rows == nullptr) {
    for (std::uint32_t i = 0; i < units; ++i)
      copy_column<Unit>(to + i * sizeof(Unit), to_places.stride, from + i * sizeof(Unit),
                        from_places.stride, blocks);
    return;
  }
  for (bytes i = 0; i < blocks; ++i)
    copy_units<Unit, 8>(to + to_places.offset_of(i), from + from_places.offset_of(i), units);
}

/// Copies `blocks` blocks of `size` bytes. `alignment` has the bits of all offsets and strides.
QUARRY_HD inline void copy_blocks(char* to, block_places const& to_places, char const* from,
                                  block_places const& from_places, bytes blocks, std::uint32_t size,
                                  std::uint64_t alignment) {
  std::uint64_t const all = reinterpret_cast<std::uint64_t>(to) |
                            reinterpret_cast<std::uint64_t>(from) | alignment | size;
  if (all % 16 == 0) {
    copy_block_units<granule>(to, to_places, from, from_places, blocks, size / 16);
  } else if (all % 8 == 0) {
    copy_block_units<long_word>(to, to_places, from, from_places, blocks, size / 8);
  } else if (all % 4 == 0) {
    copy_block_units<narrow_word>(to, to_places, from, from_places, blocks, size / 4);
  } else {
    copy_block_units<char>(to, to_places, from, from_places, blocks, size);
  }
}

}  // namespace quarry::inline QUARRY_ABI::mpi
