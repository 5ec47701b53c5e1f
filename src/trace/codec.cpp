// SPDX-License-Identifier: Apache-2.0
#include "trace/codec.hpp"

namespace quarry::inline QUARRY_ABI::trace::codec {
namespace {

constexpr unsigned char has_context = 1 << 3, has_call_site = 1 << 4, has_size = 1 << 5,
                        has_granted = 1 << 6, is_in_units = 1 << 7;
constexpr std::uint32_t polynomial = 0x82f63b78;  // of CRC-32C, reflected

/// table[k][b]: the checksum of byte b followed by k bytes of 0.
constexpr auto make_tables() {
  std::array<std::array<std::uint32_t, 256>, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? polynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < 8; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      std::uint32_t const before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xff];
    }
  }
  return tables;
}
constexpr auto tables = make_tables();

/// Reads a varint of at most 32 bits.
bool read_number(unsigned char const*& at, unsigned char const* end, std::uint32_t& value) {
  std::uint64_t wide = 0;
  if (!read_varint(at, end, wide) || wide > ~std::uint32_t{0}) return false;
  value = static_cast<std::uint32_t>(wide);
  return true;
}

}  // namespace

std::uint32_t crc32c(std::span<unsigned char const> data, std::uint32_t crc) {
  crc = ~crc;
  unsigned char const* at = data.data();
  std::size_t left = data.size();
  for (; left >= 8; left -= 8, at += 8) {  // "slicing by 8" (Kounavis and Berry, 2005)
    std::uint32_t const low = load32(at) ^ crc;
    std::uint32_t const high = load32(at + 4);
    crc = tables[7][low & 0xff] ^ tables[6][(low >> 8) & 0xff] ^ tables[5][(low >> 16) & 0xff] ^
          tables[4][low >> 24] ^ tables[3][high & 0xff] ^ tables[2][(high >> 8) & 0xff] ^
          tables[1][(high >> 16) & 0xff] ^ tables[0][high >> 24];
  }
  for (; left > 0; --left) crc = (crc >> 8) ^ tables[0][(crc ^ *at++) & 0xff];
  return ~crc;
}

unsigned char* put_event(unsigned char* target, event const& value, context& before) {
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

bool read_event(unsigned char const*& at, unsigned char const* end, event& value, context& before) {
  if (at == end) return false;
  unsigned char const tag = *at++;
  if ((tag & 7) >= event_kinds) return false;
  value = {};
  value.kind = static_cast<event_kind>(tag & 7);
  std::uint64_t difference = 0;
  if (!read_varint(at, end, difference)) return false;
  value.time = before.time += unzigzag(difference);
  if ((tag & has_context) != 0 &&
      !(read_number(at, end, before.thread) && read_number(at, end, before.stream) &&
        read_number(at, end, before.allocator)))
    return false;
  value.thread = before.thread;
  value.stream = before.stream;
  value.allocator = before.allocator;
  if ((tag & has_call_site) != 0 && !read_number(at, end, value.call_site)) return false;
  if ((tag & has_size) != 0 && !read_varint(at, end, value.size)) return false;
  if ((tag & has_granted) != 0 && !read_varint(at, end, value.granted)) return false;
  if (!read_varint(at, end, difference)) return false;
  difference = unzigzag(difference);
  value.address = before.address += (tag & is_in_units) != 0 ? difference << 4 : difference;
  return true;
}

void put_chunk_header(unsigned char* target, chunk_kind kind, std::uint32_t count,
                      std::span<unsigned char const> payload) {
  std::memcpy(target, chunk_magic.data(), chunk_magic.size());
  store32(target + 4, static_cast<std::uint32_t>(kind));
  store32(target + 8, static_cast<std::uint32_t>(payload.size()));
  store32(target + 12, count);
  store32(target + 16, crc32c(payload, crc32c({target, 16})));
}

}  // namespace quarry::inline QUARRY_ABI::trace::codec
