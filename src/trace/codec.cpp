// SPDX-License-Identifier: Apache-2.0
#include "trace/codec.hpp"

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace quarry::inline QUARRY_ABI::trace::codec {
namespace {

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

std::uint32_t crc32c_by_tables(unsigned char const* at, std::size_t left, std::uint32_t crc) {
  for (; left >= 8; left -= 8, at += 8) {  // "slicing by 8" (Kounavis and Berry, 2005)
    std::uint32_t const low = load32(at) ^ crc;
    std::uint32_t const high = load32(at + 4);
    crc = tables[7][low & 0xff] ^ tables[6][(low >> 8) & 0xff] ^ tables[5][(low >> 16) & 0xff] ^
          tables[4][low >> 24] ^ tables[3][high & 0xff] ^ tables[2][(high >> 8) & 0xff] ^
          tables[1][(high >> 16) & 0xff] ^ tables[0][high >> 24];
  }
  for (; left > 0; --left) crc = (crc >> 8) ^ tables[0][(crc ^ *at++) & 0xff];
  return crc;
}

#if defined(__x86_64__)
/// The processor's own instruction, which is faster than the tables.
[[gnu::target("sse4.2")]] std::uint32_t crc32c_by_instruction(unsigned char const* at,
                                                              std::size_t left, std::uint32_t crc) {
  std::uint64_t wide = crc;
  for (; left >= 8; left -= 8, at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, sizeof word);
    wide = _mm_crc32_u64(wide, word);
  }
  crc = static_cast<std::uint32_t>(wide);
  for (; left > 0; --left) crc = _mm_crc32_u8(crc, *at++);
  return crc;
}
#endif

/// Reads a varint of at most 32 bits.
bool read_number(unsigned char const*& at, unsigned char const* end, std::uint32_t& value) {
  std::uint64_t wide = 0;
  if (!read_varint(at, end, wide) || wide > ~std::uint32_t{0}) return false;
  value = static_cast<std::uint32_t>(wide);
  return true;
}

}  // namespace

std::uint32_t crc32c(std::span<unsigned char const> data, std::uint32_t crc) {
#if defined(__x86_64__)
  static bool const has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return ~crc32c_by_instruction(data.data(), data.size(), ~crc);
#endif
  return ~crc32c_by_tables(data.data(), data.size(), ~crc);
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
