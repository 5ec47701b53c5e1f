// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <functional>

namespace quarry {

/// What a pool must know of streams: queues of work, each of which is done in order.
///
/// `record(stream)` gives an event that is done when all is done that the stream has now;
/// `wait(stream, event)` makes what the stream gets from now on wait for it. `is_done` asks, and
/// `finish` makes the host wait, for an event or for all that a stream has; they do not throw.
/// `record` and `wait` throw if they cannot, and have changed nothing then. `drop` ends an event,
/// which may not be done. `checked` gives the one name that a stream has among several, and throws
/// `bad_argument` for what is not one queue.
template <class Order>
concept stream_order = std::movable<Order> && requires(Order& order, typename Order::stream stream,
                                                       typename Order::event& event) {
  requires std::equality_comparable<typename Order::stream> &&
               std::default_initializable<std::hash<typename Order::stream>>;
  { order.checked(stream) } -> std::same_as<typename Order::stream>;
  { order.record(stream) } -> std::same_as<typename Order::event>;
  { order.wait(stream, event) };
  { order.is_done(event) } noexcept -> std::same_as<bool>;
  { order.finish(event) } noexcept;
  { order.finish(stream) } noexcept;
  { order.drop(event) } noexcept;
};

}  // namespace quarry
