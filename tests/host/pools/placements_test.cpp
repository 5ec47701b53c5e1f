// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/placements.hpp"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <type_traits>

namespace {

using namespace quarry;

struct text_of {
  template <class Placement>
  std::string operator()() const {
    return std::string{code_of_placement<Placement>()};
  }
};

std::string code_of(std::string_view name) {
  return with_placement(name, text_of{},
                        [](std::string const& reason) { throw std::invalid_argument{reason}; });
}

TEST(Placements, HaveNamesOfTheirOwn) {
  std::set<std::string_view> names, codes;
  std::apply(
      [&](auto const&... each) {
        ((names.insert(each.name), codes.insert(each.code)), ...);
        EXPECT_EQ(names.size(), sizeof...(each));
        EXPECT_EQ(codes.size(), sizeof...(each));
      },
      named_placements);
}

TEST(Placements, AreFoundByTheirNames) {
  EXPECT_EQ(code_of("fast_fit"), "quarry::fast_fit");
  EXPECT_EQ(code_of("oldest_best_fit"), "quarry::chunk_arena<quarry::oldest_best_fit>");
}

TEST(Placements, AnUnknownNameIsRefusedWithAllNames) {
  try {
    (void)code_of("best");
    FAIL() << "the name was accepted";
  } catch (std::invalid_argument const& refused) {
    std::string const reason = refused.what();
    EXPECT_TRUE(reason.starts_with("there is no placement 'best'; there are fast_fit, "));
    EXPECT_TRUE(reason.ends_with(placement_names()));
    EXPECT_NE(reason.find(" and "), std::string::npos);
  }
}

}  // namespace
