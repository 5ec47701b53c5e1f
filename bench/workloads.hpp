// SPDX-License-Identifier: Apache-2.0
// What a thread does with an array of its own, of n floats that are 0, 1, ..., n - 1 at first
// (seed: GPU MPI coalescing, listing 2).
//
// Each workload gives a sum and leaves it in data[0]. Sums but quadratic's are whole numbers below
// 2^24, products too: whoever adds in this order gets the same float, with fused operations or
// without, so that results are compared exactly.
//
//   linear     every element once, in order. The paper's.
//   quadratic  every element with every element. The paper's.
//   strided    every element once, but every 8th first, then from 1 on every 8th, ...: no two
//   accesses in a row are of one 32-byte
//              sector, so that a sector is fetched eight times unless the cache holds the array
//              meanwhile. Lanes stay in step.
//   gather     n elements, each found by the value of the one before, from a place that depends on
//   the lane: one load waits for
//              another, and lanes of a warp are at different indices. Latency, and no order that a
//              layout could make use of.
//   scan       prefix sum in place, then back: each element is read and written twice, each write
//   needs the read before it.
#pragma once

#include "quarry/core/config.hpp"

#include <cstdint>

namespace bench {

struct linear {
  static constexpr char const* name = "linear";

  template <class Array>
  QUARRY_HD static float run(std::uint32_t n, Array& data, std::uint32_t) {
    float sum = 0;
    for (std::uint32_t i = 0; i < n; ++i) sum += data[i];
    data[0] = sum;
    return sum;
  }
};

struct quadratic {
  static constexpr char const* name = "quadratic";

  template <class Array>
  QUARRY_HD static float run(std::uint32_t n, Array& data, std::uint32_t) {
    float sum = 0;
    for (std::uint32_t i = 0; i < n; ++i)
      for (std::uint32_t j = 0; j < n; ++j) sum += data[i] * data[j];
    data[0] = sum;
    return sum;
  }
};

struct strided {
  static constexpr char const* name = "strided";
  static constexpr std::uint32_t stride = 8;

  template <class Array>
  QUARRY_HD static float run(std::uint32_t n, Array& data, std::uint32_t) {
    float sum = 0;
    for (std::uint32_t first = 0; first < stride; ++first)
      for (std::uint32_t i = first; i < n; i += stride) sum += data[i];
    data[0] = sum;
    return sum;
  }
};

struct gather {
  static constexpr char const* name = "gather";

  template <class Array>
  QUARRY_HD static float run(std::uint32_t n, Array& data, std::uint32_t lane) {
    float sum = 0;
    std::uint32_t at = lane % n;
    for (std::uint32_t i = 0; i < n; ++i) {
      float const value = data[at];
      sum += value;
      at = (static_cast<std::uint32_t>(value) * 5 + lane + i) % n;
    }
    data[0] = sum;
    return sum;
  }
};

struct scan {
  static constexpr char const* name = "scan";

  template <class Array>
  QUARRY_HD static float run(std::uint32_t n, Array& data, std::uint32_t) {
    for (std::uint32_t i = 1; i < n; ++i) data[i] += data[i - 1];
    float const sum = data[n - 1];
    for (std::uint32_t i = n - 1; i > 0; --i) data[i] -= data[i - 1];
    data[0] = sum;
    return sum;
  }
};

/// Calls `body.template operator()<Workload>()` for each.
template <class Body>
void for_all_workloads(Body body) {
  body.template operator()<linear>();
  body.template operator()<quadratic>();
  body.template operator()<strided>();
  body.template operator()<gather>();
  body.template operator()<scan>();
}

}  // namespace bench
