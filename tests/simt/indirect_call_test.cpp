// SPDX-License-Identifier: Apache-2.0
#include "quarry/simt/indirect_call.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace quarry::simt {
namespace indirect_call_test {

std::uint32_t weighted(std::uint32_t first, std::uint64_t second) {
  return first * 10 + static_cast<std::uint32_t>(second);
}
void count(int& calls) { ++calls; }
std::string const& longer(std::string const& first, std::string const& second) {
  return first.size() > second.size() ? first : second;
}
void refuse(int) { throw std::runtime_error{"refused"}; }

TEST(IndirectCall, PassesArgumentsAsTheFunctionTakesThem) {
  EXPECT_EQ(indirect_call(&weighted, 4u, 2u), 42u);
}

TEST(IndirectCall, PassesReferences) {
  int calls = 0;
  indirect_call(&count, calls);
  indirect_call(&count, calls);
  EXPECT_EQ(calls, 2);
}

TEST(IndirectCall, ReturnsAReference) {
  std::string const first = "longest";
  std::string const second = "short";
  EXPECT_EQ(&indirect_call(&longer, first, second), &first);
}

TEST(IndirectCall, CallsALambdaWithItsCaptures) {
  std::uint64_t number = 21;
  EXPECT_EQ(indirect_call([number] { return number * 2; }), 42u);
}

TEST(IndirectCall, DoesNotChangeTheCallersLambda) {
  auto const next = [number = 1]() mutable { return ++number; };
  EXPECT_EQ(indirect_call(next), 2);
  EXPECT_EQ(indirect_call(next), 2);
}

TEST(IndirectCall, LetsALambdaReturnAReference) {
  int number = 1;
  EXPECT_EQ(&indirect_call([address = &number]() -> int& { return *address; }), &number);
}

TEST(IndirectCall, PropagatesExceptions) {
  EXPECT_THROW(indirect_call(&refuse, 1), std::runtime_error);
}

}  // namespace indirect_call_test
}  // namespace quarry::simt
