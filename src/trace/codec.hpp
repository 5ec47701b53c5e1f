// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes the chunks of trace files (docs/format/trace.md).
#pragma once

#include "quarry/core/detail/crc32c.hpp"
#include "quarry/trace/event.hpp"

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace quarry::inline QUARRY_ABI::trace::codec {

inline constexpr std::array<unsigned char, 8> file_magic{'Q', 'U', 'A', 'R', 'R', 'Y', 'T', 'R'};
inline constexpr std::array<unsigned char, 4> chunk_magic{'Q', 'T', 'C', 'K'};
inline constexpr std::uint32_t version = 1;
inline constexpr std::size_t file_header_bytes = 16;
inline constexpr std::size_t chunk_header_bytes = 20;
inline constexpr std::size_t max_payload = 16 << 20;

enum class chunk_kind : std::uint8_t { events = 1, names = 2 };

/// An event has at most this number of bytes: a tag and nine varints.
inline constexpr std::size_t max_event_bytes = 1 + 9 * 10;

using detail::crc32c;

inline void store32(unsigned char* target, std::uint32_t value) {
  static_assert(std::endian::native == std::endian::little);
  std::memcpy(target, &value, sizeof value);
}
[[nodiscard]] inline std::uint32_t load32(unsigned char const* source) {
  std::uint32_t value = 0;
  std::memcpy(&value, source, sizeof value);
  return value;
}

[[nodiscard]] constexpr std::uint64_t zigzag(std::uint64_t difference) {
  return (difference << 1) ^ (0 - (difference >> 63));
}
[[nodiscard]] constexpr std::uint64_t unzigzag(std::uint64_t value) {
  return (value >> 1) ^ (0 - (value & 1));
}

/// Writes a varint; returns the position after it.
inline unsigned char* put_varint(unsigned char* target, std::uint64_t value) {
  while (value >= 0x80) {
    *target++ = static_cast<unsigned char>(value | 0x80);
    value >>= 7;
  }
  *target++ = static_cast<unsigned char>(value);
  return target;
}

/// Reads a varint and moves `at` behind it. Returns false if the data end inside the varint, or if
/// it exceeds 64 bits.
inline bool read_varint(unsigned char const*& at, unsigned char const* end, std::uint64_t& value) {
  std::uint64_t result = 0;
  for (unsigned shift = 0; shift < 64 && at != end; shift += 7) {
    std::uint64_t const byte = *at++;
    result |= (byte & 0x7f) << shift;
    if (byte < 0x80) {
      value = result;
      return shift < 63 || byte <= 1;
    }
  }
  return false;
}

/// What an event is encoded relative to.
struct context {
  std::uint64_t time = 0, address = 0;
  std::uint32_t thread = 0, stream = 0, allocator = 0;
};

// Bits of an event's tag
inline constexpr unsigned char has_context = 1 << 3, has_call_site = 1 << 4, has_size = 1 << 5,
                               has_granted = 1 << 6, is_in_units = 1 << 7;

/// Writes an event of at most `max_event_bytes`; returns the position after it.
inline unsigned char* put_event(unsigned char* target, event const& value, context& before) {
  unsigned char* const tag_place = target++;
  auto tag = static_cast<unsigned char>(value.kind);
  target = put_varint(target, zigzag(value.time - before.time));
  before.time = value.time;
  if (value.thread != before.thread || value.stream != before.stream ||
      value.allocator != before.allocator) {
    tag |= has_context;
    target = put_varint(target, before.thread = value.thread);
    target = put_varint(target, before.stream = value.stream);
    target = put_varint(target, before.allocator = value.allocator);
  }
  if (value.call_site != 0) {
    tag |= has_call_site;
    target = put_varint(target, value.call_site);
  }
  if (value.size != 0) {
    tag |= has_size;
    target = put_varint(target, value.size);
  }
  if (value.granted != 0) {
    tag |= has_granted;
    target = put_varint(target, value.granted);
  }
  auto const difference = static_cast<std::int64_t>(value.address - before.address);
  before.address = value.address;
  if (difference % 16 == 0) tag |= is_in_units;
  target = put_varint(
      target,
      zigzag(static_cast<std::uint64_t>(difference % 16 == 0 ? difference / 16 : difference)));
  *tag_place = tag;
  return target;
}

/// Reads an event and moves `at` behind it. Returns false if the data are no event.
[[nodiscard]] bool read_event(unsigned char const*& at, unsigned char const* end, event& value,
                              context& before);

/// Fills in the 20 bytes before a payload.
void put_chunk_header(unsigned char* target, chunk_kind kind, std::uint32_t count,
                      std::span<unsigned char const> payload);

}  // namespace quarry::inline QUARRY_ABI::trace::codec
