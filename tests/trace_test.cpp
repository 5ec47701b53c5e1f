// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace.hpp"

#include <gtest/gtest.h>

namespace quarry::test {
namespace {

TEST(TraceUmbrella, HasEventsReadersWritersAndReplay) {
  static_assert(trace::event_kinds == 7);
  static_assert(trace::reader::max_problems == 100);
  static_assert(trace::file_writer::events_per_chunk == 8192);
  EXPECT_EQ(trace::replay_options{}.placement, trace::strategy::fast_fit);
}

}  // namespace
}  // namespace quarry::test
