// SPDX-License-Identifier: Apache-2.0
// The layout of elements while a type is made of them, or while they are copied.
#pragma once

#include "types.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// The bytes of one or many elements: rows, and loops that repeat them. It reads the rows of its
/// type, or has up to two of its own.
class type_layout {
 public:
  /// A type has at most `max_loops`; a type that is made of it, two more; elements of it, one more.
  static constexpr std::uint32_t capacity = derived_type::max_loops + 3;

  QUARRY_HD type_layout(rank_state& rank, MPI_Datatype type) {
    if (is_basic(type)) {
      own_[0] = {0, basic_size(type), 1, 0};
      if (type == MPI_SHORT_INT) {  // the other pairs have no gap within
        own_[0].block = 2;
        own_[1] = {4, 4, 1, 0};
        row_count_ = 2;
      }
      return;
    }
    derived_type* const made = derived(rank, type);
    loop_count_ = made->loop_count;
    for (std::uint32_t i = 0; i < loop_count_; ++i) loops_[i] = made->loops[i];
    row_count_ = made->row_count;
    if (row_count_ == 1) {
      own_[0] = made->rows()[0];
    } else {
      rows_ = made->rows();
    }
    block_bytes_ = made->block_bytes;
    alignment_ = made->alignment;
  }

  /// Repeats all that is there at a constant distance. One row or loop stays one if the repetitions
  /// continue it.
  QUARRY_HD void repeat(bytes count, std::int64_t stride) {
    if (count == 0) row_count_ = 0;
    if (count <= 1) return;
    if (loop_count_ != 0) {
      row_loop& last = loops_[loop_count_ - 1];
      if (stride == static_cast<std::int64_t>(last.count) * last.stride) {
        last.count *= count;
        return;
      }
    } else if (row_count_ == 1) {
      block_row& row = own_[0];
      if (row.count == 1) {
        if (stride == static_cast<std::int64_t>(row.block)) {
          row.block *= count;
        } else {
          row.count = count;
          row.stride = stride;
        }
        return;
      }
      if (stride == static_cast<std::int64_t>(row.count) * row.stride) {
        row.count *= count;
        return;
      }
    }
    loops_[loop_count_++] = {count, stride};
  }
  QUARRY_HD void shift(std::int64_t distance) { shift_ += distance; }

  [[nodiscard]] QUARRY_HD std::uint32_t loop_count() const { return loop_count_; }
  [[nodiscard]] QUARRY_HD row_loop const& loop(std::uint32_t i) const { return loops_[i]; }
  [[nodiscard]] QUARRY_HD bytes row_count() const { return row_count_; }
  [[nodiscard]] QUARRY_HD block_row row(bytes i) const {
    block_row result = rows_ != nullptr ? rows_[i] : own_[i];
    result.offset += shift_;
    return result;
  }
  /// The type's rows, if each is one block of `block_bytes()` bytes. Their offsets lack the shift.
  [[nodiscard]] QUARRY_HD block_row const* uniform_rows() const {
    return block_bytes_ != 0 ? rows_ : nullptr;
  }
  [[nodiscard]] QUARRY_HD std::uint32_t block_bytes() const { return block_bytes_; }
  [[nodiscard]] QUARRY_HD std::uint64_t alignment() const { return alignment_; }
  [[nodiscard]] QUARRY_HD std::int64_t shift() const { return shift_; }

 private:
  std::uint32_t loop_count_ = 0;
  std::uint32_t block_bytes_ = 0;
  bytes row_count_ = 1;
  std::int64_t shift_ = 0;
  std::uint64_t alignment_ = 0;
  block_row const* rows_ = nullptr;  // null: `own_`
  block_row own_[2] = {};
  row_loop loops_[capacity];
};

/// The repetitions of a layout's rows, from the first to the last.
class loop_position {
 public:
  QUARRY_HD explicit loop_position(type_layout const& of) : of_{of} {
    for (std::uint32_t i = 0; i < of.loop_count(); ++i) done_[i] = 0;
  }
  /// How far the rows lie from those of the first repetition.
  [[nodiscard]] QUARRY_HD std::int64_t offset() const { return offset_; }
  /// Goes to the next repetition. Returns false after the last one.
  [[nodiscard]] QUARRY_HD bool next() {
    for (std::uint32_t i = 0; i < of_.loop_count(); ++i) {
      row_loop const& loop = of_.loop(i);
      offset_ += loop.stride;
      if (++done_[i] < loop.count) return true;
      offset_ -= static_cast<std::int64_t>(loop.count) * loop.stride;
      done_[i] = 0;
    }
    return false;
  }

 private:
  type_layout const& of_;
  std::int64_t offset_ = 0;
  bytes done_[type_layout::capacity];
};

}  // namespace quarry::inline QUARRY_ABI::mpi
