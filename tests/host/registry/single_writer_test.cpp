// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/registry/single_writer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <thread>

namespace quarry::test {

using namespace detail;
namespace watched_test {

TEST(SingleWriter, IsUsedAsANumberByItsWriter) {
  single_writer<std::uint64_t> number;
  EXPECT_EQ(number, 0u);
  number = number + 7;
  single_writer<std::uint64_t> other{1};
  other = number;
  EXPECT_EQ(other.load_acquire(), 7u);
}

/// Who sees a number sees what was written before it; ThreadSanitizer would tell, since `what` is
/// plain memory.
TEST(SingleWriter, ShowsWhatWasWrittenBeforeIt) {
  std::array<std::uint64_t, 64> what{};
  single_writer<std::uint64_t> count;
  std::thread writer{[&] {
    for (std::uint64_t i = 0; i < what.size(); ++i) {
      what[i] = i * i;
      count = i + 1;
    }
  }};
  for (std::uint64_t seen = 0; seen < what.size();) {
    seen = count.load_acquire();
    if (seen != 0) {
      EXPECT_EQ(what[seen - 1], (seen - 1) * (seen - 1));
    }
  }
  writer.join();
}

}  // namespace watched_test
}  // namespace quarry::test
