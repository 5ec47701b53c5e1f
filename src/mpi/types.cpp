// SPDX-License-Identifier: Apache-2.0
#include "types.hpp"

#include "copy_blocks.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// The runs of a type that is not dense.
struct type_runs {
  QUARRY_HD type_runs(rank_state& rank, MPI_Datatype type) : extent{element_extent(rank, type)} {
    if (!is_basic(type)) {
      derived_type* const made = derived(rank, type);
      first = made->first();
      count = made->runs;
      block_bytes = made->block_bytes;
      stride = made->stride;
      alignment = made->alignment;
    } else if (type == MPI_SHORT_INT) {
      pair[0] = {0, 2};
      pair[1] = {4, 4};
      count = 2;
    } else {
      pair[0] = {0, 12};  // 8 bytes and an int
      count = 1;
      block_bytes = 12;
      stride = extent;
      alignment = static_cast<std::uint64_t>(extent);
    }
  }
  [[nodiscard]] QUARRY_HD type_run at(std::uint32_t index) const {
    return first != nullptr ? first[index] : pair[index];
  }
  /// Where the blocks of an element are.
  [[nodiscard]] QUARRY_HD block_places places() const {
    return {stride, stride != 0 ? nullptr : first};
  }

  std::int64_t extent;
  type_run const* first = nullptr;  // null: `pair`
  type_run pair[2];
  std::uint32_t count;
  std::uint32_t block_bytes = 0;  // as in derived_type
  std::int64_t stride = 0;
  std::uint64_t alignment = 0;
};

/// One side of a copy: elements of the type, or their bytes one after another.
struct packed_or_spread {
  char* data;
  bool is_packed;

  /// The address of bytes that begin at `offset` in a buffer and at `place` in a message.
  [[nodiscard]] QUARRY_HD char* at(std::int64_t offset, bytes place) const {
    return data + (is_packed ? static_cast<std::int64_t>(place) : offset);
  }
};

/// Blocks of at least so many bytes are copied one by one.
constexpr std::uint32_t long_block = 512;

/// Copies `size` bytes, run by run.
QUARRY_SLOW void copy_runs(type_runs const& runs, packed_or_spread const& to,
                           packed_or_spread const& from, bytes size) {
  std::int64_t element = 0;
  for (bytes place = 0; place < size; element += runs.extent) {
    for (std::uint32_t i = 0; i < runs.count && place < size; ++i) {
      type_run const run = runs.at(i);
      bytes const part = run.size < size - place ? run.size : size - place;
      copy_bytes(to.at(element + run.offset, place), from.at(element + run.offset, place), part);
      place += part;
    }
  }
}

/// Copies elements of a type that is not dense: `size` bytes without gaps.
QUARRY_SLOW void copy_spread(type_runs const& runs, packed_or_spread const& to,
                             packed_or_spread const& from, bytes size) {
  if (runs.block_bytes == 0 || runs.block_bytes >= long_block)
    return copy_runs(runs, to, from, size);
  // Where an element is one block, all elements are blocks at a constant distance.
  bool const is_one_row = runs.count == 1 && runs.stride != 0;
  bytes const blocks = size / runs.block_bytes;
  bytes const row = is_one_row ? blocks : runs.count;
  block_places const spread = runs.places();
  block_places const packed{runs.block_bytes, nullptr};
  std::int64_t element = 0;
  bytes place = 0;
  for (bytes done = 0; done < blocks; element += runs.extent) {
    bytes const part = row < blocks - done ? row : blocks - done;
    copy_blocks(to.at(element, place), to.is_packed ? packed : spread, from.at(element, place),
                from.is_packed ? packed : spread, part, runs.block_bytes, runs.alignment);
    done += part;
    place += part * runs.block_bytes;
  }
  if (place == size) return;
  // a message can end within a block
  std::uint32_t const next = static_cast<std::uint32_t>(blocks % runs.count);
  std::int64_t const offset =
      static_cast<std::int64_t>(blocks / runs.count) * runs.extent + runs.at(next).offset;
  copy_bytes(to.at(offset, place), from.at(offset, place), size - place);
}

QUARRY_HD packed_or_spread packed(void const* data) {
  return {static_cast<char*>(const_cast<void*>(data)), true};
}
QUARRY_HD packed_or_spread spread(void const* data) {
  return {static_cast<char*>(const_cast<void*>(data)), false};
}

}  // namespace

QUARRY_SLOW void copy_elements(rank_state& rank, void* to, void const* from, bytes count,
                               MPI_Datatype type) {
  bytes const size = count * element_size(rank, type);
  if (is_dense(rank, type)) return copy_bytes(to, from, size);
  copy_spread(type_runs{rank, type}, spread(to), spread(from), size);
}

QUARRY_SLOW void pack(rank_state& rank, char* to, void const* from, bytes count,
                      MPI_Datatype type) {
  bytes const size = count * element_size(rank, type);
  if (is_dense(rank, type)) return copy_bytes(to, from, size);
  copy_spread(type_runs{rank, type}, packed(to), spread(from), size);
}

QUARRY_SLOW void unpack(rank_state& rank, void* to, MPI_Datatype type, char const* from,
                        bytes size) {
  if (is_dense(rank, type)) return copy_bytes(to, from, size);
  copy_spread(type_runs{rank, type}, spread(to), packed(from), size);
}

}  // namespace quarry::inline QUARRY_ABI::mpi
