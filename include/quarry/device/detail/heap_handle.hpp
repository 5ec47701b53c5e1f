// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/detail/heap_state.hpp"
#include "quarry/device/mitigations.hpp"
#include "quarry/simt/indirect_call.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// The content of a `heap_ref`, in 16 bytes: the address of the heap's state, and the constants
/// with which a lane computes addresses without a load.
class heap_handle {
 public:
  heap_handle() = default;
  heap_handle(heap_state* state, std::uint64_t base, std::uint32_t segment_shift,
              std::uint32_t max_segments, std::uint32_t build)
      : state_{state},
        packed_{base | std::uint64_t{std::bit_width(std::bit_ceil(max_segments)) - 1u} << 11 |
                std::uint64_t{segment_shift - 16} << 7 | build} {}

  /// Whether this code was compiled for the heap's layout. If it was not, records a fault.
  [[nodiscard]] QUARRY_HD bool is_usable() const {
    if ((packed_ & 0x7f) == heap_build) return true;
    if (state_ != nullptr) report(fault_kind::wrong_version, 0, nullptr);
    return false;
  }

  [[nodiscard]] QUARRY_HD heap_state& state() const { return *state_; }
  [[nodiscard]] QUARRY_HD std::uint32_t segment_shift() const { return 16 + (packed_ >> 7 & 0xf); }
  [[nodiscard]] QUARRY_HD bytes segment_bytes() const { return bytes{1} << segment_shift(); }
  [[nodiscard]] QUARRY_HD bytes largest_slice() const { return segment_bytes() / 2; }
  /// Entries of the segment table: `heap_state::max_segments`, rounded up to a power of two.
  [[nodiscard]] QUARRY_HD std::uint32_t entries() const { return 1u << (packed_ >> 11 & 0x1f); }

  [[nodiscard]] QUARRY_HD bytes region_bytes() const {
    return bytes{state_->max_segments} << segment_shift();
  }
  [[nodiscard]] QUARRY_HD std::uint64_t offset_of(void const* pointer) const {
    return reinterpret_cast<std::uint64_t>(pointer) - base();
  }
  [[nodiscard]] QUARRY_HD void* address(std::uint32_t segment, bytes offset) const {
    return reinterpret_cast<void*>(base() + (std::uint64_t{segment} << segment_shift()) + offset);
  }

  /// The slice block with word `index` of a segment that is cut into `slices` slices.
  [[nodiscard]] QUARRY_HD block block_of(std::uint32_t segment, std::uint32_t slices,
                                         std::uint32_t index) const {
    word* const words =
        state_->bits + std::size_t{segment} * heap_state::stride_of_bits(segment_shift());
    return heap_state::block_in(words, segment_shift(), slices, index / words_per_block);
  }

  /// Records a fault of `lanes` lanes. A fault of a destroyed heap has the kind `destroyed`.
  QUARRY_HD void report(fault_kind kind, bytes size, void const* pointer,
                        std::uint32_t lanes = 1) const {
    return simt::indirect_call([heap = *this, kind, size, pointer, lanes] {
      fault entry;
      entry.kind = heap.state_->magic == heap_state::magic_alive ? kind : fault_kind::destroyed;
      entry.size = size;
      entry.address = reinterpret_cast<std::uint64_t>(pointer);
      if (kind == fault_kind::out_of_memory) {
        entry.free_segments_bytes = bytes{heap.state_->free_segments.count()}
                                    << heap.segment_shift();
      }
      heap.state_->faults.record(entry, lanes);
    });
  }
  /// Records a fault of an allocating call, which then returns nullptr.
  QUARRY_HD void* fail(fault_kind kind, bytes size) const {
    report(kind, size, nullptr);
    return nullptr;
  }

 private:
  [[nodiscard]] QUARRY_HD std::uint64_t base() const { return packed_ & ~std::uint64_t{0xffff}; }

  heap_state* state_ = nullptr;
  // base of the region: 48, log2 of the table's entries: 5, segment shift - 16: 4, build: 7
  std::uint64_t packed_ = 0;
};

static_assert(sizeof(heap_handle) <= 16);

}  // namespace quarry::inline QUARRY_ABI::detail
