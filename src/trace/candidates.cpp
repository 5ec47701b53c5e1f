// SPDX-License-Identifier: Apache-2.0
// The settings that `tune` tries, and their code.
#include "quarry/host/pools/stream_pool.hpp"
#include "quarry/trace/tune.hpp"
#include "trace/strategies.hpp"

#include <algorithm>
#include <string>

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

/// Designated initialisers, such as `{.first_block = 0, .next_block = 0}`.
class initialisers {
 public:
  initialisers& add(char const* name, std::string const& value) {
    text_ += text_.empty() ? "" : ", ";
    text_ += std::string{"."} + name + " = " + value;
    return *this;
  }
  initialisers& add(char const* name, std::uint64_t value) {
    return add(name, std::to_string(value));
  }
  /// Adds an option whose value is not the default.
  initialisers& add_unless(std::uint64_t default_value, char const* name, std::uint64_t value) {
    return value == default_value ? *this : add(name, value);
  }
  [[nodiscard]] std::string text() const { return "{" + text_ + "}"; }

 private:
  std::string text_;
};

std::string code_for(heuristic const& rule) {
  auto const made = [&](char const* function) {
    return std::string{"quarry::heuristic::"} + function + "(" + std::to_string(rule.parameter) +
           ")";
  };
  std::string text = "quarry::heuristic::never()";
  switch (rule.condition) {
    case heuristic::trigger::percent:
      text = made("percent_releasable");
      break;
    case heuristic::trigger::blocks:
      text = made("blocks_releasable");
      break;
    case heuristic::trigger::cost:
      text = made("by_cost");
      break;
    case heuristic::trigger::user:
      text = "quarry::heuristic::by_rule(rule)";
      break;
    case heuristic::trigger::never:
      break;
  }
  if (rule.size == heuristic::target::high_water) text += ".to_high_water()";
  if (rule.checked_at == heuristic::moment::before_growth) text += ".before_growth()";
  return text;
}

/// The sizes of a pool's blocks.
initialisers options_of_blocks(pool_options const& pool) {
  return initialisers{}
      .add("first_block", pool.first_block)
      .add("next_block", pool.next_block)
      .add("growth_percent", pool.growth_percent);
}
std::string options_of_pool(pool_options const& pool) {
  return options_of_blocks(pool)
      .add_unless(pool_options{}.alignment, "alignment", pool.alignment)
      .add_unless(no_limit, "max_bytes", pool.max_bytes)
      .add("coalesce", code_for(pool.coalesce))
      .add_unless(0, "shrink_after", pool.shrink_after)
      .text();
}
/// Streams have no heuristic, and an alignment of 256 bytes at least.
std::string options_of_stream_pool(pool_options const& pool) {
  bytes const min_alignment = stream_pool_options{}.alignment;
  return options_of_blocks(pool)
      .add_unless(min_alignment, "alignment", std::max(pool.alignment, min_alignment))
      .add_unless(no_limit, "max_bytes", pool.max_bytes)
      .text();
}
std::string options_of_stitched_pool(pool_options const& pool) {
  return initialisers{}
      .add("alignment", pool.alignment)
      .add_unless(no_limit, "max_bytes", pool.max_bytes)
      .text();
}

}  // namespace

std::vector<replay_options> all_candidates() {
  std::vector<replay_options> result;
  for (block_sizes const& block : sizes_of_blocks) {
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

std::vector<replay_options> separated_candidates(routing_table const& table) {
  std::vector<replay_options> result;
  for (block_sizes const& sizes : sizes_of_blocks) {
    for (strategy const placement : {strategy::fast, strategy::lowest_best_fit}) {
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

std::string code_for(replay_options const& options) {
  pool_options const& pool = options.pool;
  std::string const device = "quarry::device_resource{device}";
  char const* const end =
      options.rules == heuristic_rules::quarry ? "};\n" : "};  // by Quarry's rules\n";
  auto const pool_with = [&](std::string const& placement) {
    if (options.routing != nullptr)
      return std::string{"quarry::routed_pool<quarry::device_resource, "} + placement +
             "> memory{\n    " + device + ", quarry::routing_table::load(path),\n    " +
             options_of_pool(pool) + end;
    return std::string{"quarry::pool<quarry::device_resource, "} + placement + "> memory{\n    " +
           device + ",\n    " + options_of_pool(pool) + end;
  };
  std::string result;
  if (with_placement_of(options.placement, [&]<class Placement>() {
        result = pool_with(std::string{code_of_placement<Placement>()});
      }))
    return result;
  switch (options.placement) {
    case strategy::stitched:
      return "quarry::stitched_pool<quarry::cuda_pages> memory{\n    quarry::cuda_pages{device},\n"
             "    " +
             options_of_stitched_pool(pool) + "};\n";
    case strategy::streams:
      return "quarry::stream_pool memory{\n    " + device + ", quarry::cuda_streams{},\n    " +
             options_of_stream_pool(pool) + "};\n";
    case strategy::planned:
      return "quarry::planned_pool memory{\n    " + device +
             ", quarry::load_plan(path),\n    {.fallback = " + options_of_pool(pool) + "}};\n";
    case strategy::planned_streams:
      return "quarry::planned_stream_pool memory{\n    " + device +
             ", quarry::cuda_streams{}, quarry::load_plan(path),\n    {.fallback = " +
             options_of_stream_pool(pool) + "}};\n";
    default:
      break;
  }
  return "quarry::device_resource memory{device};  // no pool\n";
}

}  // namespace quarry::inline QUARRY_ABI::trace
