// SPDX-License-Identifier: Apache-2.0
// The settings that `tune` tries.
#include "quarry/trace/tune.hpp"

namespace quarry::inline QUARRY_ABI::trace {
namespace {

replay_options candidate(strategy placement, heuristic const& rule, bytes first, bytes next,
                         std::uint32_t growth) {
  return {
      .placement = placement,
      .pool = {
          .first_block = first, .next_block = next, .growth_percent = growth, .coalesce = rule}};
}

struct block_sizes {
  bytes first, next;
  std::uint32_t growth;
};
constexpr block_sizes sizes_of_blocks[] = {
    {1 << 20, 1 << 20, 0}, {0, 0, 4}, {64 << 20, 64 << 20, 25}};

/// Each rule, with its four variants.
std::vector<heuristic> all_heuristics() {
  std::vector<heuristic> result{heuristic::never()};
  auto const add = [&](heuristic const& rule) {
    for (auto const& each : {rule, rule.to_high_water()}) {
      result.push_back(each);
      result.push_back(each.before_growth());
    }
  };
  for (std::uint32_t const percent : {50u, 75u, 90u, 100u})
    add(heuristic::percent_releasable(percent));
  for (std::uint32_t const blocks : {2u, 3u, 5u, 7u, 12u})
    add(heuristic::blocks_releasable(blocks));
  for (std::uint32_t const price : {1024u, 16'384u, 262'144u}) add(heuristic::by_cost(price));
  return result;
}

}  // namespace

std::vector<replay_options> all_candidates() {
  std::vector<replay_options> result;
  for (block_sizes const& block : sizes_of_blocks) {
    for (strategy const placement : {strategy::fast_fit, strategy::lowest_best_fit}) {
      for (heuristic const& rule : all_heuristics())
        result.push_back(candidate(placement, rule, block.first, block.next, block.growth));
    }
  }
  result.push_back(candidate(strategy::stitched, heuristic::never(), 0, 0, 4));
  return result;
}

std::vector<replay_options> sized_candidates(bytes peak_allocated) {
  std::vector<replay_options> result;
  constexpr bytes page = 2 << 20;
  for (strategy const placement : {strategy::fast_fit, strategy::lowest_best_fit}) {
    for (unsigned const percent : {100u, 102u, 105u, 110u, 120u}) {
      bytes const first = (peak_allocated / 100 * percent + page - 1) / page * page;
      for (bytes const next : {bytes{2} << 20, bytes{32} << 20})
        result.push_back(candidate(placement, heuristic::never(), first, next, 0));
    }
  }
  return result;
}

std::vector<replay_options> separated_candidates(routing_table const& table) {
  std::vector<replay_options> result;
  for (block_sizes const& sizes : sizes_of_blocks) {
    for (strategy const placement : {strategy::fast_fit, strategy::lowest_best_fit}) {
      result.push_back(
          candidate(placement, heuristic::never(), sizes.first, sizes.next, sizes.growth));
      result.back().routing = &table;
    }
  }
  return result;
}

std::vector<replay_options> published_candidates(heuristic_rules rules) {
  std::vector<replay_options> result;
  auto const add = [&](heuristic const& rule) {
    result.push_back(candidate(strategy::oldest_best_fit, rule, 1 << 20, 1 << 20, 0));
    result.back().rules = rules;
  };
  constexpr std::uint32_t counts[] = {2, 3, 5, 7, 12};
  for (std::uint32_t const percent : {50u, 75u, 90u, 100u})
    add(heuristic::percent_releasable(percent));
  for (std::uint32_t const blocks : counts) add(heuristic::blocks_releasable(blocks));
  for (std::uint32_t const blocks : counts)
    add(heuristic::blocks_releasable(blocks).to_high_water());
  for (std::uint32_t const blocks : counts)
    add(heuristic::blocks_releasable(blocks).before_growth());
  return result;
}

}  // namespace quarry::inline QUARRY_ABI::trace
