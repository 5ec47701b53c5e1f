// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/routing.hpp"

#include "quarry/core/errors.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>
#include <utility>

namespace quarry::inline QUARRY_ABI {
namespace {

constexpr char const* file_heading = "quarry-routes 1";

/// The next word of a line, up to a space or the end; removes it from the line.
std::string_view take_field(std::string_view& line) {
  auto const end = std::min(line.find(' '), line.size());
  auto const word = line.substr(0, end);
  line.remove_prefix(std::min(end + 1, line.size()));
  return word;
}

template <class Number>
std::optional<Number> number_of(std::string_view word) {
  Number result = 0;
  auto const parsed = std::from_chars(word.data(), word.data() + word.size(), result);
  if (word.empty() || parsed.ec != std::errc{} || parsed.ptr != word.data() + word.size())
    return std::nullopt;
  return result;
}

}  // namespace

routing_table::routing_table(std::vector<route> routes) : routes_{std::move(routes)} {
  for (std::size_t i = 0; i < routes_.size(); ++i) {
    route const& each = routes_[i];
    auto const refuse = [&](std::string const& reason) {
      return bad_argument{"routing_table: route " + std::to_string(i) + ": " + reason};
    };
    if (each.pool >= max_pools)
      throw refuse("pool " + std::to_string(each.pool) + " is not below " +
                   std::to_string(max_pools));
    if (each.min_size > each.max_size)
      throw refuse("the least size, " + std::to_string(each.min_size) + ", exceeds the largest, " +
                   std::to_string(each.max_size));
    if (each.call_site.find('\n') != std::string::npos)
      throw refuse("the call site has a line break");
    if (each.phase.find('\n') != std::string::npos) throw refuse("the phase has a line break");
    pools_ = std::max(pools_, each.pool + 1);
  }
}

routing_table routing_table::load(std::string const& path) {
  std::ifstream file{path};
  if (!file) throw resource_failed{path + ": cannot open the file", std::strerror(errno)};
  std::string line;
  if (!std::getline(file, line) || line != file_heading)
    throw bad_argument{path + ":1: the first line must be '" + file_heading + "'"};
  std::vector<route> routes;
  std::string phase;
  for (std::size_t number = 2; std::getline(file, line); ++number) {
    auto const refuse = [&](char const* reason) {
      return bad_argument{path + ':' + std::to_string(number) + ": " + reason + ": " +
                          line.substr(0, 100)};
    };
    std::string_view left = line;
    std::string_view const first = take_field(left);
    if (first == "phase") {
      phase = left;
      continue;
    }
    auto const pool = number_of<std::uint32_t>(first);
    auto const min_size = number_of<bytes>(take_field(left));
    std::string_view const last = take_field(left);
    auto const max_size = last == "-" ? no_limit : number_of<bytes>(last);
    if (!pool || !min_size || !max_size)
      throw refuse("the line is neither POOL MIN_SIZE MAX_SIZE CALL_SITE nor phase NAME");
    if (*pool >= max_pools) throw refuse("the pool must be below 16");
    if (*min_size > *max_size) throw refuse("the least size exceeds the largest");
    routes.push_back({*pool, *min_size, *max_size, std::string{left}, phase});
  }
  if (file.bad()) throw resource_failed{path + ": cannot read the file", std::strerror(errno)};
  return routing_table{std::move(routes)};
}

void routing_table::save(std::string const& path) const {
  std::ofstream file{path};
  if (!file) throw resource_failed{path + ": cannot create the file", std::strerror(errno)};
  file << file_heading << '\n';
  std::string_view phase;
  for (route const& each : routes_) {
    if (each.phase != phase) file << "phase " << (phase = each.phase) << '\n';
    file << each.pool << ' ' << each.min_size << ' '
         << (each.max_size == no_limit ? "-" : std::to_string(each.max_size)) << ' '
         << each.call_site << '\n';
  }
  file.close();
  if (!file) throw resource_failed{path + ": cannot write the file", std::strerror(errno)};
}

}  // namespace quarry::inline QUARRY_ABI
