// SPDX-License-Identifier: Apache-2.0
// tests/install loads several copies of the library into one process.
#include "quarry/host/detail/process_state.hpp"

#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/host_resource.hpp"

#include <gtest/gtest.h>

#include <dlfcn.h>

#include <type_traits>

namespace quarry::test {

using namespace detail;
namespace process_state_test {

TEST(ProcessState, IsASymbolThatThisProgramExports) {
  EXPECT_EQ(dlsym(RTLD_DEFAULT, QUARRY_PROCESS_STATE), &process_wide);
}

TEST(ProcessState, OfAnotherLayoutIsAnotherSymbol) {
  EXPECT_EQ(dlsym(RTLD_DEFAULT, "quarry_process_state_0"), nullptr);
}

TEST(ProcessState, NeedsNoConstructorAndNoDestructor) {
  EXPECT_TRUE(std::is_trivially_destructible_v<process_state>);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(&process_wide) % alignof(process_state), 0u);
}

TEST(ProcessState, IsReadByTheLookupsOfThisProgram) {
  pool source{host_resource{}};
  auto const address = reinterpret_cast<std::uint64_t>(source.allocate(100));
  EXPECT_NE(process_wide.leaves[address >> 32].load(), nullptr);
  EXPECT_NE(process_wide.lists.load(), nullptr);
  EXPECT_NE(process_wide.lives.load(), 0u);
}

}  // namespace process_state_test
}  // namespace quarry::test
