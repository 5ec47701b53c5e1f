// SPDX-License-Identifier: Apache-2.0
// Copies by the loads and stores of one thread. It is a GPU's way for short copies and for stacks.
#pragma once

#include "world.hpp"

/// Unrolls a loop of constant length, so that its array lies in registers.
#ifdef __CUDA_ARCH__
#define QUARRY_UNROLL _Pragma("unroll")
#else
#define QUARRY_UNROLL
#endif

namespace quarry::inline QUARRY_ABI::mpi {

/// The bytes that one instruction of a GPU can load or store.
#ifdef __CUDACC__
using granule = uint4;
using narrow_word = std::uint32_t;
using long_word = std::uint64_t;
#else
struct [[gnu::may_alias]] alignas(16) granule {
  std::uint32_t x, y, z, w;
};
using narrow_word [[gnu::may_alias]] = std::uint32_t;
using long_word [[gnu::may_alias]] = std::uint64_t;
#endif
inline constexpr std::uint32_t granule_bytes = sizeof(granule);

/// How a thread divides a copy: `head` bytes, then granules at aligned addresses of the
/// destination, then `tail` bytes. Head and tail have fewer than 32 bytes if there are granules;
/// if there are none, the head is everything, fewer than 64 bytes.
struct copy_parts {
  std::uint32_t head;
  std::uint32_t tail;
  bytes granules;
  /// How far the source's addresses are beyond aligned ones where the destination's are aligned. If
  /// it is not 0, granule i comes from the source's aligned granules i and i + 1. All of these lie
  /// in the source.
  std::uint32_t shift;
};

[[nodiscard]] QUARRY_HD constexpr copy_parts parts_of(std::uint64_t to, std::uint64_t from,
                                                      bytes size) {
  auto const target = static_cast<std::uint32_t>(to);
  std::uint32_t const shift = (static_cast<std::uint32_t>(from) - target) % granule_bytes;
  std::uint32_t head = (0 - target) % granule_bytes;
  if (head < shift) head += granule_bytes;  // the first aligned granule begins before the source
  std::uint32_t const beyond = (0 - shift) % granule_bytes;  // of the last aligned granule
  if (size < head + beyond + granule_bytes) return {static_cast<std::uint32_t>(size), 0, 0, shift};
  bytes const granules = (size - head - beyond) / granule_bytes;
  return {head, static_cast<std::uint32_t>(size - head - granules * granule_bytes), granules,
          shift};
}

/// How many loads are in flight together. A load takes some 350 cycles of a GPU, and an instruction
/// of a thread some 6. More would not fit in the registers of ranks that have few.
inline constexpr std::uint32_t copy_batch = 8;

/// Copies at most N units. All loads precede all stores.
template <class Unit, std::uint32_t N>
QUARRY_HD inline void copy_at_most(Unit* to, Unit const* from, std::uint32_t count) {
  Unit loaded[N];
  QUARRY_UNROLL
  for (std::uint32_t k = 0; k < N; ++k)
    if (k < count) loaded[k] = from[k];
  QUARRY_UNROLL
  for (std::uint32_t k = 0; k < N; ++k)
    if (k < count) to[k] = loaded[k];
}

template <class Unit, std::uint32_t N>
QUARRY_HD inline void copy_units(void* to, void const* from, bytes count) {
  auto* out = static_cast<Unit*>(to);
  auto const* in = static_cast<Unit const*>(from);
  QUARRY_NO_UNROLL
  for (; count >= N; count -= N) {
    Unit loaded[N];
    QUARRY_UNROLL
    for (std::uint32_t k = 0; k < N; ++k) loaded[k] = in[k];
    QUARRY_UNROLL
    for (std::uint32_t k = 0; k < N; ++k) out[k] = loaded[k];
    in += N;
    out += N;
  }
  if (count != 0) copy_at_most<Unit, N>(out, in, static_cast<std::uint32_t>(count));
}

/// The upper word of `high` and `low`, shifted to the right by `bits` < 32.
[[nodiscard]] QUARRY_HD inline std::uint32_t funnel(std::uint32_t low, std::uint32_t high,
                                                    std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __funnelshift_r(low, high, bits);
#else
  return static_cast<std::uint32_t>((std::uint64_t{high} << 32 | low) >> bits);
#endif
}

/// Sixteen bytes of two neighbouring granules, from word `First` and, unless `IsWhole`, bit `bits`
/// of it.
template <std::uint32_t First, bool IsWhole>
[[nodiscard]] QUARRY_HD inline granule window(granule const& low, granule const& high,
                                              std::uint32_t bits) {
  std::uint32_t const words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
  if constexpr (IsWhole)
    return {words[First], words[First + 1], words[First + 2], words[First + 3]};
  else
    return {funnel(words[First], words[First + 1], bits),
            funnel(words[First + 1], words[First + 2], bits),
            funnel(words[First + 2], words[First + 3], bits),
            funnel(words[First + 3], words[First + 4], bits)};
}

/// Copies granules from a source whose addresses are 4 * First + bits / 8 bytes beyond aligned
/// ones. `from` is the aligned address below.
template <std::uint32_t First, bool IsWhole>
QUARRY_HD inline void copy_shifted(granule* to, granule const* from, bytes count,
                                   std::uint32_t bits) {
  constexpr std::uint32_t batch = 4;
  granule low = *from++;
  QUARRY_NO_UNROLL
  for (; count >= batch; count -= batch) {
    granule next[batch];
    QUARRY_UNROLL
    for (std::uint32_t k = 0; k < batch; ++k) next[k] = from[k];
    QUARRY_UNROLL
    for (std::uint32_t k = 0; k < batch; ++k) {
      to[k] = window<First, IsWhole>(low, next[k], bits);
      low = next[k];
    }
    from += batch;
    to += batch;
  }
  QUARRY_NO_UNROLL
  for (; count != 0; --count) {
    granule const next = *from++;
    *to++ = window<First, IsWhole>(low, next, bits);
    low = next;
  }
}

/// Copies granules whose source is `shift` bytes beyond aligned addresses.
template <bool IsWhole>
QUARRY_SLOW void copy_shifted_by(granule* to, granule const* from, bytes count,
                                 std::uint32_t shift) {
  std::uint32_t const bits = shift % 4 * 8;
  if (shift < 4) return copy_shifted<0, IsWhole>(to, from, count, bits);
  if (shift < 8) return copy_shifted<1, IsWhole>(to, from, count, bits);
  if (shift < 12) return copy_shifted<2, IsWhole>(to, from, count, bits);
  copy_shifted<3, IsWhole>(to, from, count, bits);
}

/// Copies by words or bytes.
QUARRY_SLOW inline void copy_narrow(void* to, void const* from, std::uint32_t size) {
  auto const all =
      reinterpret_cast<std::uint64_t>(to) | reinterpret_cast<std::uint64_t>(from) | size;
  if (all % sizeof(narrow_word) == 0) {
    copy_units<narrow_word, 16>(to, from, size / sizeof(narrow_word));
  } else {
    copy_units<char, 16>(to, from, size);
  }
}

/// Copies bytes that do not overlap.
QUARRY_SLOW inline void copy_by_thread(void* to, void const* from, bytes size) {
  auto const all =
      reinterpret_cast<std::uint64_t>(to) | reinterpret_cast<std::uint64_t>(from) | size;
  bool const is_aligned = all % granule_bytes == 0;
  // The latency of a load is waited for once for all words here, but once for each part below.
  if (!is_aligned && (size <= 64 || (size <= 512 && all % sizeof(narrow_word) == 0)))
    return copy_narrow(to, from, static_cast<std::uint32_t>(size));
  auto* const out = static_cast<char*>(to);
  auto const* const in = static_cast<char const*>(from);
  copy_parts const parts = is_aligned ? copy_parts{0, 0, size / granule_bytes, 0}
                                      : parts_of(reinterpret_cast<std::uint64_t>(to),
                                                 reinterpret_cast<std::uint64_t>(from), size);
  if (parts.granules != 0) {
    auto* const aligned = reinterpret_cast<granule*>(out + parts.head);
    auto const* const below = reinterpret_cast<granule const*>(in + parts.head - parts.shift);
    if (parts.shift == 0) {
      copy_units<granule, copy_batch>(aligned, below, parts.granules);
    } else if (parts.shift % 4 == 0) {
      copy_shifted_by<true>(aligned, below, parts.granules, parts.shift);
    } else {
      copy_shifted_by<false>(aligned, below, parts.granules, parts.shift);
    }
  }
  if (parts.head != 0) copy_narrow(out, in, parts.head);
  if (parts.tail != 0) copy_narrow(out + (size - parts.tail), in + (size - parts.tail), parts.tail);
}

/// Copies units from the first to the last, or from the last to the first. The buffers may overlap
/// if the destination lies before the source, or behind it.
template <class Unit, std::uint32_t N>
QUARRY_HD inline void move_units(void* to, void const* from, bytes count, bool is_backward) {
  if (!is_backward) return copy_units<Unit, N>(to, from, count);
  auto* const out = static_cast<Unit*>(to);
  auto const* const in = static_cast<Unit const*>(from);
  QUARRY_NO_UNROLL
  while (count != 0) {
    std::uint32_t const part = count < N ? static_cast<std::uint32_t>(count) : N;
    count -= part;
    copy_at_most<Unit, N>(out + count, in + count, part);
  }
}

/// Copies bytes that may overlap.
QUARRY_SLOW inline void move_by_thread(void* to, void const* from, bytes size) {
  auto const target = reinterpret_cast<std::uint64_t>(to);
  auto const source = reinterpret_cast<std::uint64_t>(from);
  bool const is_backward = target > source;
  if ((target | source | size) % sizeof(long_word) == 0) {
    move_units<long_word, 8>(to, from, size / sizeof(long_word), is_backward);
  } else if ((target | source | size) % sizeof(narrow_word) == 0) {
    move_units<narrow_word, 8>(to, from, size / sizeof(narrow_word), is_backward);
  } else {
    move_units<char, 16>(to, from, size, is_backward);
  }
}

/// Writes the same byte everywhere.
QUARRY_SLOW inline void fill_by_thread(void* to, unsigned char value, bytes size) {
  auto* out = static_cast<unsigned char*>(to);
  std::uint32_t const four = value * 0x01010101u;
  granule const pattern{four, four, four, four};
  bytes head = (0 - reinterpret_cast<std::uint64_t>(to)) % granule_bytes;
  if (head > size) head = size;
  QUARRY_NO_UNROLL
  for (bytes i = 0; i < head; ++i) out[i] = value;
  out += head;
  size -= head;
  QUARRY_NO_UNROLL
  for (; size >= 4 * granule_bytes; size -= 4 * granule_bytes) {
    QUARRY_UNROLL
    for (std::uint32_t k = 0; k < 4; ++k) reinterpret_cast<granule*>(out)[k] = pattern;
    out += 4 * granule_bytes;
  }
  QUARRY_NO_UNROLL
  for (; size >= granule_bytes; size -= granule_bytes) {
    *reinterpret_cast<granule*>(out) = pattern;
    out += granule_bytes;
  }
  QUARRY_NO_UNROLL
  for (bytes i = 0; i < size; ++i) out[i] = value;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
