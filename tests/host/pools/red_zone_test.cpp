// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/red_zone.hpp"

#include "quarry/host/detail/poison.hpp"
#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/simulated_resource.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace quarry::test {

using namespace detail;
namespace red_zone_test {

using host_pool = pool<host_resource>;

TEST(RedZone, FindsTheFirstChangedByte) {
  char zone[20];
  red_zone::fill(zone, sizeof zone);
  EXPECT_EQ(red_zone::changed_byte(zone, sizeof zone), std::nullopt);
  zone[19] = zone[7] = 0;
  EXPECT_EQ(red_zone::changed_byte(zone, sizeof zone), 7u);
  EXPECT_EQ(red_zone::changed_byte(zone, 7), std::nullopt);
}

TEST(RedZone, IsRefusedIfItIsTooLargeOrUntouchableForTheHost) {
  EXPECT_THROW((pool<simulated_resource>{simulated_resource{}, {.red_zone = 16}}), bad_argument);
  EXPECT_THROW((host_pool{host_resource{}, {.red_zone = 65'537}}), bad_argument);
}

TEST(RedZone, LiesBehindEachAllocationOfAnySize) {
  host_pool source{host_resource{}, {.red_zone = 24}};
  std::mt19937 random{3};
  std::vector<std::pair<char*, bytes>> allocated;
  for (int step = 0; step < 2000; ++step) {
    if (random() % 3 != 0 || allocated.empty()) {
      bytes const size = random() % 500;
      allocated.emplace_back(static_cast<char*>(source.allocate(size)), size);
      std::memset(allocated.back().first, 0, size);
      EXPECT_EQ(source.size_of(allocated.back().first), size);
      for (auto const& [base, other] : allocated) {
        if (base == allocated.back().first) continue;
        ASSERT_TRUE(base + other + 24 <= allocated.back().first ||
                    allocated.back().first + size + 24 <= base);
      }
    } else {
      auto const at = allocated.begin() + static_cast<std::ptrdiff_t>(random() % allocated.size());
      ASSERT_TRUE(source.deallocate(at->first));
      allocated.erase(at);
    }
  }
  EXPECT_EQ(source.audit(), std::vector<std::string>{});
  EXPECT_EQ(source.counts().overruns, 0u);
}

#if !QUARRY_ADDRESS_SANITIZER  // AddressSanitizer reports the write itself
std::vector<std::string> reports;

TEST(RedZone, AnOverrunByOneByteIsCountedAndReportedWithAddressSizeAndName) {
  reports.clear();
  host_pool source{host_resource{},
                   {.name = "fields", .red_zone = 16, .on_overrun = [](std::string const& line) {
                      reports.push_back(line);
                    }}};
  auto* const memory = static_cast<char*>(source.allocate(100, std::string{"density"}));
  memory[100] = 1;
  ASSERT_EQ(source.audit().size(), 1u);
  EXPECT_TRUE(reports.empty());
  EXPECT_TRUE(source.deallocate(memory)) << "the pool frees the allocation nevertheless";
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_TRUE(reports[0].starts_with("fields: overrun of 0x")) << reports[0];
  EXPECT_TRUE(reports[0].ends_with(", 100 bytes (density): byte 100 was written")) << reports[0];
  EXPECT_EQ(source.counts().overruns, 1u);
  EXPECT_FALSE(source.deallocate(memory));
  EXPECT_EQ(source.counts().overruns, 1u) << "a double free is no overrun";
  EXPECT_EQ(source.audit(), std::vector<std::string>{});
}
TEST(RedZone, IsReportedToStandardErrorByDefault) {
  host_pool source{host_resource{}, {.red_zone = 16}};
  auto* const memory = static_cast<char*>(source.allocate(0));
  memory[15] = 1;
  testing::internal::CaptureStderr();
  EXPECT_TRUE(source.deallocate(memory));
  EXPECT_NE(testing::internal::GetCapturedStderr().find("0 bytes: byte 15 was written"),
            std::string::npos);
}
TEST(RedZone, AnExceptionOfTheReportIsDiscarded) {
  host_pool source{host_resource{}, {.red_zone = 16, .on_overrun = [](std::string const&) {
                                       throw bad_argument{"unwilling"};
                                     }}};
  auto* const memory = static_cast<char*>(source.allocate(8));
  memory[8] = 1;
  EXPECT_TRUE(source.deallocate(memory));
  EXPECT_EQ(source.counts().overruns, 1u);
}
#endif

}  // namespace red_zone_test
}  // namespace quarry::test
