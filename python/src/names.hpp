// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/trace/event.hpp"

#include <string>
#include <vector>

namespace quarry::python {

/// Adds names to a table that has only its entry 0, the empty name; `names[0]` is that entry.
inline void add_names(trace::name_table& table, std::vector<std::string> const& names) {
  for (std::size_t i = 1; i < names.size(); ++i) (void)table.add(names[i]);
}
inline trace::name_table name_table_of(std::vector<std::string> const& names) {
  trace::name_table result;
  add_names(result, names);
  return result;
}

}  // namespace quarry::python
