// SPDX-License-Identifier: Apache-2.0
#include "types.hpp"

#include "copy_blocks.hpp"
#include "type_layout.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// One side of a copy: elements of the type, or their bytes one after another.
struct packed_or_spread {
  std::uint64_t address;  // 0: MPI_BOTTOM
  bool is_packed;

  /// The address of bytes that begin at `offset` in a buffer and at `place` in a message.
  [[nodiscard]] QUARRY_HD char* at(std::int64_t offset, bytes place) const {
    return reinterpret_cast<char*>(address +
                                   (is_packed ? place : static_cast<std::uint64_t>(offset)));
  }
};

/// Blocks of at least so many bytes are copied one by one.
constexpr std::uint32_t long_block = 512;

/// A copy of elements, one row after the other, until `size` bytes are copied.
struct element_copy {
  packed_or_spread to;
  packed_or_spread from;
  bytes size;
  bytes place = 0;  // what is copied

  [[nodiscard]] QUARRY_HD bytes rest() const { return size - place; }

  QUARRY_HD void copy_block(std::int64_t offset, bytes block) {
    bytes const part = block < rest() ? block : rest();
    copy_bytes(to.at(offset, place), from.at(offset, place), part);
    place += part;
  }
  /// Copies short blocks together. `places` says where they lie, from `offset` on.
  QUARRY_HD void copy_short(std::int64_t offset, block_places const& places, bytes count,
                            std::uint32_t block, std::uint64_t alignment) {
    block_places const packed{block, nullptr};
    copy_blocks(to.at(offset, place), to.is_packed ? packed : places, from.at(offset, place),
                from.is_packed ? packed : places, count, block, alignment);
    place += count * block;
  }
  QUARRY_SLOW void copy_row(block_row const& row) {
    if (row.count > 1 && row.block < long_block) {
      bytes const whole = rest() / row.block;
      bytes const count = row.count < whole ? row.count : whole;
      copy_short(row.offset, {row.stride, nullptr}, count, static_cast<std::uint32_t>(row.block),
                 static_cast<std::uint64_t>(row.stride));
      if (count != row.count)  // a message can end within a block
        copy_block(row.offset + static_cast<std::int64_t>(count) * row.stride, row.block);
      return;
    }
    for (bytes i = 0; i < row.count && rest() != 0; ++i)
      copy_block(row.offset + static_cast<std::int64_t>(i) * row.stride, row.block);
  }
  /// Copies rows that are short blocks of one size.
  QUARRY_SLOW void copy_uniform(type_layout const& layout, std::int64_t offset) {
    bytes const whole = rest() / layout.block_bytes();
    bytes const count = layout.row_count() < whole ? layout.row_count() : whole;
    copy_short(offset + layout.shift(), {0, layout.uniform_rows()}, count, layout.block_bytes(),
               layout.alignment());
    if (count != layout.row_count())
      copy_block(offset + layout.row(count).offset, layout.block_bytes());
  }
  QUARRY_SLOW void run(type_layout const& layout) {
    loop_position position{layout};
    while (rest() != 0) {
      if (layout.uniform_rows() != nullptr) {
        copy_uniform(layout, position.offset());
      } else {
        for (bytes i = 0; i < layout.row_count() && rest() != 0; ++i) {
          block_row row = layout.row(i);
          row.offset += position.offset();
          copy_row(row);
        }
      }
      if (!position.next()) break;
    }
  }
};

/// Copies the first `size` bytes of `count` elements of a type that is not dense.
QUARRY_SLOW void copy_spread(rank_state& rank, MPI_Datatype type, bytes count,
                             packed_or_spread const& to, packed_or_spread const& from, bytes size) {
  if (size == 0) return;
  type_layout layout{rank, type};
  layout.repeat(count, element_extent(rank, type));
  element_copy{to, from, size}.run(layout);
}

QUARRY_HD packed_or_spread packed(void const* data) {
  return {reinterpret_cast<std::uint64_t>(data), true};
}
QUARRY_HD packed_or_spread spread(void const* data) {
  return {reinterpret_cast<std::uint64_t>(data), false};
}

}  // namespace

QUARRY_SLOW void copy_elements(rank_state& rank, void* to, void const* from, bytes count,
                               MPI_Datatype type) {
  bytes const size = count * element_size(rank, type);
  if (is_dense(rank, type)) return copy_bytes(to, from, size);
  copy_spread(rank, type, count, spread(to), spread(from), size);
}

QUARRY_SLOW void pack(rank_state& rank, char* to, void const* from, bytes count,
                      MPI_Datatype type) {
  bytes const size = count * element_size(rank, type);
  if (is_dense(rank, type)) return copy_bytes(to, from, size);
  copy_spread(rank, type, count, packed(to), spread(from), size);
}

QUARRY_SLOW void unpack(rank_state& rank, void* to, MPI_Datatype type, char const* from,
                        bytes size) {
  if (is_dense(rank, type)) return copy_bytes(to, from, size);
  bytes const element = element_size(rank, type);
  bytes const count = size / element + (size % element != 0 ? 1 : 0);
  copy_spread(rank, type, count, spread(to), packed(from), size);
}

}  // namespace quarry::inline QUARRY_ABI::mpi
