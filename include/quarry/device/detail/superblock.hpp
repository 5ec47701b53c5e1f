// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/core/bytes.hpp"
#include "quarry/device/detail/orders.hpp"
#include "quarry/simt/atomic.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// The first 16 bytes of an allocation that lanes share, right before their parts.
///
///   |superblock|part|part| ... |part|                         parts, packed_parts
///   |superblock|header|part|header|part| ... |header|part|    parts_with_headers: a header names
///                                                             the superblock, in the 8 bytes
///                                                             before the part
///   |unused|superblock|row|row| ... |row|                     rows (lane_array)
///
/// `owners` says which parts are not freed. For `packed_parts` and `rows` it has a bit for each
/// part, and so shows a double free. Otherwise it is the number of these parts. The lane that frees
/// the last part frees the superblock (after GPU MPI coalescing, section 3.1).
///
/// `mark` depends on the address of the superblock and on the kind of its contents. So other memory
/// passes for a superblock only with a probability of 2^-28. Superblocks of rows have 61 more bits
/// that must be 0.
///
///   label  statement                       partner  guarantee
///   (K)    subtracts parts, acq_rel        (K)      the lane that removes the last owner has seen
///   (Z)    clears owners' bits, acq_rel    (Z)      all owners' accesses before it frees the
///                                                   superblock to the upstream heap
///   (L)    reads or ends `mark`                     none: it is written before malloc returns;
///                                                   later, only wrong pointers lead to it
///
/// Other bytes rarely look like a header. A header has the superblock's address, a multiple of 16,
/// in its lower 48 bits. Its upper 16 bits are a tag that depends on the part's address and is
/// never 0. Bit 1 of the superblock's first word is clear; in a dynamic superblock it is set
/// (segment_header). If parts have no headers, the 8 bytes before the first part are
/// `shifted_bytes`: they are not a header of a segment and have no tag.
struct alignas(16) superblock {
  /// The last four bits of `mark`; bit 1 is clear.
  enum class contents : std::uint32_t {
    parts = 1,
    packed_parts = 4,
    parts_with_headers = 5,
    rows = 8,
    freed_rows = 9,
  };

  std::uint32_t mark;
  std::uint32_t owners;
  bytes shifted_bytes;  // the size of a part times 16; of rows, the distance from the upstream's
                        // pointer to this superblock

  static constexpr bytes header_bytes = 16;  // only the upper 8 bytes are used
  static constexpr bytes max_row_offset = 112;
  static constexpr std::uint32_t no_part = ~std::uint32_t{0};

  QUARRY_HD void open(std::uint32_t count, bytes size, bool with_header) {
    mark = mark_of(this, with_header ? contents::parts_with_headers : contents::parts);
    owners = count;
    shifted_bytes = size << 4;
  }
  QUARRY_HD void open_packed(std::uint32_t count, bytes size) {
    mark = mark_of(this, contents::packed_parts);
    owners = static_cast<std::uint32_t>(low_bits(count));
    shifted_bytes = size << 4;
  }
  /// `offset`: bytes from the upstream's pointer to this superblock, a multiple of 16.
  QUARRY_HD void open_rows(std::uint32_t lanes, bytes offset) {
    mark = mark_of(this, contents::rows);
    owners = static_cast<std::uint32_t>(low_bits(lanes));
    shifted_bytes = offset;
  }

  /// The bytes that the owner of a part may use.
  [[nodiscard]] QUARRY_HD bytes part_bytes() const { return shifted_bytes >> 4; }
  /// The upstream allocation of rows.
  [[nodiscard]] QUARRY_HD void* upstream_memory() {
    return reinterpret_cast<char*>(this) - shifted_bytes;
  }

  [[nodiscard]] QUARRY_HD bool has(contents kind) const {
    simt::atomic_ref<std::uint32_t> const shared{const_cast<std::uint32_t&>(mark)};
    return shared.load(simt::relaxed) == mark_of(this, kind);  // (L)
  }
  /// Whether this is a superblock whose parts have headers (`with_header`) or have none.
  [[nodiscard]] QUARRY_HD bool is_sound(bool with_header) const {
    return has(with_header ? contents::parts_with_headers : contents::parts);
  }
  /// Whether this is a superblock of rows; `kind` is `rows` or `freed_rows`.
  [[nodiscard]] QUARRY_HD bool has_rows(contents kind) const {
    return has(kind) && shifted_bytes <= max_row_offset && shifted_bytes % 16 == 0;
  }

  /// Frees `count` parts. Returns true if no part is left; the caller must then free the
  /// superblock.
  [[nodiscard]] QUARRY_HD bool free_parts(std::uint32_t count = 1) {
    if (simt::atomic_ref{owners}.fetch_sub(count, superblock_count_order) != count)
      return false;  // (K)
    close();
    return true;
  }
  /// Frees the packed parts or rows in `bits`. Returns the parts that were allocated before the
  /// call. A bit of `bits` that is not in the result shows a double free. The caller must `close`
  /// and free the superblock if the result has no other bit, and at least one.
  [[nodiscard]] QUARRY_HD std::uint32_t leave(std::uint32_t bits) {
    return simt::atomic_ref{owners}.fetch_and(~bits, superblock_leave_order);  // (Z)
  }
  QUARRY_HD void close() { simt::atomic_ref{mark}.store(0, simt::relaxed); }  // (L)
  QUARRY_HD void close_rows() {
    simt::atomic_ref{mark}.store(mark_of(this, contents::freed_rows), simt::relaxed);  // (L)
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
    char* const start = part(index, true);
    *reinterpret_cast<std::uint64_t*>(start - header_bytes / 2) = header_of(start);
    return start;
  }
  /// The header of the part of this superblock that starts at `part`.
  [[nodiscard]] QUARRY_HD std::uint64_t header_of(void const* part) const {
    return reinterpret_cast<std::uint64_t>(this) | tag_of(part);
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

  /// Returns the index of the packed part that starts at `pointer`. Returns `no_part` if no part
  /// starts there or this has no packed parts.
  [[nodiscard]] QUARRY_HD std::uint32_t index_of(void const* pointer) const {
    if (!has(contents::packed_parts)) return no_part;
    bytes const distance =
        reinterpret_cast<std::uint64_t>(pointer) - reinterpret_cast<std::uint64_t>(this + 1);
    bytes const step = stride(part_bytes(), false);
    return distance % step == 0 && distance / step < simt::warp_size
               ? static_cast<std::uint32_t>(distance / step)
               : no_part;
  }

 private:
  static constexpr std::uint32_t address_bits = 48;

  [[nodiscard]] QUARRY_HD static std::uint32_t hash_of(void const* address) {
    return static_cast<std::uint32_t>(reinterpret_cast<std::uint64_t>(address) >> 4) * 0x9e3779b1u;
  }
  [[nodiscard]] QUARRY_HD static std::uint64_t tag_of(void const* part) {
    return std::uint64_t{hash_of(part) >> 16 | 1} << address_bits;
  }
  [[nodiscard]] QUARRY_HD static std::uint32_t mark_of(superblock const* address, contents kind) {
    std::uint32_t const hash = hash_of(address) ^ 0x53424c4bu;
    return (hash & ~15u) | static_cast<std::uint32_t>(kind);
  }
};

static_assert(sizeof(superblock) == 16);

}  // namespace quarry::inline QUARRY_ABI::detail
