// SPDX-License-Identifier: Apache-2.0
#include "quarry/trace/reader.hpp"

namespace quarry::inline QUARRY_ABI::trace {

void reader::require_events(bool has_events) const {
  if (has_events || problem_count_ == 0) return;
  std::string const others =
      problem_count_ == 1 ? "" : " (the first of " + std::to_string(problem_count_) + " problems)";
  throw bad_trace{problems_.front() + others + ". No event could be read"};
}

}  // namespace quarry::inline QUARRY_ABI::trace
