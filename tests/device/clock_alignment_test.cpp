// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/clock_alignment.hpp"

#include "support/backends.hpp"

#include <cmath>
#include <thread>

namespace quarry {
namespace clock_alignment_test {

using namespace test;

template <class Backend>
class ReadClocks : public testing::Test {};
TYPED_TEST_SUITE(ReadClocks, backends, backend_names);

TYPED_TEST(ReadClocks, ReadsTheDeviceBetweenTwoReadingsOfTheHost) {
  TypeParam const backend{1};
  auto const heap = backend.make_heap({.bytes = 1_MiB, .segment_bytes = 64_KiB});
  auto launch = [&](simt::grid lanes, auto const& kernel) { backend.run(lanes, kernel); };
  auto const host_ns = [] {
    return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                          std::chrono::steady_clock::now().time_since_epoch())
                                          .count());
  };
  std::uint64_t const begin = host_ns();
  clock_reading const first = read_clocks(launch, heap.backend_kind());
  clock_reading const second = read_clocks(launch, heap.backend_kind());
  std::uint64_t const end = host_ns();
  EXPECT_GE(first.host, begin + first.error);
  EXPECT_GE(second.host, first.host + first.error + second.error);
  EXPECT_LE(second.host + second.error, end);
  EXPECT_GT(second.device, first.device);
  if (heap.backend_kind() == backend::cpu) {  // both clocks are one
    EXPECT_LE(first.device, first.host + first.error);
    EXPECT_GE(first.device, first.host - first.error);
  }
}

TEST(ReadClocks, KeepsTheKernelWithTheLeastTimeAround) {
  int calls = 0;
  auto launch = [&](simt::grid lanes, auto const& kernel) {
    EXPECT_EQ(lanes.blocks * lanes.threads, 1u);
    if (++calls != 3) std::this_thread::sleep_for(std::chrono::milliseconds{3});
    kernel();
  };
  EXPECT_LT(read_clocks(launch, backend::cpu).error, 1'500'000u);
  EXPECT_GE(calls, 3);
}

TEST(ClockAlignment, InterpolatesBetweenTheLastTwoReadings) {
  clock_alignment clocks{{.device = 1000, .host = 50'000, .error = 7}};
  EXPECT_EQ(clocks.host_ns(900), 50'000u);
  EXPECT_EQ(clocks.host_ns(1100), 50'000u);
  clocks.add({.device = 2000, .host = 52'000, .error = 3});
  EXPECT_EQ(clocks.host_ns(999), 50'000u);
  EXPECT_EQ(clocks.host_ns(1500), 51'000u);
  EXPECT_EQ(clocks.host_ns(2001), 52'000u);
  EXPECT_EQ(clocks.error(), 7u);
  clocks.add({.device = 3000, .host = 53'000, .error = 5});
  EXPECT_EQ(clocks.host_ns(1500), 52'000u);
  EXPECT_EQ(clocks.host_ns(2500), 52'500u);
  EXPECT_EQ(clocks.error(), 5u);
}

/// Clocks of random rates and epochs, the host's read with a random error, and a device's clock
/// that may go back. The naive model knows the true time of each event.
TEST(ClockAlignment, IsWrongByTheErrorOfTheReadingsAtMostAndKeepsTheOrder) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    dice random{seed};
    double const rate = 0.5 + random.below(1000) / 1000.0;
    std::uint64_t epoch = std::uint64_t{random()} << 24;
    auto const device_at = [&](std::uint64_t host) {
      return epoch + static_cast<std::uint64_t>(rate * static_cast<double>(host));
    };
    auto const read_at = [&](std::uint64_t host) {
      return clock_reading{
          .device = device_at(host), .host = host - 50 + random.below(101), .error = 50};
    };
    std::uint64_t now = 1'000'000 + random();
    clock_alignment clocks{read_at(now)};
    std::uint64_t last = 0;
    for (int round = 0; round < 20; ++round) {
      std::uint64_t const begin = now;
      now += 1000 + random.below(1'000'000);
      bool const goes_back = random.below(8) == 0;
      if (goes_back) epoch -= random.below(1'000'000'000);
      clocks.add(read_at(now));
      for (std::uint64_t i = 0; i <= 20; ++i) {
        std::uint64_t const truth = begin + (now - begin) * i / 20;
        std::uint64_t const result = clocks.host_ns(device_at(truth));
        EXPECT_GE(result, last);
        last = result;
        if (!goes_back) {
          EXPECT_LE(std::abs(static_cast<double>(result) - static_cast<double>(truth)), 54.0);
        }
      }
    }
  }
}

}  // namespace clock_alignment_test
}  // namespace quarry
