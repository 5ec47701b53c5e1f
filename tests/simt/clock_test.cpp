// SPDX-License-Identifier: Apache-2.0
#include "quarry/simt/clock.hpp"

#include "support/backends.hpp"

namespace quarry {
namespace clock_test {

using namespace test;

/// Each lane reads the clock twice, and its processor.
struct look_around {
  std::uint64_t* times;
  std::uint32_t* processors;
  QUARRY_HD void operator()() const {
    std::uint64_t const lane = simt::this_place().rank();
    times[2 * lane] = simt::clock_ns();
    processors[lane] = simt::processor();
    times[2 * lane + 1] = simt::clock_ns();
  }
};

template <class Backend>
struct Clock : testing::Test {};
TYPED_TEST_SUITE(Clock, backends, backend_names);

TYPED_TEST(Clock, NeverRunsBackwardsAndLanesOfAWarpShareAProcessor) {
  TypeParam const backend{1};
  typename TypeParam::template array<std::uint64_t> times(128);
  typename TypeParam::template array<std::uint32_t> processors(64);
  backend.run({2, 32}, look_around{times.data(), processors.data()});
  for (std::size_t lane = 0; lane < 64; ++lane) {
    EXPECT_GT(times[2 * lane], 0u);
    EXPECT_LE(times[2 * lane], times[2 * lane + 1]);
    if (std::string_view{TypeParam::name} == "threads") continue;  // each is a warp of its own
    EXPECT_EQ(processors[lane], processors[lane / 32 * 32]);
  }
}

}  // namespace clock_test
}  // namespace quarry
