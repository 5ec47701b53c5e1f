// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/change_result.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace quarry {
namespace change_result_test {

TEST(ChangeResult, HasADistinctNameForEachResult) {
  std::set<std::string> names;
  for (auto const result :
       {change_result::done, change_result::duplicate, change_result::absent,
        change_result::out_of_memory, change_result::table_full, change_result::reserved_id}) {
    EXPECT_TRUE(names.insert(name_of(result)).second);
  }
}

TEST(ChangeResult, AnInvalidResultIsNamedUnknown) {
  EXPECT_STREQ(name_of(static_cast<change_result>(1000)), "unknown result");
}

}  // namespace change_result_test
}  // namespace quarry
