// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/trace/recorder.hpp"

#include <memory>
#include <optional>
#include <string>

namespace quarry::python {

/// The class that Python sees: a recorder, which pools share.
class recorder_handle {
 public:
  /// Records to a file, or with `ring_events` the last events in memory. One of both must be set.
  recorder_handle(std::optional<std::string> const& path, std::optional<std::size_t> ring_events)
      : recorder_{
            path ? std::make_shared<trace::recorder>(*path)
                 : std::make_shared<trace::recorder>(trace::ring_limit{ring_events.value_or(0)})} {}

  [[nodiscard]] std::shared_ptr<trace::recorder> const& shared() const { return recorder_; }

 private:
  std::shared_ptr<trace::recorder> recorder_;
};

}  // namespace quarry::python
