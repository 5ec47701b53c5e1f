// SPDX-License-Identifier: Apache-2.0
#include "trace/codec.hpp"

namespace quarry::inline QUARRY_ABI::trace::codec {
namespace {

/// Reads a varint of at most 32 bits.
bool read_number(unsigned char const*& at, unsigned char const* end, std::uint32_t& value) {
  std::uint64_t wide = 0;
  if (!read_varint(at, end, wide) || wide > ~std::uint32_t{0}) return false;
  value = static_cast<std::uint32_t>(wide);
  return true;
}

}  // namespace

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
