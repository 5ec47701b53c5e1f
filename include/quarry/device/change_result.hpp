// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/config.hpp"

namespace quarry::inline QUARRY_ABI {

/// The result of a change to a set, a map or a graph. After every result except `done`, keys and
/// edges are unchanged.
enum class change_result : std::uint32_t {
  done,
  duplicate,      ///< insert: the key or edge already exists
  absent,         ///< erase: the key or edge does not exist
  out_of_memory,  ///< the heap has no memory for the change
  table_full,     ///< no cell is free in a table of fixed capacity
  reserved_id,    ///< 0xFFFFFFFF is reserved and not a valid id
};

[[nodiscard]] QUARRY_HD constexpr char const* name_of(change_result result) {
  switch (result) {
    case change_result::done:
      return "done";
    case change_result::duplicate:
      return "already exists";
    case change_result::absent:
      return "does not exist";
    case change_result::out_of_memory:
      return "out of memory";
    case change_result::table_full:
      return "the table is full";
    case change_result::reserved_id:
      return "the id 0xFFFFFFFF is reserved";
  }
  return "unknown result";
}

}  // namespace quarry::inline QUARRY_ABI
