// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/planned_block.hpp"

#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/simulated_resource.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace {

using namespace quarry;
using quarry::bytes;
using quarry::host_resource;
using quarry::memory_location;
namespace registry = quarry::registry;

plan four_places() {
  return {.size = 1024,
          .period_begin = 4,
          .allocations = {{256, 0, 4}, {256, 256, 4}, {256, 512, 4}, {256, 768, 4}}};
}
auto always() {
  return [](bytes) { return true; };
}

TEST(PlannedBlock, RegistersThePlacesInUseAndTheirLabels) {
  host_resource memory{};
  planned_block tested{memory, four_places(), {.name = "places"}, false};
  auto* const place = static_cast<char*>(tested.allocate(1, 256, 200, 1, always()));
  auto const found = registry::find(place + 199);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->base, place);
  EXPECT_EQ(found->size, 200u);
  EXPECT_EQ(found->allocator, tested.id());
  EXPECT_EQ(registry::name_of(tested.id()), "places");
  EXPECT_FALSE(registry::find(place + 200));
  EXPECT_FALSE(registry::find(place - 1));
  EXPECT_FALSE(tested.label(place + 16, {"interior", {}}));
  EXPECT_TRUE(tested.label(place, {"weights", {}}));
  EXPECT_EQ(registry::label_of(place + 100)->name, "weights");
  EXPECT_EQ(tested.audit(), std::vector<std::string>{});
  EXPECT_TRUE(tested.deallocate(place));
  EXPECT_FALSE(registry::find(place));
  EXPECT_EQ(tested.allocate(1, 256, 10, 1, always()), place);
  EXPECT_FALSE(registry::label_of(place));
  EXPECT_GT(tested.footprint(), 0u);
}

TEST(PlannedBlock, HasNoRecordsUnlessItIsTracked) {
  host_resource memory{};
  planned_block tested{memory, four_places(), {.is_tracked = false}, false};
  void* const place = tested.allocate(0, 256, 256, 1, always());
  EXPECT_EQ(tested.id(), 0u);
  EXPECT_FALSE(registry::find(place));
  EXPECT_FALSE(tested.label(place, {"none", {}}));
}

TEST(PlannedBlock, KeepsBacktracesIfTheOptionsSaySo) {
  host_resource memory{};
  planned_block tested{memory, four_places(), {.keeps_backtraces = true}, false};
  void* const place = tested.allocate(0, 256, 256, 1, always());
  auto const label = registry::label_of(place);
  if (!label) GTEST_SKIP() << "the platform has no backtraces";
  EXPECT_FALSE(label->frames.empty());
}

TEST(PlannedBlock, TakesNoPlaceThatTheCallerOrTheAlignmentRefuses) {
  quarry::simulated_resource memory{};
  planned_block tested{memory, four_places(), {}, false};
  EXPECT_EQ(tested.allocate(1, 256, 256, 1, [](bytes offset) { return offset != 256; }), nullptr);
  EXPECT_EQ(tested.allocate(1, 256, 256, bytes{1} << 40, always()), nullptr);
  EXPECT_EQ(tested.places().count(), 0u);
  EXPECT_NE(tested.allocate(1, 256, 256, 1, always()), nullptr);
}

TEST(PlannedBlock, OfAnEmptyPlanTakesNoMemory) {
  quarry::simulated_resource memory{};
  planned_block tested{memory, plan{}, {}, false};
  EXPECT_FALSE(tested.contains(nullptr));
  EXPECT_FALSE(tested.deallocate(nullptr));
  EXPECT_EQ(tested.size_of(nullptr), std::nullopt);
  EXPECT_TRUE(tested.audit().empty());
}

TEST(PlannedBlock, AgreesWithTheRegistryAfterEachCall) {
  for (unsigned seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random{seed};
    plan served{.size = 16'384, .period_begin = 100};
    for (std::uint64_t i = 0; i < 100; ++i)
      served.allocations.push_back({256 * (1 + random() % 4), 256 * (random() % 60), i + 1});
    host_resource memory{};
    planned_block tested{memory, served, {}, false};
    std::map<void*, bytes> model;
    for (int step = 0; step < 400; ++step) {
      if (random() % 2 == 0 || model.empty()) {
        auto const number = static_cast<std::uint32_t>(random() % 100);
        bytes const granted = served.allocations[number].size, size = granted - random() % 200;
        if (void* const place = tested.allocate(number, granted, size, 1, always())) {
          model[place] = size;
          if (random() % 4 == 0) {
            ASSERT_TRUE(tested.label(place, {"label", {}}));
          }
        }
      } else {
        auto const victim = std::next(model.begin(), std::ptrdiff_t(random() % model.size()));
        ASSERT_EQ(tested.deallocate(victim->first).requested, victim->second);
        ASSERT_FALSE(tested.deallocate(victim->first));
        model.erase(victim);
      }
      ASSERT_EQ(tested.audit(), std::vector<std::string>{});
      auto const records = registry::allocations(tested.id());
      ASSERT_EQ(records.size(), model.size());
      for (auto const& each : records) ASSERT_EQ(model.at(each.base), each.size);
    }
  }
}

}  // namespace
