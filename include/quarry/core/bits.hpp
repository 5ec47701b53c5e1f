// SPDX-License-Identifier: Apache-2.0
// Bit operations on 64-bit words, with the same results on the host and on the GPU. In comments
// "a one" is a bit that is 1.
#pragma once

#include "quarry/core/config.hpp"

#include <bit>

namespace quarry::inline QUARRY_ABI {

using word = std::uint64_t;
inline constexpr std::uint32_t bits_per_word = 64;

/// The lowest `count` bits, 0 to 64.
[[nodiscard]] QUARRY_HD constexpr word low_bits(std::uint32_t count) {
  return count >= bits_per_word ? ~word{0} : (word{1} << count) - 1;
}

[[nodiscard]] QUARRY_HD constexpr std::uint32_t count_ones(word bits) {
#ifdef __CUDA_ARCH__
  return static_cast<std::uint32_t>(__popcll(bits));
#else
  return static_cast<std::uint32_t>(std::popcount(bits));
#endif
}

/// Position of the lowest one; 64 if `bits` is 0.
[[nodiscard]] QUARRY_HD constexpr std::uint32_t lowest_one(word bits) {
#ifdef __CUDA_ARCH__
  return bits == 0 ? bits_per_word
                   : static_cast<std::uint32_t>(__ffsll(static_cast<long long>(bits)) - 1);
#else
  return static_cast<std::uint32_t>(std::countr_zero(bits));
#endif
}

/// Position of the highest one. Requires `bits` to have one.
[[nodiscard]] QUARRY_HD constexpr std::uint32_t highest_one(word bits) {
#ifdef __CUDA_ARCH__
  return 63u - static_cast<std::uint32_t>(__clzll(static_cast<long long>(bits)));
#else
  return 63u - static_cast<std::uint32_t>(std::countl_zero(bits));
#endif
}

/// The lowest `count` ones of `bits`, or all of them if there are fewer.
[[nodiscard]] QUARRY_HD constexpr word lowest_ones(word bits, std::uint32_t count) {
  if (count_ones(bits) <= count) return bits;
  word upper = bits;
  QUARRY_NO_UNROLL
  for (std::uint32_t i = 0; i < count; ++i) upper &= upper - 1;
  return bits & ~upper;
}

/// Position of the one with `rank` ones below it. Requires more than `rank` ones.
[[nodiscard]] QUARRY_HD constexpr std::uint32_t select_one(word bits, std::uint32_t rank) {
  std::uint32_t position = 0;
  QUARRY_NO_UNROLL
  for (std::uint32_t width = bits_per_word / 2; width != 0; width /= 2) {
    std::uint32_t const low_ones = count_ones(bits & low_bits(width));
    if (rank < low_ones) continue;
    rank -= low_ones;
    bits >>= width;
    position += width;
  }
  return position;
}

/// A number of `width` bits, rotated to the left by `by` bits, at most `width`.
[[nodiscard]] QUARRY_HD constexpr std::uint32_t rotated(std::uint32_t number, std::uint32_t width,
                                                        std::uint32_t by) {
  return (number << by | number >> (width - by)) & ((1u << width) - 1);
}

/// Maps `random` to a number below `size`. The upper bits of `random` decide, and all numbers get
/// nearly equal shares.
[[nodiscard]] QUARRY_HD constexpr std::uint32_t scaled(std::uint32_t random, std::uint32_t size) {
  return static_cast<std::uint32_t>(std::uint64_t{random} * size >> 32);
}

/// Position of a random one; all ones are equally likely. 64 if `bits` is 0.
[[nodiscard]] QUARRY_HD constexpr std::uint32_t random_one(word bits, std::uint32_t random) {
  return bits == 0 ? bits_per_word : select_one(bits, scaled(random, count_ones(bits)));
}

/// A word whose bit i is 1 if `count` (1 to 64) consecutive ones of `bits` begin at position i.
[[nodiscard]] QUARRY_HD constexpr word starts_of_runs(word bits, std::uint32_t count) {
  for (std::uint32_t length = 1; length < count && bits != 0;) {
    std::uint32_t const step = length < count - length ? length : count - length;
    bits &= bits >> step;
    length += step;
  }
  return bits;
}

/// The lowest `runs` runs of `count` (1 to 64) consecutive ones of `bits`, or fewer if there are
/// fewer. Runs share no ones, but may be adjacent.
[[nodiscard]] QUARRY_HD constexpr word lowest_runs(word bits, std::uint32_t count,
                                                   std::uint32_t runs) {
  word found = 0;
  QUARRY_NO_UNROLL
  for (; runs != 0; --runs) {
    word const starts = starts_of_runs(bits & ~found, count);
    if (starts == 0) break;
    found |= low_bits(count) << lowest_one(starts);
  }
  return found;
}

/// Spreads consecutive numbers over all 32 bits (the finaliser of MurmurHash3, by A. Appleby).
[[nodiscard]] QUARRY_HD constexpr std::uint32_t mix(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x85ebca6bu;
  x ^= x >> 13;
  x *= 0xc2b2ae35u;
  return x ^ (x >> 16);
}

}  // namespace quarry::inline QUARRY_ABI
