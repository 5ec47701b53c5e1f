// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/abi.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace quarry::inline QUARRY_ABI {

/// Identifies a stream. No other stream ever has the same identity. `number` is the driver's id of
/// the stream. While a stream is being captured, `number` is the id of the capture and `handle` is
/// the stream's handle in it.
struct stream_identity {
  std::uint64_t number = 0;
  std::uint64_t handle = 0;

  friend bool operator==(stream_identity const&, stream_identity const&) = default;
  struct hash {
    std::size_t operator()(stream_identity const& identity) const {
      return static_cast<std::size_t>((identity.number ^ identity.handle >> 4) *
                                      0x9e3779b97f4a7c15);
    }
  };
};

/// The streams and events of a backend. A stream executes its work in order.
///
/// After a stream is destroyed, a new stream may get its handle. So a pool uses a handle only in
/// the call that names it. `identity(stream)` returns an identity that no other stream ever has; it
/// throws `bad_argument` if the handle is invalid. `depends_on_thread(stream)` returns whether the
/// handle means another stream in each thread.
///
/// `record(stream)` returns an event that completes when the work now in the stream is complete.
/// `wait(stream, event)` makes later work of the stream wait for the event. Both functions throw on
/// failure and then change nothing; `record` throws `bad_argument` while the stream is being
/// captured. `is_done(event)` does not wait. `finish(event)` and `finish(stream)` block the host
/// until the event, or the stream's work, is complete; `finish(stream)` returns false if it cannot.
/// `finish_all()` waits for the work of all streams, destroyed ones included; it returns false if
/// it cannot, for instance during a capture. `drop(event)` destroys an event, complete or not. Any
/// thread may call `finish(stream)` and `finish_all` at any time; calls of the other functions must
/// be serialised.
template <class Order>
concept stream_order = std::movable<Order> && requires(Order& order, typename Order::stream stream,
                                                       typename Order::event& event) {
  requires std::equality_comparable<typename Order::stream>;
  { order.identity(stream) } -> std::same_as<stream_identity>;
  { order.depends_on_thread(stream) } noexcept -> std::same_as<bool>;
  { order.record(stream) } -> std::same_as<typename Order::event>;
  { order.wait(stream, event) };
  { order.is_done(event) } noexcept -> std::same_as<bool>;
  { order.finish(event) } noexcept;
  { order.finish(stream) } noexcept -> std::same_as<bool>;
  { order.finish_all() } noexcept -> std::same_as<bool>;
  { order.drop(event) } noexcept;
};

}  // namespace quarry::inline QUARRY_ABI
