// SPDX-License-Identifier: Apache-2.0
// Reads the rows and loops of a type, to copy its elements or to make another type of them.
#pragma once

#include "types.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Repeats a row at a constant distance, if the repetitions continue it. Returns false, and has
/// done nothing, otherwise.
QUARRY_HD inline bool repeat_row(block_row& row, bytes count, std::int64_t stride) {
  if (row.count == 1 && stride == static_cast<std::int64_t>(row.block)) {
    row.block *= count;
  } else if (row.count == 1) {
    row.count = count;
    row.stride = stride;
  } else if (stride == static_cast<std::int64_t>(row.count) * row.stride) {
    row.count *= count;
  } else {
    return false;
  }
  return true;
}

#ifdef __CUDACC__
__device__
#endif
inline block_row const short_int_rows[2] = {{0, 2, 1, 0}, {4, 4, 1, 0}};

/// The rows and loops of a type. A single row is a copy, which can be repeated.
struct row_view {
  block_row only;
  block_row const* rows;  // null: `only`
  bytes row_count;
  row_loop const* loops;
  std::uint32_t loop_count;
  std::uint32_t block_bytes;  // as in derived_type
  std::uint64_t alignment;

  QUARRY_HD row_view(rank_state& rank, MPI_Datatype type)
      : only{},
        rows{nullptr},
        row_count{1},
        loops{nullptr},
        loop_count{0},
        block_bytes{0},
        alignment{0} {
    if (is_basic(type)) {
      only = {0, basic_size(type), 1, 0};
      if (type != MPI_SHORT_INT) return;  // the other pairs have no gap within
      rows = short_int_rows;
      row_count = 2;
      return;
    }
    derived_type* const made = derived(rank, type);
    loops = made->loops;
    loop_count = made->loop_count;
    row_count = made->row_count;
    block_bytes = made->block_bytes;
    alignment = made->alignment;
    if (row_count == 1) {
      only = made->rows()[0];
    } else {
      rows = made->rows();
    }
  }
  [[nodiscard]] QUARRY_HD block_row const& row(bytes i) const {
    return rows != nullptr ? rows[i] : only;
  }
};

/// The layout of a type that is being made: the rows of an old type, and loops that repeat them.
class type_layout {
 public:
  /// The old type has at most `max_loops`; the new one adds two.
  static constexpr std::uint32_t capacity = derived_type::max_loops + 2;

  QUARRY_HD type_layout(rank_state& rank, MPI_Datatype type)
      : view_{rank, type}, loop_count_{view_.loop_count} {
    for (std::uint32_t i = 0; i < loop_count_; ++i) loops_[i] = view_.loops[i];
  }

  /// Repeats all that is there at a constant distance. One row or loop stays one if the repetitions
  /// continue it.
  QUARRY_HD void repeat(bytes count, std::int64_t stride) {
    if (count == 0) view_.row_count = 0;
    if (count <= 1) return;
    if (loop_count_ != 0) {
      row_loop& last = loops_[loop_count_ - 1];
      if (stride == static_cast<std::int64_t>(last.count) * last.stride) {
        last.count *= count;
        return;
      }
    } else if (view_.row_count == 1 && repeat_row(view_.only, count, stride)) {
      return;
    }
    loops_[loop_count_++] = {count, stride};
  }
  QUARRY_HD void shift(std::int64_t distance) { shift_ += distance; }

  [[nodiscard]] QUARRY_HD row_loop const* loops() const { return loops_; }
  [[nodiscard]] QUARRY_HD std::uint32_t loop_count() const { return loop_count_; }
  [[nodiscard]] QUARRY_HD bytes row_count() const { return view_.row_count; }
  [[nodiscard]] QUARRY_HD block_row row(bytes i) const {
    block_row result = view_.row(i);
    result.offset += shift_;
    return result;
  }

 private:
  row_view view_;
  std::uint32_t loop_count_;
  std::int64_t shift_ = 0;
  row_loop loops_[capacity];
};

/// The repetitions of rows in at most `Most` loops, from the first to the last.
template <std::uint32_t Most>
class loop_position {
 public:
  QUARRY_HD loop_position(row_loop const* loops, std::uint32_t count)
      : loops_{loops}, count_{count} {
    for (std::uint32_t i = 0; i < count; ++i) done_[i] = 0;
  }
  /// How far the rows lie from those of the first repetition.
  [[nodiscard]] QUARRY_HD std::int64_t offset() const { return offset_; }
  /// Goes to the next repetition. Returns false after the last one.
  [[nodiscard]] QUARRY_HD bool next() {
    for (std::uint32_t i = 0; i < count_; ++i) {
      row_loop const& loop = loops_[i];
      offset_ += loop.stride;
      if (++done_[i] < loop.count) return true;
      offset_ -= static_cast<std::int64_t>(loop.count) * loop.stride;
      done_[i] = 0;
    }
    return false;
  }

 private:
  row_loop const* loops_;
  std::uint32_t count_;
  std::int64_t offset_ = 0;
  bytes done_[Most];
};

}  // namespace quarry::inline QUARRY_ABI::mpi
