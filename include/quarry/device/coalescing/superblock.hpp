// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/core/bytes.hpp"
#include "quarry/device/orders.hpp"
#include "quarry/simt/atomic.hpp"

namespace quarry::inline QUARRY_ABI {

/// One allocation that the lanes of a group share, each with a part of the same size; this is its
/// first 16 bytes.
///
///   |superblock|part|part| ... |part|                         without headers
///   |superblock|header|part|header|part| ... |header|part|    a header names the superblock,
///                                                             in the 8 bytes before the part
///
/// `parts` says how many parts are not yet returned. Whoever returns the last one frees the
/// superblock (seed: GPU MPI coalescing, section 3.1).
///
/// Memory order. (K) is acquire-release: whoever counts the last part has seen all that the owners
/// of the others did, and hands it on to the upstream heap. `mark` is written before the parts are
/// handed out and by the lane that frees it all; who looks at it (L) holds a part, or is about to
/// be refused.
///
/// What is no header hardly looks like one: a header has the superblock's address in its lower 48
/// bits, a multiple of 16, and a tag above that depends on the part's address and is never 0. The
/// first word's bit 1 is clear, that of a dynamic superblock set (segment_header). And the 8 bytes
/// before the first part without a header are neither a header of a segment nor have a tag.
struct alignas(16) superblock {
  std::uint32_t mark;
  std::uint32_t parts;
  bytes shifted_bytes;  // of a part, times 16

  static constexpr bytes header_bytes = 16;  // of which the upper 8 are used

  QUARRY_HD void open(std::uint32_t count, bytes size, bool with_header) {
    mark = mark_of(this, with_header);
    parts = count;
    shifted_bytes = size << 4;
  }
  /// That the owner of a part may use.
  [[nodiscard]] QUARRY_HD bytes part_bytes() const { return shifted_bytes >> 4; }

  /// Whether this is a superblock whose parts have headers, or have none.
  [[nodiscard]] QUARRY_HD bool is_sound(bool with_header) const {
    simt::atomic_ref<std::uint32_t> const shared{const_cast<std::uint32_t&>(mark)};
    return shared.load(simt::relaxed) == mark_of(this, with_header);  // (L)
  }

  /// True if that was the last of them: then the superblock is the caller's to free.
  [[nodiscard]] QUARRY_HD bool give_back(std::uint32_t count = 1) {
    if (simt::atomic_ref<std::uint32_t>{parts}.fetch_sub(count, superblock_count_order) != count)
      return false;                                                 // (K)
    simt::atomic_ref<std::uint32_t>{mark}.store(0, simt::relaxed);  // (L)
    return true;
  }

  /// Bytes from one part to the next.
  [[nodiscard]] QUARRY_HD static constexpr bytes stride(bytes size, bool with_header) {
    return (size == 0 ? 16 : (size + 15) / 16 * 16) + (with_header ? header_bytes : 0);
  }
  [[nodiscard]] QUARRY_HD char* part(std::uint32_t index, bool with_header) {
    return reinterpret_cast<char*>(this + 1) + index * stride(part_bytes(), with_header) +
           (with_header ? header_bytes : 0);
  }
  /// Writes the header of part `index`, and gives the part.
  [[nodiscard]] QUARRY_HD char* part_with_header(std::uint32_t index) {
    char* const begin = part(index, true);
    *reinterpret_cast<std::uint64_t*>(begin - header_bytes / 2) =
        reinterpret_cast<std::uint64_t>(this) | tag_of(begin);
    return begin;
  }
  /// The superblock that the 8 bytes before `part` name, or nullptr if they are no header.
  [[nodiscard]] QUARRY_HD static superblock* named_by(std::uint64_t header, void const* part) {
    std::uint64_t const address = header & low_bits(address_bits);
    return address % 16 == 0 && header - address == tag_of(part)
               ? reinterpret_cast<superblock*>(address)
               : nullptr;
  }

  /// Whether a part may begin at `pointer`.
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
