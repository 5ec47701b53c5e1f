// SPDX-License-Identifier: Apache-2.0
// Traces that functions read several times.
#pragma once

#include "quarry/trace/select_allocator.hpp"

#include "array_reader.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace quarry::python {

/// The events of one allocator of a file (`trace::select_allocator`). The arguments must outlive
/// the source.
[[nodiscard]] inline trace::trace_source source_of(std::string const& path,
                                                   std::string const& allocator) {
  return [&path, &allocator] {
    return trace::select_allocator(trace::open_trace(path), allocator, path);
  };
}

/// The events of a NumPy array. The arguments must outlive the source.
[[nodiscard]] inline trace::trace_source source_of(std::span<trace::event const> const& events,
                                                   std::vector<std::string> const& call_sites) {
  return [&events, &call_sites] { return std::make_unique<array_reader>(events, call_sites); };
}

}  // namespace quarry::python
