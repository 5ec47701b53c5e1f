// SPDX-License-Identifier: Apache-2.0
// Writes pickles for the tests: Python's protocol 2, without memos.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace quarry::test::pickles {

/// A value, as the opcodes that build it.
struct value {
  std::string code;

  value(std::int64_t number) : code{"\x8a\x09"} {
    for (int i = 0; i < 9; ++i)
      code += static_cast<char>(i < 8 ? number >> (8 * i) : number < 0 ? -1 : 0);
  }
  value(int number) : value{std::int64_t{number}} {}
  value(std::string_view text) : code{"X"} {
    for (int i = 0; i < 4; ++i) code += static_cast<char>(text.size() >> (8 * i));
    code += text;
  }
  value(char const* text) : value{std::string_view{text}} {}
  value(std::vector<value> const& items) : code{"]("} {
    for (value const& item : items) code += item.code;
    code += 'e';
  }
};

using entries = std::vector<std::pair<std::string, value>>;

[[nodiscard]] inline value dict(entries const& all) {
  value result{0};
  result.code = "}(";
  for (auto const& [key, item] : all) result.code += value{key}.code + item.code;
  result.code += 'u';
  return result;
}

/// An entry of a history. `frames` may be added.
[[nodiscard]] inline value action(char const* name, std::int64_t address, std::int64_t size,
                                  std::int64_t time_us, entries const& more = {}) {
  entries all{{"action", name}, {"addr", address}, {"size", size}, {"time_us", time_us}};
  all.insert(all.end(), more.begin(), more.end());
  return dict(all);
}

[[nodiscard]] inline std::string pickle(value const& root) {
  return std::string{"\x80\x02"} + root.code + '.';
}

/// A snapshot of one history for each device.
[[nodiscard]] inline std::string snapshot(std::vector<std::vector<value>> const& histories,
                                          std::vector<value> const& segments = {}) {
  std::vector<value> devices;
  for (auto const& each : histories) devices.emplace_back(each);
  return pickle(dict({{"segments", segments}, {"device_traces", devices}}));
}

}  // namespace quarry::test::pickles
