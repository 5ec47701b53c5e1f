// SPDX-License-Identifier: Apache-2.0
#include "quarry/version.hpp"

#include "quarry/host/c_api.h"

#include <gtest/gtest.h>

#include <string>

namespace quarry::test {
namespace version_test {

TEST(Version, EqualsTheVersionOfTheProject) {
  std::string const text = std::to_string(version.major) + '.' + std::to_string(version.minor) +
                           '.' + std::to_string(version.patch);
  EXPECT_EQ(text, QUARRY_TEST_PROJECT_VERSION);
  EXPECT_EQ(text, version_text);
  EXPECT_EQ(text, QUARRY_VERSION_TEXT);
  EXPECT_EQ(version.major * 10000 + version.minor * 100 + version.patch, QUARRY_VERSION);
}

TEST(Version, TheLibraryHasTheVersionOfItsHeaders) {
  EXPECT_EQ(library_version(), version);
  EXPECT_EQ(quarry_version(), static_cast<std::uint32_t>(QUARRY_VERSION));
  EXPECT_STREQ(quarry_version_text(), version_text);
}

TEST(Version, ComparesByMajorThenMinorThenPatch) {
  constexpr version_number tested{1, 9, 9}, newer{2, 0, 0};
  static_assert(tested < newer && version_number{1, 10, 0} > tested &&
                version_number{1, 9, 8} < tested);
  EXPECT_FALSE((tested == version_number{1, 9, 8}));
}

}  // namespace version_test
}  // namespace quarry::test
