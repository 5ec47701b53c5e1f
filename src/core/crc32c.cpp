// SPDX-License-Identifier: Apache-2.0
#include "quarry/core/detail/crc32c.hpp"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace quarry::inline QUARRY_ABI::detail {
namespace {

[[nodiscard]] std::uint32_t load32(unsigned char const* source) {
  static_assert(std::endian::native == std::endian::little);
  std::uint32_t result;
  std::memcpy(&result, source, sizeof result);
  return result;
}

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

}  // namespace

std::uint32_t crc32c(std::span<unsigned char const> data, std::uint32_t crc) {
#if defined(__x86_64__)
  static bool const has_instruction = __builtin_cpu_supports("sse4.2") != 0;
  if (has_instruction) return ~crc32c_by_instruction(data.data(), data.size(), ~crc);
#endif
  return ~crc32c_by_tables(data.data(), data.size(), ~crc);
}

}  // namespace quarry::inline QUARRY_ABI::detail
