// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/trace/reader.hpp"

#include "names.hpp"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

namespace quarry::python {

/// Reads the events of a NumPy array.
class array_reader : public trace::reader {
 public:
  explicit array_reader(std::span<trace::event const> events,
                        std::vector<std::string> const& call_sites = {})
      : events_{events} {
    add_names(names_.call_sites, call_sites);
  }
  [[nodiscard]] std::size_t read(std::span<trace::event> target) override {
    std::size_t const count = std::min(target.size(), events_.size());
    std::ranges::copy(events_.first(count), target.begin());
    events_ = events_.subspan(count);
    return count;
  }
  [[nodiscard]] trace::format file_format() const override { return trace::format::quarry; }

 private:
  std::span<trace::event const> events_;
};

}  // namespace quarry::python
