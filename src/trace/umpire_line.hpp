// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trace/json_line.hpp"

#include <string>
#include <string_view>

namespace quarry::inline QUARRY_ABI::trace {

/// The members of one line of Umpire's log that the reader uses. Views of the line.
struct umpire_line {
  json_value category, name, timestamp;
  json_value size;
  json_value allocator_ref, pointer, current_ptr, new_ptr;
  json_value first_argument;   ///< of a maker: the name of the allocator below
  json_value type;             ///< of a maker: the strategy, in either schema
  json_value alignment;        ///< of the maker of an AlignedAllocator
  json_value allocation_name;  ///< of `named_allocate`
  json_value event_name;       ///< of the metadata `event`
  json_value resource;         ///< of `allocate_resource`
  json_value allocator_name;
  json_value operation, status, sequence;  ///< `op`, `status` and `seq` of the second schema
  json_value allocator_id, allocation_id, replayed_size, parent_allocator;  ///< of the same
  bool is_of_old_format = false;  ///< the format before 2022.10
  json_value schema;              ///< of the first line of a file of the second schema, or later
  bool is_second_header = false;  ///< such a line
};

/// Reads a line. Returns the reason if it is no JSON object, and else an empty text.
[[nodiscard]] std::string parse_umpire_line(std::string_view line, umpire_line& parsed);

}  // namespace quarry::inline QUARRY_ABI::trace
