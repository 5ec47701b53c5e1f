// SPDX-License-Identifier: Apache-2.0
// The code of settings.
#include "quarry/host/pools/cuda_streams.hpp"
#include "quarry/host/pools/planned_pool.hpp"
#include "quarry/host/pools/planned_stream_pool.hpp"
#include "quarry/host/pools/pool.hpp"
#include "quarry/host/pools/routed_pool.hpp"
#include "quarry/host/pools/stitched_pool.hpp"
#include "quarry/host/pools/stream_pool.hpp"
#include "quarry/host/resources/cuda_resources.hpp"
#include "quarry/platform/cuda_pages.hpp"
#include "quarry/trace/tune.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace {

using namespace quarry;
using namespace quarry::trace;
using quarry::heuristic;

std::string without_spaces(std::string text) {
  text.resize(std::min(text.size(), text.find("//")));
  std::erase_if(text, [](char letter) { return letter == ' ' || letter == '\n'; });
  return text;
}

/// Compiles the code, and expects it from `code_for`.
#define EXPECT_CODE(options, ...)                                                    \
  do {                                                                               \
    [[maybe_unused]] auto const compiled = [](int device, std::string const& path) { \
      auto const rule = [](quarry::pool_state const&) { return quarry::bytes{0}; };  \
      __VA_ARGS__(void) memory;                                                      \
      (void)device, (void)path, (void)rule;                                          \
    };                                                                               \
    EXPECT_EQ(without_spaces(code_for(options)), without_spaces(#__VA_ARGS__));      \
  } while (false)

TEST(Candidates, CodeOfPoolsHasAllOptions) {
  replay_options tested{
      .pool = {.coalesce = heuristic::blocks_releasable(3).to_high_water().before_growth()},
      .rules = heuristic_rules::umpire_2024};
  // clang-format off
  EXPECT_CODE(tested, quarry::pool<quarry::device_resource, quarry::fast_fit> memory{
      quarry::device_resource{device},
      {.first_block = 0, .next_block = 0, .growth_percent = 4,
       .coalesce = quarry::heuristic::blocks_releasable(3).to_high_water().before_growth()}};);
  EXPECT_TRUE(code_for(tested).ends_with("};  // by Quarry's rules\n"));
  tested = {.placement = strategy::lowest_best_fit,
            .pool = {.first_block = 1 << 20, .next_block = 4096, .growth_percent = 25,
                     .alignment = 512, .max_bytes = 1 << 30, .coalesce = heuristic::by_cost(1024),
                     .shrink_after = 100}};
  EXPECT_CODE(tested,
      quarry::pool<quarry::device_resource, quarry::chunk_arena<quarry::lowest_best_fit>> memory{
          quarry::device_resource{device},
          {.first_block = 1048576, .next_block = 4096, .growth_percent = 25, .alignment = 512,
           .max_bytes = 1073741824, .coalesce = quarry::heuristic::by_cost(1024),
           .shrink_after = 100}};);
  auto const own_rule = [](quarry::pool_state const&) { return quarry::bytes{0}; };
  tested = {.placement = strategy::oldest_best_fit,
            .pool = {.coalesce = heuristic::by_rule(own_rule)}};
  EXPECT_CODE(tested,
      quarry::pool<quarry::device_resource, quarry::chunk_arena<quarry::oldest_best_fit>> memory{
          quarry::device_resource{device},
          {.first_block = 0, .next_block = 0, .growth_percent = 4,
           .coalesce = quarry::heuristic::by_rule(rule)}};);
  // clang-format on
}

TEST(Candidates, CodeOfSeparatedPoolsLoadsTheirRoutes) {
  routing_table const table{{route{.pool = 1}}};
  auto const all = separated_candidates(table);
  EXPECT_EQ(all.size(), 6u);
  for (auto const& each : all) EXPECT_EQ(each.routing, &table);
  // clang-format off
  EXPECT_CODE(all[1],
      quarry::routed_pool<quarry::device_resource,
                                 quarry::chunk_arena<quarry::lowest_best_fit>> memory{
          quarry::device_resource{device}, quarry::routing_table::load(path),
          {.first_block = 1048576, .next_block = 1048576, .growth_percent = 0,
           .coalesce = quarry::heuristic::never()}};);
  // clang-format on
}

TEST(Candidates, CodeOfOtherStrategiesHasTheirOptions) {
  quarry::pool_options const pool{
      .first_block = 4096, .next_block = 8192, .alignment = 512, .max_bytes = 1 << 30};
  // clang-format off
  replay_options tested{.placement = strategy::stitched, .pool = pool};
  EXPECT_CODE(tested, quarry::stitched_pool<quarry::cuda_pages> memory{
      quarry::cuda_pages{device}, {.alignment = 512, .max_bytes = 1073741824}};);
  tested.placement = strategy::streams;
  EXPECT_CODE(tested, quarry::stream_pool memory{
      quarry::device_resource{device}, quarry::cuda_streams{},
      {.first_block = 4096, .next_block = 8192, .growth_percent = 4, .alignment = 512,
       .max_bytes = 1073741824}};);
  tested.placement = strategy::planned;
  EXPECT_CODE(tested, quarry::planned_pool memory{
      quarry::device_resource{device}, quarry::load_plan(path),
      {.fallback = {.first_block = 4096, .next_block = 8192, .growth_percent = 4,
                    .alignment = 512, .max_bytes = 1073741824,
                    .coalesce = quarry::heuristic::never()}}};);
  tested.placement = strategy::planned_streams;
  EXPECT_CODE(tested, quarry::planned_stream_pool memory{
      quarry::device_resource{device}, quarry::cuda_streams{}, quarry::load_plan(path),
      {.fallback = {.first_block = 4096, .next_block = 8192, .growth_percent = 4,
                    .alignment = 512, .max_bytes = 1073741824}}};);
  tested.placement = strategy::direct;
  EXPECT_CODE(tested, quarry::device_resource memory{device};);
  // clang-format on
}

}  // namespace
