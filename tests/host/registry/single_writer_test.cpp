// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/single_writer.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <thread>

namespace quarry::test {

using namespace detail;
namespace single_writer_test {

TEST(SingleWriter, BehavesLikeANumberForItsWriter) {
  single_writer<std::uint64_t> number;
  EXPECT_EQ(number, 0u);
  number = number + 7;
  single_writer<std::uint64_t> other{1};
  other = number;
  EXPECT_EQ(other.load_acquire(), 7u);
}

/// A reader that sees a number also sees every write before that number. `squares` is plain memory,
/// so ThreadSanitizer would report a race.
TEST(SingleWriter, PublishesEarlierWrites) {
  std::array<std::uint64_t, 64> squares{};
  single_writer<std::uint64_t> count;
  std::thread writer{[&] {
    for (std::uint64_t i = 0; i < squares.size(); ++i) {
      squares[i] = i * i;
      count = i + 1;
    }
  }};
  for (std::uint64_t seen = 0; seen < squares.size();) {
    seen = count.load_acquire();
    if (seen != 0) {
      EXPECT_EQ(squares[seen - 1], (seen - 1) * (seen - 1));
    }
  }
  writer.join();
}

}  // namespace single_writer_test
}  // namespace quarry::test
