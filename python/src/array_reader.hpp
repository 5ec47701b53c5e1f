// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/trace/reader.hpp"

#include <algorithm>
#include <span>

namespace quarry::python {

/// Reads the events of a NumPy array.
class array_reader : public trace::reader {
 public:
  explicit array_reader(std::span<trace::event const> events) : events_{events} {}
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
