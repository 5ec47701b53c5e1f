// SPDX-License-Identifier: Apache-2.0
// When a pool coalesces: gives back the blocks in which nothing is in use, and takes one in their
// place.
#pragma once

#include "quarry/core/bytes.hpp"

#include <cstdint>
#include <string>

namespace quarry {

/// What a heuristic sees of its pool. `live`, `rounded`: bytes in use as they were asked for, and
/// by the pieces that serve it.
struct pool_state {
  bytes held = 0;
  bytes releasable = 0;
  std::uint32_t releasable_blocks = 0;
  bytes live = 0, most_live = 0;
  bytes rounded = 0, most_rounded = 0;
  std::size_t free_pieces = 0;
  // bytes that could be released, summed over the frees since the last coalesce: bytes x frees
  double rent = 0;
};

/// Whose behaviour a heuristic follows.
///   poster_2022   Umpire as of the poster (seed: coalescing heuristics): blocks beyond the number;
///   the high water of what was
///                 asked for; before growth, and then grows all the same
///   umpire_2024   its release of 2024-10: that number of blocks; the high water of what is rounded
///   up, in which the block that
///                 coalescing takes counts; with one free piece nothing happens
///   quarry        that number of blocks; the high water of what users have, rounded up; before
///   growth, and grows only if still
///                 nothing fits
enum class heuristic_rules : std::uint8_t { poster_2022, umpire_2024, quarry };

/// A value: two heuristics with the same fields decide alike, so that one can be recorded and
/// replayed.
///
/// `wanted` gives how many bytes the pool should hold after coalescing, or 0: not now.
struct heuristic {
  enum class trigger : std::uint8_t { never, percent, blocks, cost };
  enum class target : std::uint8_t { held, high_water };
  enum class moment : std::uint8_t { after_free, before_growth };

  trigger when = trigger::never;
  target size = target::held;
  moment asked = moment::after_free;
  heuristic_rules rules = heuristic_rules::quarry;
  std::uint32_t parameter = 0;  // percent of bytes, or number of blocks, that can be released

  [[nodiscard]] static constexpr heuristic never() { return {}; }
  [[nodiscard]] static constexpr heuristic percent_releasable(std::uint32_t percent) {
    return {trigger::percent, {}, {}, heuristic_rules::quarry, percent};
  }
  [[nodiscard]] static constexpr heuristic blocks_releasable(std::uint32_t blocks) {
    return {trigger::blocks, {}, {}, heuristic_rules::quarry, blocks};
  }
  /// A coalesce is taken to cost as much as it does to hold `price` MiB, which could be released,
  /// while something is freed once. It comes when what was paid for holding two blocks or more has
  /// reached its price, in the manner of the ski rental (Karlin, Manasse, Rudolph and Sleator,
  /// "Competitive snoopy caching", 1988).
  [[nodiscard]] static constexpr heuristic worth(std::uint32_t price) {
    return {trigger::cost, {}, {}, heuristic_rules::quarry, price};
  }
  /// The pool is made as large as it ever had to be, not as it is.
  [[nodiscard]] constexpr heuristic to_high_water() const {
    return with(target::high_water, asked, rules);
  }
  /// Asked when nothing fits, and not after each free (the poster's coalesce-before-grow).
  [[nodiscard]] constexpr heuristic before_growth() const {
    return with(size, moment::before_growth, rules);
  }
  [[nodiscard]] constexpr heuristic by(heuristic_rules whose) const {
    return with(size, asked, whose);
  }

  [[nodiscard]] constexpr bytes wanted(pool_state const& pool) const {
    if (!fires(pool)) return 0;
    if (size == target::held) return pool.held;
    return rules == heuristic_rules::poster_2022 ? pool.most_live : pool.most_rounded;
  }

  friend constexpr bool operator==(heuristic const&, heuristic const&) = default;

 private:
  [[nodiscard]] constexpr heuristic with(target new_size, moment new_moment,
                                         heuristic_rules whose) const {
    return {when, new_size, new_moment, whose, parameter};
  }
  [[nodiscard]] constexpr bool fires(pool_state const& pool) const {
    bool const is_poster = rules == heuristic_rules::poster_2022;
    switch (when) {
      case trigger::never:
        return false;
      case trigger::blocks:
        return is_poster ? pool.releasable_blocks > parameter : pool.releasable_blocks >= parameter;
      case trigger::cost:
        return pool.releasable_blocks >= 2 && pool.rent >= static_cast<double>(parameter) * 0x1p20;
      case trigger::percent: {
        bytes const there = is_poster && pool.free_pieces < 2 ? 0 : pool.releasable;
        if (parameter == 0) return false;
        if (parameter == 100) return there == pool.held;
        return there >= static_cast<bytes>(static_cast<float>(parameter) / 100.0f *
                                           static_cast<float>(pool.held));
      }
    }
    return false;
  }
};

}  // namespace quarry
