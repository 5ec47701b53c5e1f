// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/errors.hpp"

#include <gtest/gtest.h>

namespace quarry::test {
namespace errors_test {

TEST(Errors, AreOfTheStandardsKindAndOfOurs) {
  EXPECT_THROW((throw out_of_memory{"pool", 7, "it is full"}), std::bad_alloc);
  EXPECT_THROW((throw out_of_memory{"pool", 7, "it is full"}), error);
  EXPECT_THROW((throw bad_argument{"x is 3"}), std::invalid_argument);
  EXPECT_THROW((throw bad_argument{"x is 3"}), error);
  EXPECT_THROW((throw resource_failed{"open", "no such file"}), std::runtime_error);
  EXPECT_THROW((throw resource_failed{"open", "no such file"}), error);
}

TEST(Errors, SayWhoWhatAndWhy) {
  out_of_memory const none{"pool", 7, "it is full"};
  EXPECT_STREQ(none.what(), "pool: no memory for 7 bytes: it is full");
  EXPECT_EQ(none.message(), none.what());
  EXPECT_EQ(none.requested(), 7u);
  EXPECT_EQ(none.resource(), "pool");
  EXPECT_STREQ((resource_failed{"open", "no such file"}.what()), "open: no such file");
}

}  // namespace errors_test
}  // namespace quarry::test
