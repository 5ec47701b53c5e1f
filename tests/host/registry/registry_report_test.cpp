// SPDX-License-Identifier: Apache-2.0
// Code that is not Quarry's, and is called by it: streams that reports are written to, and what
// gives backtraces and symbols, which may wait for the dynamic linker. None of it is called while
// Quarry holds a lock that another thread needs to make a pool.
#include "quarry/host/pools/pool.hpp"
#include "quarry/host/pools/thread_arenas.hpp"
#include "quarry/host/resources/host_resource.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ostream>
#include <sstream>
#include <streambuf>
#include <thread>

namespace quarry::test {
namespace registry_report_test {

using host_pool = pool<host_resource>;

/// Ends a test that waits for a lock for ever.
struct Report : testing::Test {
  void SetUp() override { alarm(30); }
  void TearDown() override { alarm(0); }
};

void make_a_pool() {
  host_pool source{host_resource{}, {.first_block = 64_KiB}};
  EXPECT_TRUE(source.deallocate(source.allocate(100)));
}
/// As a thread does that has the dynamic linker's lock while a plugin's constructors run.
void make_a_pool_in_another_thread() { std::thread{make_a_pool}.join(); }

std::atomic<int> symbols_asked_for = 0;
std::atomic<int> backtraces = 0;

/// Writes nothing, and does something else each time.
class buffer_that_works : public std::streambuf {
 public:
  explicit buffer_that_works(void (*work)()) : work_{work} {}

 private:
  int_type overflow(int_type one) override {
    work_();
    return traits_type::not_eof(one);
  }
  void (*work_)();
};

TEST_F(Report, IsWrittenToStreamsThatMakeAndUsePools) {
  host_pool source{host_resource{}};
  void* const memory = source.allocate(100, std::string{"density"});
  for (auto* const work : {&make_a_pool, &make_a_pool_in_another_thread}) {
    buffer_that_works buffer{work};
    std::ostream out{&buffer};
    registry::report(out, source.id());
    EXPECT_TRUE(out.good());
  }
  EXPECT_TRUE(source.deallocate(memory));
}

TEST_F(Report, LetsWhatAStreamThrowsThrough) {
  host_pool source{host_resource{}, {.keeps_backtraces = true}};
  void* const memory = source.allocate(100);
  buffer_that_works buffer{[] { throw std::runtime_error{"full"}; }};
  std::ostream out{&buffer};
  out.exceptions(std::ios::badbit);
  EXPECT_THROW(registry::report(out, source.id()), std::runtime_error);
  make_a_pool_in_another_thread();
  EXPECT_TRUE(source.deallocate(memory));
}

TEST_F(Report, AsksForSymbolsWhileOtherThreadsMakePools) {
  host_pool source{host_resource{}, {.keeps_backtraces = true}};
  void* const memory = source.allocate(100);
  std::ostringstream out;
  registry::report(out, source.id());
  EXPECT_GT(symbols_asked_for, 0);
  EXPECT_NE(out.str().find("a frame's symbol"), std::string::npos) << out.str();
  EXPECT_TRUE(source.deallocate(memory));
}

TEST_F(Report, HasItsFirstBacktraceWhenThePoolIsMade) {
  int const before = backtraces;
  host_pool source{host_resource{}, {.keeps_backtraces = true}};
  EXPECT_GT(backtraces, before) << "the first one of a process may load a shared object";
  int const made = backtraces;
  host_pool plain{host_resource{}};
  EXPECT_TRUE(plain.deallocate(plain.allocate(100)));
  EXPECT_EQ(backtraces, made);
}

}  // namespace registry_report_test
}  // namespace quarry::test

// In place of the C library's.
extern "C" char** backtrace_symbols(void* const*, int count) {
  ++quarry::test::registry_report_test::symbols_asked_for;
  quarry::test::registry_report_test::make_a_pool_in_another_thread();
  static constexpr char text[] = "a frame's symbol";
  auto const all = static_cast<std::size_t>(count);
  auto* const result = static_cast<char**>(std::malloc(all * sizeof(char*) + sizeof text));
  char* const only = std::strcpy(reinterpret_cast<char*>(result + all), text);
  for (std::size_t i = 0; i < all; ++i) result[i] = only;
  return result;
}
extern "C" int backtrace(void** frames, int maximum) {
  ++quarry::test::registry_report_test::backtraces;
  int count = 0;
  while (count < maximum && count < 3) frames[count++] = __builtin_return_address(0);
  return count;
}
