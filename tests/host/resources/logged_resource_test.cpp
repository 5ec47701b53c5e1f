// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/logged_resource.hpp"

#include "conformance/resources.hpp"
#include "host/pools/immediate_streams.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/host/resources/simulated_resource.hpp"
#include "quarry/host/resources/statistics_resource.hpp"
#include "quarry/host/resources/synchronized_resource.hpp"

#include <sstream>

namespace quarry::test {
namespace logged_resource_test {

logged_resource<host_resource> make() {
  static std::ostringstream text;
  return {host_resource{}, std::make_shared<allocation_log>(text)};
}
using all = testing::Types<alone<&make, true>, pooled<&make, true, fast_fit>>;
bool const is_registered = conforms("LoggedResource", all{});

/// The fields of a line except for thread and time.
struct event {
  std::string action, pointer, size, stream;
  friend bool operator==(event const&, event const&) = default;
};
std::vector<event> events_of(std::string const& text) {
  std::istringstream lines{text};
  std::string line;
  std::getline(lines, line);  // skips the names of the columns
  std::vector<event> result;
  while (std::getline(lines, line)) {
    std::istringstream fields{line};
    std::string thread, time;
    event parsed;
    for (std::string* const field :
         {&thread, &time, &parsed.action, &parsed.pointer, &parsed.size, &parsed.stream})
      std::getline(fields, *field, ',');
    result.push_back(parsed);
  }
  return result;
}
std::string text_of(void const* pointer) {
  std::ostringstream text;
  text << pointer;
  return text.str();
}

TEST(LoggedResource, WritesTheCallsOfTwoResourcesToOneLog) {
  std::ostringstream text;
  auto const log = std::make_shared<allocation_log>(text);
  logged_resource first{host_resource{}, log};
  logged_resource second{host_resource{}, log};
  void* const first_memory = first.allocate(100, 16);
  void* const second_memory = second.allocate(200, 64);
  std::vector<event> const expected{{"allocate", text_of(first_memory), "100", "0"},
                                    {"allocate", text_of(second_memory), "200", "0"},
                                    {"free", text_of(first_memory), "100", "0"},
                                    {"free", text_of(second_memory), "200", "0"}};
  first.deallocate(first_memory, 100, 16);
  second.deallocate(second_memory, 200, 64);
  EXPECT_EQ(events_of(text.str()), expected);
  EXPECT_EQ(first.log().lost(), 0u);
}

TEST(LoggedResource, WritesFailuresAndRethrowsThem) {
  std::ostringstream text;
  logged_resource source{simulated_resource{1000}, std::make_shared<allocation_log>(text)};
  EXPECT_THROW((void)source.allocate(2000, 16), out_of_memory);
  EXPECT_THROW((void)source.allocate(100, 3), bad_argument);
  std::vector<event> const expected{{"allocate failure", "(nil)", "2000", "0"},
                                    {"allocate failure", "(nil)", "100", "0"}};
  EXPECT_EQ(events_of(text.str()), expected);
}

TEST(LoggedResource, WritesTheStreamsOfAStreamPool) {
  std::ostringstream text;
  logged_resource<stream_source> source{std::make_shared<allocation_log>(text), std::in_place};
  void* const first = source.allocate(100, 256, stream_number(0x10));
  void* const second = source.allocate(200, 256, stream_number(0x20));
  void* const third = source.allocate_sync(300, 256);
  EXPECT_EQ(source.upstream().pool.counts().streams, 3u);
  source.deallocate(first, 100, 256, stream_number(0x10));
  source.deallocate(second, 200, 256, stream_number(0x20));
  source.deallocate_sync(third, 300, 256);
  std::vector<event> const expected{
      {"allocate", text_of(first), "100", "0x10"}, {"allocate", text_of(second), "200", "0x20"},
      {"allocate", text_of(third), "300", "0"},    {"free", text_of(first), "100", "0x10"},
      {"free", text_of(second), "200", "0x20"},    {"free", text_of(third), "300", "0"}};
  EXPECT_EQ(events_of(text.str()), expected);
  EXPECT_EQ(source.upstream().pool.counts().allocations_in_use, 0u);
}

TEST(LoggedResource, WritesTheCallsToAPool) {
  std::ostringstream text;
  logged_resource<synchronized_resource<pool<host_resource>>> source{
      std::make_shared<allocation_log>(text), std::in_place, host_resource{}};
  source.deallocate(source.allocate(100, 16), 100, 16);
  EXPECT_EQ(events_of(text.str()).size(), 2u);
}

TEST(LoggedResource, RefusesANullLog) {
  EXPECT_THROW((logged_resource{host_resource{}, std::shared_ptr<allocation_log>{}}), bad_argument);
}

/// In the log, each address is free when it is allocated, and allocated when it is freed. A replay
/// of the log needs this order.
TEST(LoggedResource, WritesAnOrderThatCanBeReplayed) {
  std::ostringstream text;
  logged_resource<synchronized_resource<pool<host_resource>>> source{
      std::make_shared<allocation_log>(text), std::in_place, host_resource{}};
  std::mt19937 random{5};
  std::vector<std::pair<void*, bytes>> allocated;
  for (int i = 0; i < 1000; ++i) {
    if (random() % 2 == 0 && !allocated.empty()) {
      std::swap(allocated[random() % allocated.size()], allocated.back());
      source.deallocate(allocated.back().first, allocated.back().second, 16);
      allocated.pop_back();
    } else {
      bytes const size = random() % 5000;
      allocated.emplace_back(source.allocate(size, 16), size);
    }
  }
  for (auto const& [pointer, size] : allocated) source.deallocate(pointer, size, 16);
  std::map<std::string, std::string> sizes;
  for (auto const& each : events_of(text.str())) {
    if (each.action == "allocate") {
      EXPECT_TRUE(sizes.emplace(each.pointer, each.size).second) << each.pointer;
    } else {
      EXPECT_EQ(sizes.at(each.pointer), each.size);
      sizes.erase(each.pointer);
    }
  }
  EXPECT_TRUE(sizes.empty());
}

}  // namespace logged_resource_test
}  // namespace quarry::test
