// SPDX-License-Identifier: Apache-2.0
// The C library's random numbers, with glibc's sequences. Each rank has its own.
#include "c_library.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

QUARRY_HD std::uint32_t next_random(random_sequence& sequence) {
  std::uint32_t const sum = sequence.words[sequence.front] += sequence.words[sequence.back];
  sequence.front = sequence.front == 30 ? 0 : sequence.front + 1;
  sequence.back = sequence.back == 30 ? 0 : sequence.back + 1;
  return sum >> 1;
}

inline constexpr std::uint64_t mask48 = (std::uint64_t{1} << 48) - 1;

/// The next number of 48 bits.
QUARRY_HD std::uint64_t next48(std::uint64_t& number) {
  c_library const& library = own_library();
  number = (number * library.random48_factor + library.random48_term) & mask48;
  return number;
}

/// The same for a number in an array of three words, the lowest first.
QUARRY_HD std::uint64_t next48(unsigned short* words) {
  std::uint64_t number = words[0] | std::uint64_t{words[1]} << 16 | std::uint64_t{words[2]} << 32;
  next48(number);
  for (int i = 0; i < 3; ++i) words[i] = static_cast<unsigned short>(number >> 16 * i);
  return number;
}

QUARRY_HD double as_fraction(std::uint64_t number) {
  return static_cast<double>(number) / 281474976710656.0;
}

}  // namespace

QUARRY_SLOW void seed_random(random_sequence& sequence, std::uint32_t seed) {
  auto word = static_cast<std::int32_t>(seed == 0 ? 1 : seed);
  sequence.words[0] = static_cast<std::uint32_t>(word);
  for (int i = 1; i < 31; ++i) {
    std::int64_t product = std::int64_t{16807} * word % 2147483647;
    if (product < 0) product += 2147483647;
    word = static_cast<std::int32_t>(product);
    sequence.words[i] = static_cast<std::uint32_t>(word);
  }
  sequence.front = 3;
  sequence.back = 0;
  for (int i = 0; i < 310; ++i) (void)next_random(sequence);
}

}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD void quarry_c_srandom(unsigned seed) { seed_random(own_library().random, seed); }
QUARRY_HD void quarry_c_srand(unsigned seed) { quarry_c_srandom(seed); }
QUARRY_HD long quarry_c_random() { return static_cast<long>(next_random(own_library().random)); }
QUARRY_HD int quarry_c_rand() { return static_cast<int>(next_random(own_library().random)); }

QUARRY_HD int quarry_c_rand_r(unsigned* seed) {
  unsigned next = *seed;
  unsigned result = 0;
  for (int i = 0; i < 3; ++i) {
    next = next * 1103515245u + 12345u;
    result = i == 0 ? next >> 16 & 0x7ff : result << 10 ^ (next >> 16 & 0x3ff);
  }
  *seed = next;
  return static_cast<int>(result);
}

QUARRY_HD void quarry_c_srand48(long seed) {
  c_library& library = own_library();
  library.random48 = (static_cast<std::uint64_t>(seed) & 0xffffffff) << 16 | 0x330e;
  library.random48_factor = 0x5deece66d;
  library.random48_term = 0xb;
}
QUARRY_HD double quarry_c_drand48() { return as_fraction(next48(own_library().random48)); }
QUARRY_HD double quarry_c_erand48(unsigned short* words) { return as_fraction(next48(words)); }
QUARRY_HD long quarry_c_lrand48() {
  return static_cast<long>(next48(own_library().random48) >> 17);
}
QUARRY_HD long quarry_c_nrand48(unsigned short* words) {
  return static_cast<long>(next48(words) >> 17);
}
QUARRY_HD long quarry_c_mrand48() {
  return static_cast<std::int32_t>(next48(own_library().random48) >> 16);
}
QUARRY_HD long quarry_c_jrand48(unsigned short* words) {
  return static_cast<std::int32_t>(next48(words) >> 16);
}

}  // extern "C"
