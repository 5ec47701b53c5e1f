// SPDX-License-Identifier: Apache-2.0
// Reads back what a recorder wrote.
#pragma once

#include "quarry/trace/reader.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

namespace quarry::test {

/// A path in the folder for temporary files. Removes the file at the end.
class temporary_path {
 public:
  temporary_path() {
    static int count = 0;
    path_ = testing::TempDir() + "quarry_recorder_" + std::to_string(getpid()) + "_" +
            std::to_string(count++) + ".trace";
  }
  temporary_path(temporary_path const&) = delete;
  temporary_path& operator=(temporary_path const&) = delete;
  ~temporary_path() { std::remove(path_.c_str()); }
  operator std::string const&() const { return path_; }

 private:
  std::string path_;
};

struct recorded_file {
  std::vector<trace::event> events;
  trace::name_tables names;
};

/// All events of a file without problems.
inline recorded_file read_back(std::string const& path) {
  recorded_file result;
  auto const source = trace::open_trace(path);
  std::vector<trace::event> part(1000);
  while (std::size_t const count = source->read(part))
    result.events.insert(result.events.end(), part.begin(),
                         part.begin() + static_cast<std::ptrdiff_t>(count));
  result.names = source->names();
  EXPECT_EQ(source->problem_count(), 0u) << source->problems().at(0);
  return result;
}

inline trace::event numbered(std::uint64_t number) {
  return {.address = 16 * number, .size = number, .kind = trace::event_kind::allocate};
}
/// The sizes of the events, which `numbered` made.
inline std::vector<std::uint64_t> numbers_of(std::vector<trace::event> const& events) {
  std::vector<std::uint64_t> result;
  for (trace::event const& each : events) result.push_back(each.size);
  return result;
}
inline std::vector<std::uint64_t> range(std::uint64_t first, std::uint64_t end) {
  std::vector<std::uint64_t> result;
  for (; first != end; ++first) result.push_back(first);
  return result;
}

/// Expects that times never decrease, and that each address is free when it is allocated and
/// allocated when it is freed.
inline void expect_replayable(std::vector<trace::event> const& events) {
  std::map<std::uint64_t, bytes> live;
  std::uint64_t time = 0;
  for (trace::event const& each : events) {
    EXPECT_GE(each.time, time);
    time = each.time;
    if (each.kind == trace::event_kind::allocate) {
      EXPECT_TRUE(live.emplace(each.address, each.size).second) << each.address;
    } else if (each.kind == trace::event_kind::deallocate) {
      auto const found = live.find(each.address);
      ASSERT_NE(found, live.end()) << each.address;
      EXPECT_EQ(found->second, each.size);
      live.erase(found);
    }
  }
  EXPECT_TRUE(live.empty());
}

}  // namespace quarry::test
