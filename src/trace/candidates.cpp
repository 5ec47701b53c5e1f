// SPDX-License-Identifier: Apache-2.0
// The settings that `tune` tries, and their code.
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
  struct sizes {
    bytes first, next;
    std::uint32_t growth;
  };
  std::vector<replay_options> result;
  for (sizes const& block :
       {sizes{1 << 20, 1 << 20, 0}, sizes{0, 0, 4}, sizes{64 << 20, 64 << 20, 25}}) {
    for (strategy const placement : {strategy::fast, strategy::lowest_best_fit}) {
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
  for (strategy const placement : {strategy::fast, strategy::lowest_best_fit}) {
    for (unsigned const percent : {100u, 102u, 105u, 110u, 120u}) {
      bytes const first = (peak_allocated / 100 * percent + page - 1) / page * page;
      for (bytes const next : {bytes{2} << 20, bytes{32} << 20})
        result.push_back(candidate(placement, heuristic::never(), first, next, 0));
    }
  }
  return result;
}

std::vector<replay_options> published_candidates(heuristic_rules rules) {
  std::vector<replay_options> result;
  auto const add = [&](heuristic const& rule) {
    result.push_back(
        candidate(strategy::oldest_best_fit, rule.with_rules(rules), 1 << 20, 1 << 20, 0));
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

std::string code_for(replay_options const& options) {
  if (options.placement == strategy::direct)
    return "quarry::device_resource memory{device};  // no pool\n";
  if (options.placement == strategy::stitched)
    return "quarry::stitched_pool<quarry::cuda_pages> memory{quarry::cuda_pages{device}};\n";
  if (options.placement == strategy::streams)
    return "quarry::stream_pool memory{quarry::device_resource{device}, quarry::cuda_streams{}};\n";
  if (options.placement == strategy::planned)
    return "quarry::trace::planned_pool memory{quarry::device_resource{device},\n"
           "                                   quarry::trace::load_plan(path)};\n";
  std::string const placement = options.placement == strategy::fast ? "quarry::fast_fit"
                                : options.placement == strategy::lowest_best_fit
                                    ? "quarry::chunk_arena<quarry::lowest_best_fit>"
                                    : "quarry::chunk_arena<quarry::oldest_best_fit>";
  heuristic const& rule = options.pool.coalesce;
  std::string text = "quarry::heuristic::never()";
  switch (rule.condition) {
    case heuristic::trigger::percent:
      text = "quarry::heuristic::percent_releasable(" + std::to_string(rule.parameter) + ")";
      break;
    case heuristic::trigger::blocks:
      text = "quarry::heuristic::blocks_releasable(" + std::to_string(rule.parameter) + ")";
      break;
    case heuristic::trigger::cost:
      text = "quarry::heuristic::by_cost(" + std::to_string(rule.parameter) + ")";
      break;
    case heuristic::trigger::never:
    case heuristic::trigger::user:
      break;
  }
  if (rule.size == heuristic::target::high_water) text += ".to_high_water()";
  if (rule.checked_at == heuristic::moment::before_growth) text += ".before_growth()";
  if (rule.rules == heuristic_rules::poster_2022)
    text += ".with_rules(quarry::heuristic_rules::poster_2022)";
  if (rule.rules == heuristic_rules::umpire_2024)
    text += ".with_rules(quarry::heuristic_rules::umpire_2024)";
  return "quarry::pool<quarry::device_resource, " + placement +
         "> memory{\n    quarry::device_resource{device},\n    {.first_block = " +
         std::to_string(options.pool.first_block) +
         ", .next_block = " + std::to_string(options.pool.next_block) +
         ", .growth_percent = " + std::to_string(options.pool.growth_percent) +
         ",\n     .coalesce = " + text + "}};\n";
}

}  // namespace quarry::inline QUARRY_ABI::trace
