// SPDX-License-Identifier: Apache-2.0
// The table of the placements of `pool`. All code that selects a placement by its name, or prints
// one, uses it.
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/pools/caching_arena.hpp"
#include "quarry/host/pools/chunk_arena.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// A placement, its name, what it is in a few words, and the text of its type in a program.
template <placement Type>
struct named_placement {
  using type = Type;
  char const* name;
  char const* help;
  char const* code;
};

/// All placements of `pool` that have a name. CONTRIBUTING.md says what a new placement needs.
inline constexpr std::tuple named_placements{
    named_placement<fast_fit>{"fast_fit", "the default, and the fastest", "quarry::fast_fit"},
    named_placement<chunk_arena<segregated_fit>>{"segregated_fit",
                                                 "the first chunk of a list whose chunks all fit",
                                                 "quarry::chunk_arena<quarry::segregated_fit>"},
    named_placement<chunk_arena<oldest_best_fit>>{"oldest_best_fit",
                                                  "best fit, the oldest of equal chunks",
                                                  "quarry::chunk_arena<quarry::oldest_best_fit>"},
    named_placement<chunk_arena<lowest_best_fit>>{"lowest_best_fit",
                                                  "best fit, the lowest of equal chunks",
                                                  "quarry::chunk_arena<quarry::lowest_best_fit>"}};

/// The text of the placement's type in a program.
template <placement Type>
[[nodiscard]] constexpr std::string_view code_of_placement() {
  return std::get<named_placement<Type>>(named_placements).code;
}

/// The names: `a, b, c and d`.
[[nodiscard]] inline std::string placement_names() {
  return std::apply(
      [](auto const&... each) {
        std::string result;
        std::size_t left = sizeof...(each);
        ((result += std::string{each.name} + (left > 2    ? ", "
                                              : left == 2 ? " and "
                                                          : ""),
          --left),
         ...);
        return result;
      },
      named_placements);
}

/// Calls `make.template operator()<Placement>()` for the placement of this name, and returns the
/// result. If there is no such placement, calls `refuse` with the reason, which lists the names;
/// `refuse` throws.
template <class Make, class Refuse>
[[nodiscard]] auto with_placement(std::string_view name, Make&& make, Refuse const& refuse) {
  std::optional<decltype(make.template operator()<fast_fit>())> result;
  auto const try_one = [&]<placement Type>(named_placement<Type> const& each) {
    if (name != each.name) return false;
    result.emplace(make.template operator()<Type>());
    return true;
  };
  bool const is_found =
      std::apply([&](auto const&... each) { return (try_one(each) || ...); }, named_placements);
  if (!is_found)
    refuse("there is no placement '" + std::string{name} + "'; there are " + placement_names());
  return std::move(*result);
}

}  // namespace quarry::inline QUARRY_ABI
