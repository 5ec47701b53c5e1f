// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "module.hpp"

#include <cstdint>
#include <utility>

namespace quarry::python {

/// Tells Python what is done, and lets Control-C end the call. Must be made, used and
/// destroyed without the GIL.
class progress_reporter {
 public:
  explicit progress_reporter(nb::object callback) : callback_{std::move(callback)} {}
  progress_reporter(progress_reporter const&) = delete;
  progress_reporter& operator=(progress_reporter const&) = delete;
  ~progress_reporter() {
    held_gil const gil;
    callback_.reset();
  }
  /// Adds a batch. Most batches are not reported.
  void add(std::size_t events) {
    events_ += events;
    if (++batches_ % batches_per_report == 0) report();
  }
  void report() { report(events_); }
  /// Tells the number of events, or the name of the present step as a C string. Throws what the
  /// callback throws.
  template <class Done>
  void report(Done done) {
    held_gil const gil;
    if (PyErr_CheckSignals() != 0) throw nb::python_error{};
    if (!callback_.is_none()) callback_(done);
  }

 private:
  static constexpr std::size_t batches_per_report = 16;
  nb::object callback_;
  std::uint64_t events_ = 0;
  std::size_t batches_ = 0;
};

}  // namespace quarry::python
