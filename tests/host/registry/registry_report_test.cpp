// SPDX-License-Identifier: Apache-2.0
// Quarry calls foreign code: streams that receive reports, and functions that return backtraces and
// symbols, which may wait for the dynamic linker. Quarry calls no such function while it holds a
// lock that another thread needs to make a pool.
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

/// Ends a test that waits for a lock forever.
struct Report : testing::Test {
  void SetUp() override { alarm(30); }
  void TearDown() override { alarm(0); }
};

void make_a_pool() {
  host_pool source{host_resource{}, {.first_block = 64_KiB}};
  EXPECT_TRUE(source.deallocate(source.allocate(100)));
}
/// Makes a pool as a thread does that runs a plugin's constructors and holds the dynamic linker's
/// lock.
void make_a_pool_in_another_thread() { std::thread{make_a_pool}.join(); }

std::atomic<int> symbol_requests = 0;
std::atomic<int> backtraces = 0;

/// Writes nothing, and calls `work` at each write.
class calling_buffer : public std::streambuf {
 public:
  explicit calling_buffer(void (*work)()) : work_{work} {}

 private:
  int_type overflow(int_type character) override {
    work_();
    return traits_type::not_eof(character);
  }
  void (*work_)();
};

TEST_F(Report, IsWrittenToStreamsThatMakeAndUsePools) {
  host_pool source{host_resource{}};
  void* const memory = source.allocate(100, std::string{"density"});
  for (auto* const work : {&make_a_pool, &make_a_pool_in_another_thread}) {
    calling_buffer buffer{work};
    std::ostream stream{&buffer};
    registry::report(stream, source.id());
    EXPECT_TRUE(stream.good());
  }
  EXPECT_TRUE(source.deallocate(memory));
}

TEST_F(Report, PassesOnAnExceptionOfTheStream) {
  host_pool source{host_resource{}, {.keeps_backtraces = true}};
  void* const memory = source.allocate(100);
  calling_buffer buffer{[] { throw std::runtime_error{"full"}; }};
  std::ostream stream{&buffer};
  stream.exceptions(std::ios::badbit);
  EXPECT_THROW(registry::report(stream, source.id()), std::runtime_error);
  make_a_pool_in_another_thread();
  EXPECT_TRUE(source.deallocate(memory));
}

TEST_F(Report, RequestsSymbolsWhileOtherThreadsMakePools) {
  host_pool source{host_resource{}, {.keeps_backtraces = true}};
  void* const memory = source.allocate(100);
  std::ostringstream stream;
  registry::report(stream, source.id());
  EXPECT_GT(symbol_requests, 0);
  EXPECT_NE(stream.str().find("a frame's symbol"), std::string::npos) << stream.str();
  EXPECT_TRUE(source.deallocate(memory));
}

TEST_F(Report, RequestsTheFirstBacktraceWhenThePoolIsMade) {
  int const backtraces_before = backtraces;
  host_pool source{host_resource{}, {.keeps_backtraces = true}};
  EXPECT_GT(backtraces, backtraces_before)
      << "the first backtrace of a process may load a shared object";
  int const made = backtraces;
  host_pool plain{host_resource{}};
  EXPECT_TRUE(plain.deallocate(plain.allocate(100)));
  EXPECT_EQ(backtraces, made);
}

}  // namespace registry_report_test
}  // namespace quarry::test

// Replace the C library's functions.
extern "C" char** backtrace_symbols(void* const*, int count) {
  ++quarry::test::registry_report_test::symbol_requests;
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
