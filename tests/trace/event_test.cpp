// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/event.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace quarry::test {
namespace {

using trace::name_table;

TEST(NameTable, StartsWithTheEmptyName) {
  name_table table;
  EXPECT_EQ(table.size(), 1u);
  EXPECT_EQ(table.name(0), "");
  EXPECT_EQ(table.number(""), 0u);
}

TEST(NameTable, HasOnlyUtf8) {
  name_table table;
  std::string const bytes = "a\xff\xe2\x82\xac\xe2\x82";
  EXPECT_EQ(table.number(bytes), 1u);
  EXPECT_EQ(table.name(1), "a\\xff\xe2\x82\xac\\xe2\\x82") << "the euro sign stays";
  EXPECT_EQ(table.number(bytes), 1u);
  EXPECT_EQ(trace::as_utf8("\xc0\x80"), "\\xc0\\x80") << "an overlong sequence is no UTF-8";
  EXPECT_EQ(trace::as_utf8("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "neither is a surrogate";
}

TEST(NameTable, GivesEqualNamesOneNumberButAddKeepsBothEntries) {
  name_table table;
  EXPECT_EQ(table.number("a"), 1u);
  EXPECT_EQ(table.number("b"), 2u);
  EXPECT_EQ(table.number("a"), 1u);
  EXPECT_EQ(table.add("a"), 3u);
  EXPECT_EQ(table.number("a"), 1u) << "the first entry keeps the name";
  EXPECT_EQ(table.names(), (std::vector<std::string>{"", "a", "b", "a"}));
}

TEST(NameTable, RefusesTheNameOfANumberThatItDoesNotHave) {
  name_table const table;
  EXPECT_THROW((void)table.name(1), std::out_of_range);
}

TEST(NameTable, KeepsNamesWithZeroBytesApart) {
  name_table table;
  EXPECT_NE(table.number(std::string_view{"a\0b", 3}), table.number(std::string_view{"a\0c", 3}));
}

TEST(NameTable, NumbersNamesAsAMapDoes) {
  auto const seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random{seed};
  name_table table;
  std::map<std::string, std::uint32_t> model{{"", 0}};
  for (int i = 0; i < 2000; ++i) {
    std::string const name(random() % 6, static_cast<char>('a' + random() % 20));
    auto const expected =
        model.try_emplace(name, static_cast<std::uint32_t>(model.size())).first->second;
    ASSERT_EQ(table.number(name), expected);
    ASSERT_EQ(table.name(expected), name);
  }
  EXPECT_EQ(table.size(), model.size());
}

TEST(Event, ComparesAllFields) {
  trace::event const base;
  trace::event other;
  EXPECT_EQ(base, other);
  other.call_site = 1;
  EXPECT_NE(base, other);
}

}  // namespace
}  // namespace quarry::test
