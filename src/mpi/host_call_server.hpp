// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "host_calls.hpp"

#include <atomic>

namespace quarry::inline QUARRY_ABI::mpi {

/// The launcher's end of the ring of host calls. One thread serves; others may ask is_blocked().
class host_call_server {
 public:
  /// `records`: the places of the ring, all zero.
  explicit host_call_server(host_call_record* records) : records_{records} {}

  /// Answers the requests that ranks have posted. Calls `before()` before each request, so that a
  /// rank's output appears before the effects of its later call. Returns whether there were any.
  template <class Before>
  bool serve(Before const& before) {
    std::uint64_t const first = next_;
    for (;; ++next_) {
      host_call_record& record = records_[next_ % host_call_ring::places];
      std::uint64_t const round = 3 * (next_ / host_call_ring::places);
      std::atomic_ref turn{record.turn};
      if (turn.load(std::memory_order_acquire) != round + 1) return next_ != first;
      before();
      host_request request = record.request;
      is_blocked_ = !is_ready(request);
      if (is_blocked_) return next_ != first;
      request.text = record.text;
      record.answer = perform(request);
      turn.store(round + 2, std::memory_order_release);
    }
  }

  /// Whether a rank waits for input that is not there yet.
  [[nodiscard]] bool is_blocked() const { return is_blocked_; }

 private:
  host_call_record* records_;
  std::uint64_t next_ = 0;
  std::atomic<bool> is_blocked_ = false;
};

}  // namespace quarry::inline QUARRY_ABI::mpi
