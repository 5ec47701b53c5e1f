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
inline trace::name_tables name_tables_of(std::vector<std::string> const& threads,
                                         std::vector<std::string> const& streams,
                                         std::vector<std::string> const& allocators,
                                         std::vector<std::string> const& call_sites) {
  trace::name_tables result;
  add_names(result.threads, threads);
  add_names(result.streams, streams);
  add_names(result.allocators, allocators);
  add_names(result.call_sites, call_sites);
  return result;
}

}  // namespace quarry::python
