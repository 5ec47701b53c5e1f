// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/abi.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace quarry::inline QUARRY_ABI {

/// Tells a stream from all others that there are, were and will be: by a number that no other one
/// has, or by the number of what it is a part of, with its handle there.
struct stream_identity {
  std::uint64_t number = 0;
  std::uint64_t handle = 0;

  friend bool operator==(stream_identity const&, stream_identity const&) = default;
  struct hash {
    std::size_t operator()(stream_identity const& of) const {
      return static_cast<std::size_t>((of.number ^ of.handle >> 4) * 0x9e3779b97f4a7c15);
    }
  };
};

/// What a pool must know of streams: queues of work, each of which is done in order.
///
/// A handle may be a new stream's once its stream was destroyed. So nothing below may be asked of a
/// stream later than in the call that names it. `identity(stream)` gives what no other stream has,
/// or will have; it throws `bad_argument` for what is no stream. A handle that `depends_on_thread`
/// is another stream in each thread.
///
/// `record(stream)` gives an event that is done when all is done that the stream has now;
/// `wait(stream, event)` makes what the stream gets from now on wait for it. Both throw if they
/// cannot, and have changed nothing then; `record` throws `bad_argument` while the stream is being
/// captured. `is_done` asks, and `finish` makes the host wait, for an event or for all that a
/// stream has, and then says whether that is done; they do not throw. `finish_all` waits for all
/// that any stream has, those included that were destroyed; false if it cannot, for instance while
/// a stream is being captured. `drop` ends an event, which may not be done. Threads may call
/// `finish(stream)` and `finish_all` at once, and beside every other function; the others take
/// turns.
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
