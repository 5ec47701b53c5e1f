// SPDX-License-Identifier: Apache-2.0
// The placements of the table as types of a test: a new row runs all tests of placements.
#pragma once

#include "quarry/host/pools/placements.hpp"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <type_traits>

namespace quarry::test {

template <class Table, template <class> class Make, class... Others>
struct types_of_table;
template <class... Rows, template <class> class Make, class... Others>
struct types_of_table<std::tuple<Rows...> const, Make, Others...> {
  using type = testing::Types<Make<typename Rows::type>..., Others...>;
};

/// `testing::Types` of all placements, each as `Make<Placement>`, with `Others` after them.
template <template <class> class Make, class... Others>
using types_of_placements =
    typename types_of_table<decltype(named_placements), Make, Others...>::type;

template <class... Others>
using all_placements = types_of_placements<std::type_identity_t, Others...>;

/// The names of the cases of `all_placements`.
struct placement_case_names {
  template <class Type>
  static std::string GetName(int i) {
    std::string result = std::to_string(i);
    auto const look_at = [&]<placement Placement>(named_placement<Placement> const& each) {
      if (std::is_same_v<Type, Placement>) result = each.name;
    };
    std::apply([&](auto const&... each) { (look_at(each), ...); }, named_placements);
    return result;
  }
};

}  // namespace quarry::test
