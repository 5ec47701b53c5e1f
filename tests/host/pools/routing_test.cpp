// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/routing.hpp"

#include "quarry/core/errors.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

namespace quarry {
namespace routing_test {

std::string file(std::string const& name) { return testing::TempDir() + "/routing_" + name; }

std::string written(std::string const& name, std::string const& text) {
  std::ofstream{file(name)} << text;
  return file(name);
}

/// The message of the exception that loading throws.
std::string refusal(std::string const& path) {
  try {
    (void)routing_table::load(path);
  } catch (error const& failure) {
    return failure.message();
  }
  return "loaded";
}

TEST(RoutingTable, TheFirstRouteThatMatchesCounts) {
  routing_table const table{
      {{2, 100, 200, "loop.py:3"}, {1, 0, 1000, ""}, {3, 0, no_limit, "loop.py:3"}}};
  EXPECT_EQ(table.pools(), 4u);
  EXPECT_EQ(table.pool_for(100, "loop.py:3"), 2u);
  EXPECT_EQ(table.pool_for(200, "loop.py:3"), 2u);
  EXPECT_EQ(table.pool_for(201, "loop.py:3"), 1u);
  EXPECT_EQ(table.pool_for(1001, "loop.py:3"), 3u);
  EXPECT_EQ(table.pool_for(150), 1u);
  EXPECT_EQ(table.pool_for(1001), 0u) << "no route matches";
  EXPECT_EQ(routing_table{}.pools(), 1u);
}

TEST(RoutingTable, ARouteOfAPhaseMatchesInThatPhaseOnly) {
  routing_table const table{{{.pool = 2, .phase = "solve"}, {.pool = 1, .max_size = 100}}};
  EXPECT_EQ(table.pool_for(5, "", "solve"), 2u);
  EXPECT_EQ(table.pool_for(5, "", "set up"), 1u);
  EXPECT_EQ(table.pool_for(5), 1u);
  EXPECT_EQ(table.pool_for(101, "", "set up"), 0u);
}

TEST(RoutingTable, RefusesRoutesThatCannotBe) {
  EXPECT_THROW(routing_table({{routing_table::max_pools, 0, 1, ""}}), bad_argument);
  EXPECT_THROW(routing_table({{0, 2, 1, ""}}), bad_argument);
  EXPECT_THROW(routing_table({{0, 0, 1, "two\nlines"}}), bad_argument);
  EXPECT_THROW(routing_table({{0, 0, 1, "", "two\nlines"}}), bad_argument);
}

TEST(RoutingTable, ASavedTableLoadsUnchanged) {
  std::mt19937_64 random{testing::UnitTest::GetInstance()->random_seed() + 1u};
  for (int round = 0; round < 50; ++round) {
    std::vector<route> routes;
    for (std::size_t i = random() % 20; i > 0; --i) {
      bytes const low = random() >> (random() % 64);
      bytes const high = random() % 3 == 0 ? no_limit : low + (random() >> 40);
      std::string const sites[] = {"", " ", "a b  c", "-", "file.py:3 f < g.py:1 h", "\"x\","};
      routes.push_back({static_cast<std::uint32_t>(random() % 16), low, std::max(low, high),
                        sites[random() % std::size(sites)], sites[random() % std::size(sites)]});
    }
    routing_table const table{routes};
    table.save(file("table"));
    EXPECT_EQ(routing_table::load(file("table")).routes(), routes);
  }
}

TEST(RoutingTable, AFileWithAFaultIsRefusedByItsLine) {
  auto const head = std::string{"quarry-routes 1\n"};
  EXPECT_NE(refusal(file("missing")).find("cannot open"), std::string::npos);
  EXPECT_NE(refusal(written("empty", "")).find("empty:1: the first line"), std::string::npos);
  EXPECT_NE(refusal(written("version", "quarry-routes 2\n")).find(":1: "), std::string::npos);
  for (char const* const line : {"", "1", "1 2", "x 0 1", "1 0 y", "1 5 4", "16 0 1", "-1 0 1",
                                 "1 0 99999999999999999999"}) {
    EXPECT_NE(refusal(written("line", head + "0 0 - \n" + line + "\n")).find("line:3: "),
              std::string::npos)
        << line;
  }
  EXPECT_THROW(routing_table{}.save("/no/such/folder/table"), resource_failed);
  EXPECT_THROW(routing_table{}.save("/dev/full"), resource_failed);
}

}  // namespace routing_test
}  // namespace quarry
