// SPDX-License-Identifier: Apache-2.0
// The work of a thread on its own array of n floats, which are 0, 1, ..., n - 1 at first (seed: GPU
// MPI coalescing, listing 2).
//
// Each workload computes a sum and stores it in data[0]. All sums but quadratic's are whole numbers
// below 2^24, and so are the products. Every machine that adds in this order gets the same float,
// with fused operations or without, so the host compares results exactly.
//
//   linear     Every element once, in order. From the paper.
//   quadratic  Every element with every element. From the paper.
//   strided    Every element once: first every 8th element from 0 on, then every 8th from 1 on, and
//              so on. Two consecutive accesses never lie in the same 32-byte sector. So a sector is
//              fetched eight times, unless the cache keeps the array. Lanes stay in step.
//   gather     n elements. The value of each element gives the index of the next; the first index
//              depends on the lane. Each load waits for the load before it, and the lanes of a warp
//              are at different indices. This measures latency in an order that no layout can use.
//   scan       The prefix sum in place, and its inverse. Each element is read and written twice.
//              Each write needs the read before it.
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
    std::uint32_t index = lane % n;
    for (std::uint32_t i = 0; i < n; ++i) {
      float const value = data[index];
      sum += value;
      index = (static_cast<std::uint32_t>(value) * 5 + lane + i) % n;
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

/// Calls `body.template operator()<Workload>()` for each workload.
template <class Body>
void for_all_workloads(Body body) {
  body.template operator()<linear>();
  body.template operator()<quadratic>();
  body.template operator()<strided>();
  body.template operator()<gather>();
  body.template operator()<scan>();
}

}  // namespace bench
