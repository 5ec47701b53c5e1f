// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/watched.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <thread>

namespace quarry::test {
namespace watched_test {

TEST(Watched, IsUsedAsANumberByItsWriter) {
  watched<std::uint64_t> number;
  EXPECT_EQ(number, 0u);
  number = number + 7;
  watched<std::uint64_t> other{1};
  other = number;
  EXPECT_EQ(other.seen(), 7u);
}

/// Who sees a number sees what was written before it; ThreadSanitizer would tell, since `what` is
/// plain memory.
TEST(Watched, ShowsWhatWasWrittenBeforeIt) {
  std::array<std::uint64_t, 64> what{};
  watched<std::uint64_t> count;
  std::thread writer{[&] {
    for (std::uint64_t i = 0; i < what.size(); ++i) {
      what[i] = i * i;
      count = i + 1;
    }
  }};
  for (std::uint64_t seen = 0; seen < what.size();) {
    seen = count.seen();
    if (seen != 0) {
      EXPECT_EQ(what[seen - 1], (seen - 1) * (seen - 1));
    }
  }
  writer.join();
}

}  // namespace watched_test
}  // namespace quarry::test
