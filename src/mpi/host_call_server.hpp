// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "host_calls.hpp"

#include <atomic>

namespace quarry::inline QUARRY_ABI::mpi {

/// The launcher's end of the ring of host calls. One thread serves. It waits for nothing: a rank
/// whose input is not there yet hears so and asks again.
class host_call_server {
 public:
  /// `records`: the places of the ring, all zero.
  explicit host_call_server(host_call_record* records) : records_{records} {}

  /// Answers the requests that ranks have posted, at most as many as the ring has places. Calls
  /// `before()` before each request, so that a rank's output appears before the effects of its
  /// later call. Returns whether there were any.
  template <class Before>
  bool serve(Before const& before) {
    std::uint64_t const first = next_;
    for (; next_ - first < host_call_ring::places; ++next_) {
      host_call_record& record = records_[next_ % host_call_ring::places];
      std::uint64_t const round = 3 * (next_ / host_call_ring::places);
      std::atomic_ref turn{record.turn};
      if (turn.load(std::memory_order_acquire) != round + 1) return next_ != first;
      before();
      host_request request = record.request;
      request.text = record.text;
      record.answer =
          is_ready(request) ? perform(request) : host_answer{-1, host_answer::no_input_yet};
      turn.store(round + 2, std::memory_order_release);
    }
    return true;
  }

 private:
  host_call_record* records_;
  std::uint64_t next_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI::mpi
