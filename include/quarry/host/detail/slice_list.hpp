// SPDX-License-Identifier: Apache-2.0
// The quick list of a class of slices.
#pragma once

#include "quarry/host/detail/slice_block.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace quarry::inline QUARRY_ABI::detail {

/// The storage of a quick list of slices, in type-stable memory. Most of it is never written to.
struct slice_list_room {
  static constexpr std::uint32_t size = 128;
  slice_block::handle slices[size];
};

/// Free slices of a class, the latest last; together they are at most as large as a block.
class slice_list {
 public:
  slice_list() = default;
  /// `maximum`: of the list's slices. `reports_all`: `reports_free` is always true.
  slice_list(slice_list_room& storage, bytes maximum, bool reports_all)
      : begin_{storage.slices},
        end_{storage.slices},
        reported_{reports_all ? begin_ : begin_ + std::min<bytes>(slice_list_room::size, maximum)} {
  }

  [[nodiscard]] bool is_empty() const { return end_ == begin_; }
  /// Whether the pool has work to do after a slice was put into the list, because the list is full
  /// or because the pool asked for all reports.
  [[nodiscard]] bool reports_free() const { return end_ >= reported_; }
  [[nodiscard]] std::ptrdiff_t count() const { return end_ - begin_; }
  [[nodiscard]] slice_block::handle const* begin() const { return begin_; }
  [[nodiscard]] slice_block::handle const* end() const { return end_; }

  /// Takes the latest slice for `size` bytes and returns its address. Requires a list that is
  /// not empty.
  [[nodiscard]] std::uint64_t take(bytes size) {
    slice_block::handle const& slice = *--end_;
    slice.set_in_use(size);
    return slice.base;
  }
  /// Requires a list that is not full.
  void put(slice_block::handle const& slice) { *end_++ = slice; }
  void remove_first(std::ptrdiff_t removed) { end_ = std::copy(begin_ + removed, end_, begin_); }

 private:
  slice_block::handle *begin_ = nullptr, *end_ = nullptr, *reported_ = nullptr;
};

}  // namespace quarry::inline QUARRY_ABI::detail
