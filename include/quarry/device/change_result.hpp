// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/config.hpp"

namespace quarry::inline QUARRY_ABI {

/// What came of a change to a set, a map or a graph. Anything but `done` changed nothing.
enum class change_result : std::uint32_t {
  done,
  duplicate,      ///< insert: it is there already
  absent,         ///< erase: it is not there
  out_of_memory,  ///< the heap has no room for what the change needs
  table_full,     ///< no place is left in a table of fixed capacity
  reserved_id,    ///< 0xFFFFFFFF is no id
};

[[nodiscard]] QUARRY_HD constexpr char const* name_of(change_result result) {
  switch (result) {
    case change_result::done:
      return "done";
    case change_result::duplicate:
      return "is there already";
    case change_result::absent:
      return "is not there";
    case change_result::out_of_memory:
      return "out of memory";
    case change_result::table_full:
      return "the table is full";
    case change_result::reserved_id:
      return "0xFFFFFFFF is no id";
  }
  return "unknown result";
}

}  // namespace quarry::inline QUARRY_ABI
