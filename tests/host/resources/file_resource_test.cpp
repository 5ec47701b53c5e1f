// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/file_resource.hpp"

#include "conformance/resources.hpp"

#include <filesystem>

namespace quarry::test {
namespace file_resource_test {

file_resource make() { return file_resource{std::filesystem::temp_directory_path().string()}; }

using all = testing::Types<alone<&make, true>, pooled<&make, true, fast_fit>>;
bool const is_registered = conforms("FileResource", all{});

TEST(FileResource, RefusesADirectoryInWhichItCannotWrite) {
  EXPECT_THROW(file_resource{"/nonexistent/quarry"}, resource_failed);
}

TEST(FileResource, RefusesMoreThanAPagesAlignment) {
  EXPECT_THROW((void)make().allocate(8, 1_MiB), bad_argument);
}

TEST(FileResource, LeavesNoFile) {
  auto const directory = std::filesystem::temp_directory_path() / "quarry_file_resource_test";
  std::filesystem::create_directory(directory);
  file_resource source{directory.string()};
  void* const memory = source.allocate(100, 16);
  EXPECT_TRUE(std::filesystem::is_empty(directory));
  source.deallocate(memory, 100, 16);
  std::filesystem::remove(directory);
}

}  // namespace file_resource_test
}  // namespace quarry::test
