// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/core/bytes.hpp"
#include "quarry/device/orders.hpp"
#include "quarry/simt/atomic.hpp"

namespace quarry::inline QUARRY_ABI {

/// The first 16 bytes of an allocation that the lanes of a group share. Each lane has a part of the
/// same size.
///
///   |superblock|part|part| ... |part|                         without headers
///   |superblock|header|part|header|part| ... |header|part|    a header names the superblock,
///                                                             in the 8 bytes before the part
///
/// `parts` counts the parts that are not yet returned. The lane that returns the last part frees
/// the superblock (seed: GPU MPI coalescing, section 3.1).
///
/// Memory order. (K) is acquire-release: the lane that counts the last part has seen all accesses
/// of the other owners, and passes this ordering on to the upstream heap. `mark` is written before
/// the parts are allocated, and by the lane that frees the superblock. Any other lane that reads it
/// (L) either holds a part or passed a wrong pointer and gets an error.
///
/// Other bytes rarely look like a header. A header has the superblock's address, a multiple of 16,
/// in its lower 48 bits. Above it is a tag that depends on the part's address and is never 0. Bit 1
/// of the first word is clear; a dynamic superblock sets it (segment_header). The 8 bytes before
/// the first part without a header are not a header of a segment and have no tag.
struct alignas(16) superblock {
  std::uint32_t mark;
  std::uint32_t parts;
  bytes shifted_bytes;  // the size of a part times 16

  static constexpr bytes header_bytes = 16;  // only the upper 8 bytes are used

  QUARRY_HD void open(std::uint32_t count, bytes size, bool with_header) {
    mark = mark_of(this, with_header);
    parts = count;
    shifted_bytes = size << 4;
  }
  /// The bytes that the owner of a part may use.
  [[nodiscard]] QUARRY_HD bytes part_bytes() const { return shifted_bytes >> 4; }

  /// Whether this is a superblock whose parts have headers (`with_header`) or have none.
  [[nodiscard]] QUARRY_HD bool is_sound(bool with_header) const {
    simt::atomic_ref<std::uint32_t> const shared{const_cast<std::uint32_t&>(mark)};
    return shared.load(simt::relaxed) == mark_of(this, with_header);  // (L)
  }

  /// Returns `count` parts. Returns true if no part is left; the caller must then free the
  /// superblock.
  [[nodiscard]] QUARRY_HD bool give_back(std::uint32_t count = 1) {
    if (simt::atomic_ref<std::uint32_t>{parts}.fetch_sub(count, superblock_count_order) != count)
      return false;                                                 // (K)
    simt::atomic_ref<std::uint32_t>{mark}.store(0, simt::relaxed);  // (L)
    return true;
  }

  /// The number of bytes from one part to the next part.
  [[nodiscard]] QUARRY_HD static constexpr bytes stride(bytes size, bool with_header) {
    return (size == 0 ? 16 : (size + 15) / 16 * 16) + (with_header ? header_bytes : 0);
  }
  [[nodiscard]] QUARRY_HD char* part(std::uint32_t index, bool with_header) {
    return reinterpret_cast<char*>(this + 1) + index * stride(part_bytes(), with_header) +
           (with_header ? header_bytes : 0);
  }
  /// Writes the header of part `index` and returns the part.
  [[nodiscard]] QUARRY_HD char* part_with_header(std::uint32_t index) {
    char* const begin = part(index, true);
    *reinterpret_cast<std::uint64_t*>(begin - header_bytes / 2) =
        reinterpret_cast<std::uint64_t>(this) | tag_of(begin);
    return begin;
  }
  /// Returns the superblock named by the 8 bytes before `part`, or nullptr if they are not a
  /// header.
  [[nodiscard]] QUARRY_HD static superblock* named_by(std::uint64_t header, void const* part) {
    std::uint64_t const address = header & low_bits(address_bits);
    return address % 16 == 0 && header - address == tag_of(part)
               ? reinterpret_cast<superblock*>(address)
               : nullptr;
  }

  /// Whether a part may start at `pointer`.
  [[nodiscard]] QUARRY_HD bool may_have_part_at(void const* pointer, bool with_header) const {
    auto const distance =
        reinterpret_cast<std::uint64_t>(pointer) - reinterpret_cast<std::uint64_t>(this + 1);
    return is_sound(with_header) &&
           distance % stride(part_bytes(), with_header) == (with_header ? header_bytes : 0);
  }

 private:
  static constexpr std::uint32_t address_bits = 48;

  [[nodiscard]] QUARRY_HD static std::uint32_t hash_of(void const* at) {
    return static_cast<std::uint32_t>(reinterpret_cast<std::uint64_t>(at) >> 4) * 0x9e3779b1u;
  }
  [[nodiscard]] QUARRY_HD static std::uint64_t tag_of(void const* part) {
    return std::uint64_t{hash_of(part) >> 16 | 1} << address_bits;
  }
  [[nodiscard]] QUARRY_HD static std::uint32_t mark_of(superblock const* at, bool with_header) {
    std::uint32_t const hash = hash_of(at) ^ 0x53424c4bu;
    return (hash & ~7u) | (with_header ? 5u : 1u);
  }
};

static_assert(sizeof(superblock) == 16);

}  // namespace quarry::inline QUARRY_ABI
