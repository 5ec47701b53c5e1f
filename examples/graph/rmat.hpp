// SPDX-License-Identifier: Apache-2.0
// Random graphs with skewed degrees like real graphs. A seed gives the same graph on every
// platform.
#pragma once

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include "graph/edge.hpp"

namespace quarry::graph_demo {

/// The probabilities of the quadrants of the adjacency matrix. Their sum is 1. Names as in the
/// paper.
struct rmat_probabilities {
  double a = 0.57;  ///< Lower half of the sources, lower half of the targets.
  double b = 0.19;  ///< Lower half of the sources, upper half of the targets.
  double c = 0.19;  ///< Upper half of the sources, lower half of the targets.
  double d = 0.05;  ///< Upper half of the sources, upper half of the targets.
};

/// SplitMix64 (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
class splitmix64 {
 public:
  explicit constexpr splitmix64(std::uint64_t seed) : state_{seed} {}

  constexpr std::uint64_t operator()() {
    std::uint64_t mixed = state_ += 0x9E37'79B9'7F4A'7C15u;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58'476D'1CE4'E5B9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D0'49BB'1331'11EBu;
    return mixed ^ (mixed >> 31);
  }

 private:
  std::uint64_t state_;
};

/// Draws `edges` edges over 2^scale vertices. For each edge the function halves the adjacency
/// matrix `scale` times. It keeps duplicates and self-loops, and low ids have high degrees. With
/// the same seed, a longer graph begins with the shorter one. Chakrabarti, Zhan, Faloutsos: "R-MAT:
/// A Recursive Model for Graph Mining", SIAM Data Mining 2004.
///
/// Each level compares 32 random bits with fixed-point limits, so that floating-point rounding
/// cannot change an edge: a double times 2^32 is exact, and the sums of the limits are integers.
/// Throws `std::invalid_argument` if `scale` > 31 (so that `no_vertex` cannot occur) or if
/// `chances` are no probabilities. O(edges * scale).
[[nodiscard]] inline std::vector<edge> rmat(unsigned scale, std::uint64_t edges, std::uint64_t seed,
                                            rmat_probabilities const& chances = {}) {
  if (scale > 31) throw std::invalid_argument{"rmat: scale must be at most 31"};
  for (double const chance : {chances.a, chances.b, chances.c, chances.d}) {
    if (!(chance >= 0 && chance <= 1)) {
      throw std::invalid_argument{"rmat: a probability is not from 0 to 1"};
    }
  }
  if (std::abs(chances.a + chances.b + chances.c + chances.d - 1) > 1e-9) {
    throw std::invalid_argument{"rmat: the probabilities do not add up to 1"};
  }
  auto const fixed = [](double chance) { return static_cast<std::uint64_t>(chance * 0x1p32); };
  auto const end_of_a = fixed(chances.a);
  auto const end_of_b = end_of_a + fixed(chances.b);
  auto const end_of_c = end_of_b + fixed(chances.c);

  splitmix64 random{seed};
  std::vector<edge> result(edges);
  for (auto& [source, target] : result) {
    for (unsigned level = 0; level != scale; ++level) {
      auto const draw = random() >> 32;
      bool const is_upper_source = draw >= end_of_b;
      bool const is_upper_target = is_upper_source ? draw >= end_of_c : draw >= end_of_a;
      source = source << 1 | std::uint32_t{is_upper_source};
      target = target << 1 | std::uint32_t{is_upper_target};
    }
  }
  return result;
}

}  // namespace quarry::graph_demo
