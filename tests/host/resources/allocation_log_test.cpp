// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/allocation_log.hpp"

#include "quarry/core/errors.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include <unistd.h>

namespace quarry::test {
namespace allocation_log_test {

using action = allocation_log::action;

std::vector<std::string> lines_of(std::istream& text) {
  std::vector<std::string> result;
  for (std::string line; std::getline(text, line);) result.push_back(line);
  return result;
}
void* address(std::uintptr_t number) { return reinterpret_cast<void*>(number); }

/// Replaces each digit by a d.
std::string shape_of(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char each) { return std::isdigit(each) != 0; }, 'd');
  return text;
}

TEST(AllocationLog, WritesRmmsColumns) {
  std::stringstream text;
  allocation_log log{text};
  log.write(action::allocate, address(0x7f00'1000), 1024, nullptr);
  log.write(action::allocate_failure, nullptr, std::size_t{1} << 50, address(0x20));
  log.write(action::free, address(0x7f00'1000), 1024, address(0x1));
  auto const lines = lines_of(text);
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0], "Thread,Time,Action,Pointer,Size,Stream");
  char const* const expected[] = {"allocate,0x7f001000,1024,0",
                                  "allocate failure,(nil),1125899906842624,0x20",
                                  "free,0x7f001000,1024,0x1"};
  std::string const thread = std::to_string(gettid()) + ",";
  for (std::size_t i = 0; i < 3; ++i) {
    std::string const& line = lines[i + 1];
    ASSERT_EQ(line.substr(0, thread.size()), thread);
    EXPECT_EQ(shape_of(line.substr(thread.size(), 15)), "dd:dd:dd.dddddd") << line;
    EXPECT_EQ(line.substr(thread.size() + 15), "," + std::string{expected[i]});
  }
}

TEST(AllocationLog, OverwritesAnExistingFile) {
  std::string const path = testing::TempDir() + "quarry_allocation_log_test.csv";
  for (int round = 0; round < 2; ++round) {
    allocation_log log{path};
    log.write(action::allocate, address(16), 1, nullptr);
    log.flush();
    std::ifstream file{path};
    EXPECT_EQ(lines_of(file).size(), 2u);
  }
  std::remove(path.c_str());
}

TEST(AllocationLog, RefusesAFileThatCannotBeOpened) {
  try {
    allocation_log const log{"/nowhere/log.csv"};
    FAIL() << "opened the file";
  } catch (resource_failed const& failure) {
    EXPECT_NE(failure.message().find("/nowhere/log.csv"), std::string::npos) << failure.message();
  }
}

TEST(AllocationLog, CountsLinesThatCouldNotBeWritten) {
  std::stringstream text;
  allocation_log log{text};
  text.setstate(std::ios::badbit);
  log.write(action::allocate, address(16), 1, nullptr);
  text.clear();
  text.exceptions(std::ios::badbit | std::ios::failbit);
  log.write(action::free, address(16), 1, nullptr);
  EXPECT_EQ(log.lost(), 1u);
  text.exceptions(std::ios::goodbit);
  EXPECT_EQ(lines_of(text).size(), 2u);
}

/// The lines fit into the stream's buffer; the file accepts none of the lines.
TEST(AllocationLog, CountsLinesThatCouldNotBeFlushed) {
  allocation_log log{"/dev/full"};
  log.write(action::allocate, address(16), 1, nullptr);
  log.write(action::free, address(16), 1, nullptr);
  log.flush();
  EXPECT_EQ(log.lost(), 3u);  // including the line of column names
  log.write(action::allocate, address(32), 1, nullptr);
  log.flush();
  EXPECT_EQ(log.lost(), 4u);
}

TEST(AllocationLog, CountsLinesThatOverflowTheBufferOfAFullFile) {
  allocation_log log{"/dev/full"};
  for (int i = 0; i < 10'000; ++i) log.write(action::allocate, address(16), 1, nullptr);
  log.flush();
  EXPECT_EQ(log.lost(), 10'001u);
}

TEST(AllocationLog, WritesTheLinesOfTwoThreadsWhole) {
  std::stringstream text;
  allocation_log log{text};
  std::vector<std::thread> threads;
  for (std::uintptr_t number = 1; number <= 2; ++number) {
    threads.emplace_back([&log, number] {
      for (int i = 0; i < 1000; ++i) log.write(action::allocate, address(number), 8, nullptr);
    });
  }
  for (auto& each : threads) each.join();
  auto const lines = lines_of(text);
  ASSERT_EQ(lines.size(), 2001u);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    EXPECT_EQ(std::count(lines[i].begin(), lines[i].end(), ','), 5) << lines[i];
    std::string const end = lines[i].substr(lines[i].find(",allocate"));
    EXPECT_TRUE(end == ",allocate,0x1,8,0" || end == ",allocate,0x2,8,0") << lines[i];
  }
}

}  // namespace allocation_log_test
}  // namespace quarry::test
