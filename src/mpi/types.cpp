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
  /// Copies short blocks together, or as many of them as there are before the end. The first lies
  /// at `offset`, the others where `places` says. A message can end within a block.
  QUARRY_HD void copy_short(std::int64_t offset, block_places const& places, bytes count,
                            std::uint32_t block, std::uint64_t alignment) {
    bytes const whole = rest() / block;
    bytes const copied = count < whole ? count : whole;
    block_places const packed{block, nullptr};
    copy_blocks(to.at(offset, place), to.is_packed ? packed : places, from.at(offset, place),
                from.is_packed ? packed : places, copied, block, alignment);
    place += copied * block;
    if (copied != count) copy_block(offset + places.offset_of(copied), block);
  }
  QUARRY_HD void copy_rows(row_view const& view, std::int64_t offset) {
    bool const is_uniform = view.block_bytes != 0;  // all rows are short blocks: one row of them
    bytes const rows = is_uniform ? 1 : view.row_count;
    for (bytes k = 0; k < rows && rest() != 0; ++k) {
      block_row const row =
          is_uniform ? block_row{0, view.block_bytes, view.row_count, 0} : view.row(k);
      if (row.count > 1 && row.block < long_block) {
        copy_short(offset + row.offset, {row.stride, is_uniform ? view.rows : nullptr}, row.count,
                   static_cast<std::uint32_t>(row.block),
                   is_uniform ? view.alignment : static_cast<std::uint64_t>(row.stride));
        continue;
      }
      for (bytes i = 0; i < row.count && rest() != 0; ++i)
        copy_block(offset + row.offset + static_cast<std::int64_t>(i) * row.stride, row.block);
    }
  }
};

/// Copies the first `size` bytes of `count` elements of a type that is not dense.
QUARRY_SLOW void copy_spread(rank_state& rank, MPI_Datatype type, bytes count,
                             packed_or_spread const& to, packed_or_spread const& from, bytes size) {
  row_view view{rank, type};
  std::int64_t const extent = element_extent(rank, type);
  bool const is_one_row =
      view.loop_count == 0 && view.row_count == 1 && repeat_row(view.only, count, extent);
  element_copy copy{to, from, size};
  for (std::int64_t element = 0; copy.rest() != 0; element += extent) {
    loop_position<derived_type::max_loops> position{view.loops, view.loop_count};
    do copy.copy_rows(view, element + position.offset());
    while (copy.rest() != 0 && position.next());
    if (is_one_row) return;
  }
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
