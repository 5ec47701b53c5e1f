// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/detail/make_room.hpp"
#include "quarry/host/detail/slice_block.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI::detail {

/// The memory of slice blocks. A block with fewer slices needs less memory, so there are kinds of
/// blocks, and many blocks of a kind share a slab of type-stable memory. A page for each block
/// would cost 256 bytes for a slice of 4 KiB.
///
/// A slab serves one kind for ever, because its size differs from those of other kinds. So a reader
/// with an old pointer to a block finds a block of that kind, or zeros. Not thread-safe.
class slice_block_store {
 public:
  slice_block_store() = default;
  slice_block_store(slice_block_store const&) = delete;
  slice_block_store& operator=(slice_block_store const&) = delete;
  ~slice_block_store() {
    for (std::uint32_t number = 0; number < kinds; ++number) {
      for (slab const& each : kinds_[number].slabs)
        type_stable_deallocate(type_stable_use::slice_blocks, each.base, slab_bytes(number));
    }
  }

  /// Makes room for `take(count)`. Throws std::bad_alloc.
  void reserve(std::uint32_t count) {
    std::uint32_t const number = kind_of(count);
    kind& wanted = kinds_[number];
    if (wanted.unused != nullptr || wanted.fresh != wanted.end) return;
    make_room(wanted.slabs, wanted.slabs.size() + 1);
    auto* const base = static_cast<std::byte*>(
        type_stable_allocate(type_stable_use::slice_blocks, slab_bytes(number)));
    wanted.slabs.insert(wanted.behind(base), slab{base, 0});
    wanted.fresh = base;
    wanted.end = base + slab_bytes(number) / block_bytes(number) * block_bytes(number);
  }
  /// A block without a map page and with room for `count` slices. Requires `reserve(count)`.
  [[nodiscard]] slice_block& take(std::uint32_t count) {
    std::uint32_t const number = kind_of(count);
    kind& wanted = kinds_[number];
    if (wanted.unused != nullptr) return *std::exchange(wanted.unused, wanted.unused->next);
    return *reinterpret_cast<slice_block*>(
        std::exchange(wanted.fresh, wanted.fresh + block_bytes(number)));
  }
  /// Detaches a block from its map page, and keeps it for `take`.
  void keep(slice_block& block) {
    block.detach();
    kind& kept = kinds_[kind_of(block.count())];
    block.next = std::exchange(kept.unused, &block);
  }
  /// Frees the slabs in which no block is in use. O(unused blocks * log slabs).
  void release() noexcept {
    for (std::uint32_t number = 0; number < kinds; ++number) release(number);
  }

  /// Bytes of resident pages and lists. O(pages).
  [[nodiscard]] bytes footprint() const {
    bytes sum = 0;
    for (std::uint32_t number = 0; number < kinds; ++number) {
      sum += kinds_[number].slabs.capacity() * sizeof(slab);
      for (slab const& each : kinds_[number].slabs)
        sum += type_stable_resident(each.base, slab_bytes(number));
    }
    return sum;
  }

 private:
  struct slab {
    std::byte* base;
    std::uint32_t unused;  // number of blocks that are not in use; for `release` only
  };
  struct kind {
    slice_block* unused = nullptr;               // linked by `next`
    std::byte *fresh = nullptr, *end = nullptr;  // blocks of the latest slab that were never used
    std::vector<slab> slabs;                     // in the order of their addresses

    /// The first slab behind `address`.
    [[nodiscard]] std::vector<slab>::iterator behind(void const* address) {
      return std::upper_bound(
          slabs.begin(), slabs.end(), static_cast<std::byte const*>(address),
          [](std::byte const* left, slab const& right) { return left < right.base; });
    }
    [[nodiscard]] slab& slab_of(void const* address) { return *(behind(address) - 1); }
  };
  static constexpr std::uint32_t kinds = 8, blocks_of_slab = 32;
  static constexpr std::uint32_t min_capacity = slice_block::capacity_for(1);
  static_assert(slice_block::size / slice_block::min_slice == min_capacity << (kinds - 1));

  /// Kind k has blocks of up to 32 * 2^k slices.
  [[nodiscard]] static std::uint32_t kind_of(std::uint32_t count) {
    return static_cast<std::uint32_t>(
        std::countr_zero(slice_block::capacity_for(count) / min_capacity));
  }
  [[nodiscard]] static bytes block_bytes(std::uint32_t number) {
    return slice_block::bytes_of(min_capacity << number);
  }
  [[nodiscard]] static bytes slab_bytes(std::uint32_t number) {
    return type_stable_size(blocks_of_slab * block_bytes(number));
  }

  void release(std::uint32_t number) noexcept {
    kind& released = kinds_[number];
    auto const count = static_cast<std::uint32_t>(slab_bytes(number) / block_bytes(number));
    for (slab& each : released.slabs) each.unused = 0;
    for (slice_block* block = released.unused; block != nullptr; block = block->next)
      ++released.slab_of(block).unused;
    if (released.fresh != released.end)
      released.slab_of(released.fresh).unused += static_cast<std::uint32_t>(
          (released.end - released.fresh) / std::ptrdiff_t(block_bytes(number)));
    slice_block* kept = nullptr;
    for (slice_block* block = std::exchange(released.unused, nullptr); block != nullptr;) {
      slice_block* const next = block->next;
      if (released.slab_of(block).unused != count) block->next = std::exchange(kept, block);
      block = next;
    }
    released.unused = kept;
    if (released.fresh != released.end && released.slab_of(released.fresh).unused == count)
      released.fresh = released.end = nullptr;
    std::erase_if(released.slabs, [&](slab const& each) {
      if (each.unused != count) return false;
      type_stable_deallocate(type_stable_use::slice_blocks, each.base, slab_bytes(number));
      return true;
    });
  }

  std::array<kind, kinds> kinds_;
};

}  // namespace quarry::inline QUARRY_ABI::detail
