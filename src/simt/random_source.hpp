// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/config.hpp"

#include <cstdint>

namespace quarry::inline QUARRY_ABI::simt {

/// The generator xorshift64*, by G. Marsaglia and S. Vigna. It is small, and its results are the
/// same on every machine.
class random_source {
 public:
  explicit random_source(std::uint64_t seed) : state_{seed * 0x9e3779b97f4a7c15u + 1} {}

  std::uint32_t below(std::uint64_t bound) {
    return static_cast<std::uint32_t>((next() >> 32) * bound >> 32);
  }
  /// True with a probability of `chances` / 256.
  bool happens(std::uint32_t chances) { return below(256) < chances; }

 private:
  std::uint64_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1du;
  }
  std::uint64_t state_;
};

}  // namespace quarry::inline QUARRY_ABI::simt
