// SPDX-License-Identifier: Apache-2.0
#include "quarry/simt/far_call.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace quarry::simt {
namespace far_call_test {

std::uint32_t weighted(std::uint32_t first, std::uint64_t second) {
  return first * 10 + static_cast<std::uint32_t>(second);
}
void count(int& calls) { ++calls; }
std::string const& longer(std::string const& one, std::string const& other) {
  return one.size() > other.size() ? one : other;
}
void refuse(int) { throw std::runtime_error{"refused"}; }

TEST(FarCall, PassesArgumentsAsTheFunctionTakesThem) {
  EXPECT_EQ(far_call(&weighted, 4u, 2u), 42u);
}

TEST(FarCall, PassesReferences) {
  int calls = 0;
  far_call(&count, calls);
  far_call(&count, calls);
  EXPECT_EQ(calls, 2);
}

TEST(FarCall, GivesBackAReference) {
  std::string const one = "longest";
  std::string const other = "short";
  EXPECT_EQ(&far_call(&longer, one, other), &one);
}

TEST(FarCall, LetsExceptionsThrough) { EXPECT_THROW(far_call(&refuse, 1), std::runtime_error); }

}  // namespace far_call_test
}  // namespace quarry::simt
