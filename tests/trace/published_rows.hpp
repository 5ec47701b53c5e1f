// SPDX-License-Identifier: Apache-2.0
// What two versions of Umpire did with the trace simulation_trace{80, 1}: measured with first and
// next blocks of 1 MiB.
#pragma once

#include "quarry/trace/replay.hpp"

namespace quarry::test {

inline constexpr bytes published_peak_allocated = 369'052'815;

/// A setting that ended. `blocks_allocated` and `blocks_returned` are calls of the upstream until
/// the end of the trace.
struct published_row {
  trace::replay_heuristic rule;
  std::uint64_t coalesces;
  bytes peak_reserved;
  std::uint64_t blocks_allocated, blocks_returned;
};

/// With the rules of the version of 2021, on which the poster is based.
constexpr trace::replay_heuristic of_2021(heuristic const& rule) {
  return {rule, trace::heuristic_rules::poster_2022};
}
/// With the rules of the release of 2024-10.
constexpr trace::replay_heuristic of_2024(heuristic const& rule) {
  return {rule, trace::heuristic_rules::umpire_2024};
}
constexpr heuristic blocks(std::uint32_t n) { return heuristic::blocks_releasable(n); }
constexpr heuristic percent(std::uint32_t n) { return heuristic::percent_releasable(n); }

inline constexpr published_row published_rows[] = {
    {of_2021(percent(100)), 1, 1524738336, 106, 105},
    {of_2021(blocks(2)), 27, 387927744, 110, 108},
    {of_2021(blocks(3)), 19, 394972080, 97, 96},
    {of_2021(blocks(5)), 10, 418714144, 65, 60},
    {of_2021(blocks(7)), 7, 424903680, 59, 56},
    {of_2021(blocks(12)), 3, 402195072, 49, 39},
    {of_2021(blocks(2).to_high_water()), 39, 410380896, 148, 147},
    {of_2021(blocks(3).to_high_water()), 14, 437153952, 106, 104},
    {of_2021(blocks(5).to_high_water()), 12, 487313136, 105, 102},
    {of_2021(blocks(7).to_high_water()), 9, 413095312, 94, 88},
    {of_2021(blocks(12).to_high_water()), 5, 400996800, 82, 78},
    {of_2021(blocks(2).before_growth()), 5, 407453648, 65, 32},
    {of_2021(blocks(3).before_growth()), 5, 397142640, 65, 32},
    {of_2021(blocks(5).before_growth()), 3, 395831808, 58, 24},
    {of_2021(blocks(7).before_growth()), 2, 405024448, 51, 17},
    {of_2021(blocks(12).before_growth()), 1, 398723888, 47, 14},
    {of_2024(percent(100)), 1, 1524738336, 106, 105},
    {of_2024(percent(100).to_high_water()), 1, 1524738336, 106, 105},
    {of_2024(blocks(2)), 50, 419313984, 141, 140},
    {of_2024(blocks(3)), 27, 387927744, 110, 108},
    {of_2024(blocks(5)), 11, 434017344, 77, 75},
    {of_2024(blocks(7)), 6, 396248640, 65, 63},
    {of_2024(blocks(12)), 4, 426054000, 51, 48},
    {of_2024(blocks(2).to_high_water()), 62, 415529680, 205, 204},
    {of_2024(blocks(3).to_high_water()), 22, 412394432, 110, 108},
    {of_2024(blocks(5).to_high_water()), 13, 393541392, 121, 120},
    {of_2024(blocks(7).to_high_water()), 12, 486058240, 128, 126},
    {of_2024(blocks(12).to_high_water()), 5, 393461072, 71, 60},
};

/// Settings without a result: Umpire crashed. Its coalesce frees a block through the function that
/// asks the heuristic, which then coalesces again. Quarry's coalesce does not ask the heuristic.
inline constexpr trace::replay_heuristic crashed_settings[] = {
    of_2021(percent(50)),
    of_2021(percent(75)),
    of_2021(percent(90)),
    of_2024(percent(50)),
    of_2024(percent(75)),
    of_2024(percent(90)),
    of_2024(percent(50).to_high_water()),
    of_2024(percent(75).to_high_water()),
    of_2024(percent(90).to_high_water()),
};

}  // namespace quarry::test
