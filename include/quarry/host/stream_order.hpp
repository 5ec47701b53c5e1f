// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>

namespace quarry {

/// Tells a stream from all others that there are, were and will be.
using stream_identity = std::uint64_t;

/// What a pool must know of streams: queues of work, each of which is done in order.
///
/// A handle may be a new stream's once its stream was destroyed. So nothing below may be asked of a
/// stream later than in the call that names it. `identity(stream)` gives a number that no other
/// stream has, or will have; it throws `bad_argument` for what is no stream. A handle that
/// `depends_on_thread` is another stream in each thread.
///
/// `record(stream)` gives an event that is done when all is done that the stream has now;
/// `wait(stream, event)` makes what the stream gets from now on wait for it. Both throw if they
/// cannot, and have changed nothing then; `record` throws `bad_argument` while the stream is being
/// captured. `is_done` asks, and `finish` makes the host wait, for an event or for all that a
/// stream has; they do not throw. `finish_all` waits for all that any stream has, those included
/// that were destroyed; false if it cannot, for instance while a stream is being captured. `drop`
/// ends an event, which may not be done.
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
  { order.finish(stream) } noexcept;
  { order.finish_all() } noexcept -> std::same_as<bool>;
  { order.drop(event) } noexcept;
};

}  // namespace quarry
