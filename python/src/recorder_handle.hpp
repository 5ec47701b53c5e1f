// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/trace/recorder.hpp"

#include "call_sites.hpp"

#include <memory>
#include <optional>
#include <string>

namespace quarry::python {

/// The class that Python sees: a recorder, which pools share.
class recorder_handle {
 public:
  /// Records to a file, or with `ring_events` the last events in memory. One of both must be set.
  recorder_handle(std::optional<std::string> const& path, std::optional<std::size_t> ring_events,
                  bool has_call_sites)
      : recorder_{path ? std::make_shared<trace::recorder>(*path)
                       : std::make_shared<trace::recorder>(
                             trace::ring_limit{ring_events.value_or(0)})},
        sites_{has_call_sites ? std::make_shared<call_sites>(recorder_) : nullptr} {}

  [[nodiscard]] std::shared_ptr<trace::recorder> const& shared() const { return recorder_; }
  /// Null if events have no call sites.
  [[nodiscard]] std::shared_ptr<call_sites> const& sites() const { return sites_; }

 private:
  std::shared_ptr<trace::recorder> recorder_;
  std::shared_ptr<call_sites> sites_;
};

}  // namespace quarry::python
