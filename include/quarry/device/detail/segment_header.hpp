// SPDX-License-Identifier: Apache-2.0
// Headers of dynamically coalesced allocations: 8, 4 or 2 bytes before the payload.
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/core/bytes.hpp"
#include "quarry/device/detail/orders.hpp"
#include "quarry/simt/atomic.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// The header of one segment of a dynamic superblock (after GPU MPI coalescing, section 3.2).
///
/// The payload's address determines the width of the header: 8 bytes at multiples of 8, 4 bytes at
/// other multiples of 4, 2 bytes at other multiples of 2.
///
///            is_free  is_superblock  is_last  is_dynamic  distance / 2      size
///   8 bytes  bit 0    bit 1          bit 2    bit 3       31 bits           29 bits, in units of 8
///   4 bytes  bit 0    bit 1          bit 2                14 bits           15 bits, in units of 4
///   2 bytes  bit 0    bit 1          bit 2                 7 bits            6 bits
///
/// `distance` is the distance from the payload back to the payload of the previous segment.
/// `is_dynamic` distinguishes an 8-byte header from the address of a static superblock, which is a
/// multiple of 16. The header in the paper has no size; `realloc` needs the size.
///
/// The header of an allocated segment changes at most three times, so no loop of this class has
/// more than three iterations: free is wait-free.
///
///   label  statement                              partner  guarantee
///   (Q)    `change`, acq_rel; `load`, acquire     (Q)      a lane that finds a segment free, or
///                                                          becomes responsible for the superblock,
///                                                          has seen the owner's accesses before
///                                                          it frees to the upstream heap
class segment_header {
 public:
  static constexpr std::uint64_t is_free = 1;
  static constexpr std::uint64_t is_superblock = 2;
  static constexpr std::uint64_t is_last = 4;
  static constexpr std::uint64_t is_dynamic = 8;

  QUARRY_HD explicit segment_header(void* payload) : payload_{static_cast<char*>(payload)} {}

  /// The width of the header: 8, 4 or 2. Returns 0 if no payload can have this address.
  [[nodiscard]] QUARRY_HD static constexpr std::uint32_t width_at(std::uint64_t address) {
    return address % 8 == 0 ? 8 : address % 4 == 0 ? 4 : address % 2 == 0 ? 2 : 0;
  }

  /// The width of the narrowest header for `size` bytes if the previous payload is at most
  /// `distance` bytes away. A size that is a multiple of 8 gives an alignment of at least 8; a
  /// multiple of 4, at least 4.
  [[nodiscard]] QUARRY_HD static constexpr std::uint32_t width_for(bytes size, bytes distance) {
    if (size % 8 == 0) return 8;
    if (size % 4 != 0 && size < 64 && distance <= 127 * 2) return 2;
    return size <= 32767 * 4 && distance <= 16383 * 2 ? 4 : 8;
  }
  /// The maximum sizes. The distance to the next payload exceeds the size by at most 31, and must
  /// fit in the header.
  static constexpr bytes max_bytes = (bytes{1} << 32) - 64;
  static constexpr bytes max_distance = bytes{(1u << 31) - 1} * 2;
  static_assert(max_bytes + 31 <= max_distance);

  [[nodiscard]] QUARRY_HD std::uint32_t width() const {
    return width_at(reinterpret_cast<std::uint64_t>(payload_));
  }
  [[nodiscard]] QUARRY_HD char* address() const { return payload_ - width(); }

  /// Writes the header before malloc returns the payload.
  QUARRY_HD void write(std::uint64_t flags, bytes distance, bytes size) const {
    switch (width()) {
      case 8:
        as<std::uint64_t>() = flags | is_dynamic | distance / 2 << 4 | (size + 7) / 8 << 35;
        break;
      case 4:
        as<std::uint32_t>() =
            static_cast<std::uint32_t>(flags | distance / 2 << 3 | (size + 3) / 4 << 17);
        break;
      default:
        as<std::uint16_t>() = static_cast<std::uint16_t>(flags | distance / 2 << 3 | size << 10);
        break;
    }
  }

  [[nodiscard]] QUARRY_HD std::uint64_t load() const {
    switch (width()) {
      case 8:
        return simt::atomic_ref{as<std::uint64_t>()}.load(header_load_order);  // (Q)
      case 4:
        return simt::atomic_ref{as<std::uint32_t>()}.load(header_load_order);  // (Q)
      default:
        return simt::short_ref{as<std::uint16_t>()}.load();
    }
  }

  /// Sets `flag` unless a bit of `blocking` is set. `current` is the expected header. On success
  /// `current` holds the header before the change; on failure, the current header.
  [[nodiscard]] QUARRY_HD bool set(std::uint64_t& current, std::uint64_t flag,
                                   std::uint64_t blocking) const {
    while ((current & blocking) == 0) {
      if (change(current, current | flag)) return true;
      current = load();
    }
    return false;
  }

  [[nodiscard]] QUARRY_HD bytes distance(std::uint64_t header) const {
    std::uint32_t const bits = width() == 8 ? 31 : width() == 4 ? 14 : 7;
    return (header >> (width() == 8 ? 4 : 3) & low_bits(bits)) * 2;
  }
  [[nodiscard]] QUARRY_HD bytes size(std::uint64_t header) const {
    return width() == 8 ? (header >> 35) * 8 : width() == 4 ? (header >> 17) * 4 : header >> 10;
  }

  /// Whether the header can be valid: only the first segment has a distance of 0.
  [[nodiscard]] QUARRY_HD bool is_plausible(std::uint64_t header) const {
    return ((header & is_superblock) != 0) == (distance(header) == 0);
  }

  /// Whether the superblock at `base` is dynamic. The first bytes of a dynamic superblock are the
  /// first segment's header, or `mark_base` wrote them. A static superblock begins with its mark
  /// (superblock).
  [[nodiscard]] QUARRY_HD static bool begins_at(void* base) {
    return (simt::short_ref{*static_cast<std::uint16_t*>(base)}.load() & is_superblock) != 0;
  }
  QUARRY_HD static void mark_base(void* base) {
    *static_cast<std::uint64_t*>(base) = is_superblock;
  }

  /// The base address of the superblock. Requires that this is the superblock's first segment.
  [[nodiscard]] QUARRY_HD void* base() const {
    return reinterpret_cast<void*>(reinterpret_cast<std::uint64_t>(address()) & ~std::uint64_t{15});
  }

 private:
  /// The header, of which `Word` has the width.
  template <class Word>
  [[nodiscard]] QUARRY_HD Word& as() const {
    return *reinterpret_cast<Word*>(address());
  }

  [[nodiscard]] QUARRY_HD bool change(std::uint64_t& expected, std::uint64_t desired) const {
    switch (width()) {
      case 8:
        return simt::atomic_ref{as<std::uint64_t>()}.compare_exchange(expected, desired,
                                                                      header_change_order);  // (Q)
      case 4: {
        auto narrow = static_cast<std::uint32_t>(expected);
        bool const has_changed = simt::atomic_ref{as<std::uint32_t>()}.compare_exchange(
            narrow, static_cast<std::uint32_t>(desired), header_change_order);  // (Q)
        expected = narrow;
        return has_changed;
      }
      default: {
        auto narrow = static_cast<std::uint16_t>(expected);
        bool const has_changed = simt::short_ref{as<std::uint16_t>()}.compare_exchange(
            narrow, static_cast<std::uint16_t>(desired));
        expected = narrow;
        return has_changed;
      }
    }
  }

  char* payload_;
};

}  // namespace quarry::inline QUARRY_ABI::detail
