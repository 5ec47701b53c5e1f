// SPDX-License-Identifier: Apache-2.0
#include "trace/json_line.hpp"

#include <gtest/gtest.h>

#include <random>

namespace quarry::test {
namespace json_line_test {

using trace::json_scanner;

/// The members as `group.key=text` and a space each, or the fault.
std::string scan(std::string_view text) {
  json_scanner scanner{text};
  std::string members;
  while (scanner.next()) {
    members += std::string{scanner.group()} + '.' + std::string{scanner.key()} + '=' +
               scanner.value().decoded() + ' ';
  }
  return scanner.fault().empty() ? members : scanner.fault();
}

TEST(JsonLine, ReportsTheMembersOfTwoLevels) {
  EXPECT_EQ(scan(R"({})"), "");
  EXPECT_EQ(scan(" { \"a\" : -1.5e+3 , \"b\":{\"c\":\"d\",\"e\":null},\t\"f\":true } "),
            ".a=-1.5e+3 b.c=d b.e=null .f=true ");
  EXPECT_EQ(scan(R"({"a":{"b":{"c":1},"d":2},"e":[1,{"f":[2]},[]],"g":{},"h":3})"), "a.d=2 .h=3 ");
}

TEST(JsonLine, ReplacesEscapes) {
  EXPECT_EQ(scan(R"({"a":"\"\\\/\b\f\n\r\t"})"), ".a=\"\\/\b\f\n\r\t ");
  EXPECT_EQ(scan(R"({"a":"\u0041\u00e9\u20AC\ud83d\ude00"})"),
            ".a=A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80 ");
  EXPECT_EQ(scan(R"({"a":"\ud83dx\ude00"})"), ".a=\xEF\xBF\xBDx\xEF\xBF\xBD ");
}

TEST(JsonLine, SaysWhatIsWrongAndAtWhichColumn) {
  EXPECT_EQ(scan(""), "column 1: the line is not a JSON object");
  EXPECT_EQ(scan("[1]"), "column 1: the line is not a JSON object");
  EXPECT_EQ(scan("{"), "column 2: expected the name of a member");
  EXPECT_EQ(scan("{\"a\"}"), "column 5: expected ':'");
  EXPECT_EQ(scan("{\"a\":}"), "column 6: expected a value");
  EXPECT_EQ(scan("{\"a\":nul}"), "column 6: expected a value");
  EXPECT_EQ(scan("{\"a\":1"), "column 7: expected ',' or '}'");
  EXPECT_EQ(scan("{\"a\":[1}"), "column 8: expected ',' or ']'");
  EXPECT_EQ(scan("{\"a\":[1,]}"), "column 9: expected a value");
  EXPECT_EQ(scan("{\"a\":1,}"), "column 8: expected the name of a member");
  EXPECT_EQ(scan("{\"a\":01}"), "column 7: expected ',' or '}'");
  EXPECT_EQ(scan("{\"a\":1.}"), "column 8: expected a digit");
  EXPECT_EQ(scan("{\"a\":-}"), "column 7: expected a digit");
  EXPECT_EQ(scan("{\"a\":\"x"), "column 8: a string without an end");
  EXPECT_EQ(scan("{\"a\":\"\\x\"}"), "column 7: an unknown escape in a string");
  EXPECT_EQ(scan("{\"a\":\"\\u00g0\"}"), "column 7: an unknown escape in a string");
  EXPECT_EQ(scan(std::string{"{\"a\0\":1}", 9}), "column 4: a control character in a string");
  EXPECT_EQ(scan("{\"a\":\"\xC0\x80\"}"), "column 7: a string that is not UTF-8");
  EXPECT_EQ(scan("{\"a\":\"\xED\xA0\x80\"}"), "column 7: a string that is not UTF-8");
  EXPECT_EQ(scan("{\"a\":\"\xE2\x82"), "column 7: a string that is not UTF-8");
  EXPECT_EQ(scan("{} {}"), "column 4: text after the JSON object");
}

TEST(JsonLine, RefusesMoreThan64LevelsWithoutRecursion) {
  auto const nested = [](std::size_t levels) {
    return "{\"a\":" + std::string(levels - 1, '[') + std::string(levels - 1, ']') + '}';
  };
  EXPECT_EQ(scan(nested(64)), "");
  EXPECT_EQ(scan(nested(65)), "column 70: more than 64 levels");
  EXPECT_EQ(scan("{\"a\":" + std::string(1'000'000, '[')), "column 70: more than 64 levels");
}

TEST(JsonLine, NoPartOfAnObjectIsAnObject) {
  std::string const text = R"({"a":{"b":"\u0041\n","c":[1,2.5e-3,{"d":false}]},"e":-0})";
  ASSERT_EQ(scan(text), "a.b=A\n .e=-0 ");
  for (std::size_t length = 0; length < text.size(); ++length) {
    std::string const part = scan(std::string_view{text}.substr(0, length));
    EXPECT_EQ(part.substr(0, 7), "column ") << length;
  }
}

/// A random value with at most `levels` levels.
std::string random_value(std::mt19937& random, int levels) {
  bool const is_object = random() % 2 == 0;
  switch (random() % (levels == 0 ? 3u : 5u)) {
    case 0:
      return std::to_string(static_cast<int>(random()));
    case 1:
      return "\"t" + std::to_string(random() % 100) + '"';
    case 2:
      return random() % 2 == 0 ? "true" : "null";
    default: {
      std::string result = is_object ? "{" : "[";
      for (std::uint64_t i = random() % 4; i != 0; --i) {
        if (is_object) result += "\"k\" : ";
        result += random_value(random, levels - 1) + (i == 1 ? "" : ",");
      }
      return result + (is_object ? '}' : ']');
    }
  }
}

TEST(JsonLine, AcceptsRandomObjectsAndReportsTheirScalars) {
  std::uint32_t const seed = 5;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random{seed};
  for (int i = 0; i < 2000; ++i) {
    std::string text = "{";
    std::string model;
    int const count = static_cast<int>(random() % 6);
    for (int j = 0; j < count; ++j) {
      std::string const key = "m" + std::to_string(j);
      std::string const value = random_value(random, 4);
      text += (j == 0 ? "\"" : ",\"") + key + "\":" + value;
      if (value[0] == '{' || value[0] == '[') continue;
      model += '.' + key + '=';
      model += value[0] == '"' ? value.substr(1, value.size() - 2) : value;
      model += ' ';
    }
    std::string outer;  // without the members of inner objects
    json_scanner scanner{text += '}'};
    while (scanner.next())
      if (scanner.group().empty())
        outer += '.' + std::string{scanner.key()} + '=' + std::string{scanner.value().text} + ' ';
    ASSERT_EQ(scanner.fault(), "") << text;
    ASSERT_EQ(outer, model) << text;
  }
}

}  // namespace json_line_test
}  // namespace quarry::test
