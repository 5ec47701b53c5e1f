// SPDX-License-Identifier: Apache-2.0
// The cache of binaries. No test needs an OpenCL device.
#include "opencl/file_cache.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <sys/stat.h>
#include <unistd.h>

namespace quarry::test {
namespace file_cache_test {

namespace fs = std::filesystem;
using opencl::load_entry;
using opencl::store_entry;

/// A cache in a folder of its own, which the destructor removes.
struct cache {
  fs::path folder;
  explicit cache(char const* name)
      : folder{fs::temp_directory_path() / ("quarry-" + std::to_string(getpid()) + name)} {
    fs::remove_all(folder);
  }
  cache(cache const&) = delete;
  cache& operator=(cache const&) = delete;
  ~cache() { fs::remove_all(folder); }

  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator{folder}, fs::directory_iterator{}));
  }
  /// The only file.
  [[nodiscard]] fs::path file() const {
    return fs::directory_iterator { folder } -> path();
  }
};

TEST(OpenclFileCache, ReturnsTheValueOfAKeyAndNothingForAnotherKey) {
  cache const c{"fact"};
  EXPECT_FALSE(load_entry(c.folder, "key"));
  store_entry(c.folder, "key", "value");
  store_entry(c.folder, "key", std::string("second\0value", 12));
  EXPECT_EQ(load_entry(c.folder, "key"), std::string("second\0value", 12));
  EXPECT_FALSE(load_entry(c.folder, "other key"));
  EXPECT_EQ(c.files(), 1u);
}

TEST(OpenclFileCache, WhatIsNoFileIsNoEntryAndAStoreBesideItLeavesNothing) {
  auto const replace = [](char const* name, std::function<void(fs::path const&)> const& make) {
    cache const c{name};
    store_entry(c.folder, "key", "value");
    auto const path = c.file();
    fs::remove(path);
    make(path);
    EXPECT_FALSE(load_entry(c.folder, "key")) << name;
    if (!fs::is_directory(fs::symlink_status(path))) return;  // a store replaces it
    store_entry(c.folder, "key", "value");
    EXPECT_EQ(c.files(), 1u) << name;
  };
  replace("folder", [](fs::path const& path) { fs::create_directory(path); });
  replace("full folder", [](fs::path const& path) { fs::create_directories(path / "more"); });
  replace("pipe", [](fs::path const& path) { ASSERT_EQ(mkfifo(path.c_str(), 0600), 0); });
  replace("dangling link", [](fs::path const& path) { fs::create_symlink("nowhere", path); });
  replace("loop", [](fs::path const& path) { fs::create_symlink(path, path); });
}

TEST(OpenclFileCache, AFileInPlaceOfTheFolderHasNoEntries) {
  cache const c{"file"};
  std::ofstream{c.folder} << "text";
  store_entry(c.folder, "key", "value");
  EXPECT_FALSE(load_entry(c.folder, "key"));
  EXPECT_FALSE(load_entry(c.folder / std::string(300, 'x'), "key"));  // longer than a name can be
}

TEST(OpenclFileCache, NoChangeOfAFileIsTakenForItsValue) {
  cache const c{"damage"};
  std::mt19937 random{1};
  std::string const value(300, 'v');
  for (int round = 0; round < 300; ++round) {
    store_entry(c.folder, "key", value);
    auto const size = fs::file_size(c.file());
    auto const at = static_cast<std::streamoff>(random() % size);
    if (round % 3 == 0) {
      fs::resize_file(c.file(), static_cast<std::uintmax_t>(at));
    } else {
      std::fstream file{c.file(), std::ios::binary | std::ios::in | std::ios::out};
      file.seekg(at);
      auto const byte = static_cast<char>(file.get() ^ static_cast<int>(1 + random() % 255));
      file.seekp(at);
      file.put(byte);
    }
    EXPECT_FALSE(load_entry(c.folder, "key")) << "round " << round << " with seed 1";
  }
}

TEST(OpenclFileCache, ThreadsThatStoreOneKeyLeaveAWholeEntry) {
  cache const c{"threads"};
  std::string const value(1 << 16, 'v');
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        store_entry(c.folder, "key", value);
        EXPECT_TRUE(load_entry(c.folder, "key") == value);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(c.files(), 1u);
}

}  // namespace file_cache_test
}  // namespace quarry::test
