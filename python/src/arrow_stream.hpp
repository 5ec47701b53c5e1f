// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/trace/event.hpp"

#include "module.hpp"

#include <cstddef>
#include <memory>
#include <span>

namespace quarry::python {

/// Where an Arrow stream gets its events and names from.
class event_source {
 public:
  virtual ~event_source() = default;
  /// Fills `events` from the front. Returns the number of events; 0 only at the end.
  [[nodiscard]] virtual std::size_t read(std::span<trace::event> events) = 0;
  /// The names that the events read until now refer to.
  [[nodiscard]] virtual trace::name_tables const& names() const = 0;
};

/// A capsule `arrow_array_stream`: the events as Arrow's record batches of at most `batch` events.
/// `kind`, `thread`, `stream`, `allocator` and `call_site` are dictionaries of names. The consumer
/// may call the stream with or without Python's lock, from one thread at a time. Each batch is made
/// when the consumer asks for it.
[[nodiscard]] nb::object arrow_stream_of(std::unique_ptr<event_source> source, std::size_t batch);

}  // namespace quarry::python
