// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/detail/make_room.hpp"
#include "quarry/host/detail/owned_arena.hpp"
#include "quarry/host/pools/stream_order.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI::detail {

/// The streams that a pool knows, as owners of its free chunks. The class knows which stream owns a
/// chunk, and for which events another stream must wait before it uses the chunk (see stream_pool).
///
/// Each stream is an owner (owned_arena). The chunks that it freed are *covered* once an event is
/// recorded after the frees; covered chunks can be made common. They become common at once if no
/// other stream made a call since the stream was last covered. So the memory of a stream that works
/// alone has one owner, and its chunks merge. Invariants: (1) No work uses an owner's covered
/// chunks once the owner's `covering` event is done, if it has one. (2) No work uses the common
/// chunks once all of `unfinished` are done. (3) `order_` gets no handle but the handle of the
/// current call.
template <stream_order Order>
class stream_owners {
 public:
  using stream = typename Order::stream;
  using sizes = chunk_sizes;

  struct state {
    std::uint32_t owner;
    bytes uncovered = 0;  // bytes freed since the last `cover`, reused or not
    std::optional<typename Order::event> covering = {};  // when the covered chunks are unused
    std::uint64_t waited = 0;    // the stream waited for shared events up to this number
    std::uint64_t switches = 0;  // the value of `switches_` when the stream was last covered
  };
  /// `chunks` must outlive this object.
  stream_owners(Order order, owned_arena& chunks)
      : order_{std::move(order)}, chunks_{chunks}, uncovered_owner_{*chunks.add_owner()} {}
  stream_owners(stream_owners const&) = delete;
  stream_owners& operator=(stream_owners const&) = delete;
  ~stream_owners() { drop_events(); }

  /// The state of a stream; throws what `identity` throws, and `out_of_memory`.
  [[nodiscard]] state& state_of(stream handle) {
    stream_identity const identity = order_.identity(handle);
    if (last_ == nullptr || last_->first != identity) {
      ++switches_;
      auto const found = streams_.find(identity);
      last_ = found != streams_.end() ? &*found : &*add_state(identity);
    }
    last_handle_ = handle;
    return last_->second;
  }
  /// The state of the stream that the handle stood for in the latest call; that stream may be
  /// destroyed. Does not call `identity`. nullptr if the latest call named another handle, or if
  /// the handle depends on the thread.
  [[nodiscard]] state* last(stream handle) {
    return last_ != nullptr && handle == last_handle_ && !order_.depends_on_thread(handle)
               ? &last_->second
               : nullptr;
  }
  [[nodiscard]] std::size_t count() const { return streams_.size(); }

  /// Counts `size` bytes that were freed on `handle` and belong to `known` now. Records an event if
  /// the uncovered bytes exceed the limit.
  void count_free(stream handle, state& known, bytes size) noexcept {
    known.uncovered += size;
    if (known.uncovered > max_uncovered()) cover(handle, known);
  }

  /// The owner for a chunk that is freed on a stream whose state cannot be stored. Waits for the
  /// work submitted to `handle` so far; then the chunk is common. If the wait fails, no stream may
  /// reuse the chunk until the pool has waited for all streams.
  [[nodiscard]] std::uint32_t owner_without_stream(stream handle) noexcept {
    try {
      auto event = order_.record(handle);
      order_.finish(event);
      bool const is_done = order_.is_done(event);
      order_.drop(event);
      return is_done ? 0 : uncovered_owner_;
    } catch (bad_argument const&) {  // the stream is being captured
      return uncovered_owner_;
    } catch (...) {
      return order_.finish(handle) ? 0 : uncovered_owner_;
    }
  }

  /// Whether the stream may use common memory at once: no other stream's work still uses it, or the
  /// stream waits for that work already. Queries events up to the first that is not done.
  [[nodiscard]] bool is_ordered(state& known) noexcept {
    while (known.waited != events_) {
      auto const entry = std::find_if(unfinished_.begin(), unfinished_.end(), [&](auto& pending) {
        return pending.number > known.waited && pending.owner != known.owner;
      });
      if (entry == unfinished_.end()) {
        known.waited = events_;
      } else if (order_.is_done(entry->done)) {
        order_.drop(entry->done);
        unfinished_.erase(entry);
      } else {
        return false;
      }
    }
    return true;
  }

  /// Allocates common memory. Makes `handle` wait for the streams that used that memory, unless
  /// they are done; if that fails, the host waits for them.
  [[nodiscard]] std::optional<std::uint64_t> allocate_common(stream handle, state& known,
                                                             sizes needed) {
    if (!chunks_.has_any(many_owners::common)) return std::nullopt;
    auto const base = chunks_.allocate(needed, many_owners::common);
    if (!base || known.waited == events_) return base;
    forget_done();
    try {
      for (auto const& entry : unfinished_) {
        if (entry.number <= known.waited || entry.owner == known.owner) continue;
        order_.wait(handle, entry.done);
        ++waits_;
      }
    } catch (...) {
      for (auto const& entry : unfinished_) order_.finish(entry.done);
    }
    known.waited = events_;
    return base;
  }

  /// Covers what the stream freed: records an event on `handle`, which must exist at this moment.
  /// If the stream works alone, also makes the covered chunks common.
  /// Does nothing while the stream is being captured. If no event can be recorded, waits for the
  /// stream; if that fails, the freed chunks stay the stream's own. `known` is the state of the
  /// stream that the handle stood for in the latest call.
  void cover(stream handle, state& known) noexcept {
    if (!chunks_.has_recent(known.owner)) {
      known.uncovered = 0;
      return;
    }
    try {
      if (auto const found = streams_.find(order_.identity(handle));
          found == streams_.end() || &found->second != &known) {
        last_ = nullptr;  // the handle stands for another stream
        return;
      }
      auto const event = order_.record(handle);
      ++recorded_;
      if (known.covering) order_.drop(*known.covering);
      known.covering = event;
    } catch (bad_argument const&) {
      return;
    } catch (...) {
      if (!order_.finish(handle)) return;
    }
    known.uncovered = 0;
    chunks_.cover(known.owner);
    if (std::exchange(known.switches, switches_) == switches_) share(known);
  }
  /// Makes all covered chunks common.
  void share_all() noexcept {
    ++shares_;
    forget_done();
    for (auto& [identity, known] : streams_) share(known);
  }
  /// Makes the chunks that the stream has freed so far common.
  void share(stream handle) {
    auto const found = streams_.find(order_.identity(handle));
    if (found == streams_.end()) return;
    cover(handle, found->second);
    share(found->second);
  }
  /// The same, for a stream that makes no more calls.
  void forget(stream handle) {
    auto const found = streams_.find(order_.identity(handle));
    if (found == streams_.end()) return;
    cover(handle, found->second);
    share(found->second);
    // chunks are still uncovered only if the stream is being captured
    if (!chunks_.has_recent(found->second.owner)) forget_state(found);
  }

  /// Waits for all work that used free chunks; then all free chunks are common. Returns false and
  /// changes nothing if the wait fails.
  bool synchronize_all() noexcept {
    if (!wait_for_all()) return false;
    drop_events();
    chunks_.cover(uncovered_owner_);
    chunks_.share(uncovered_owner_);
    for (auto& [identity, known] : streams_) {
      known.uncovered = 0;
      chunks_.cover(known.owner);
      chunks_.share(known.owner);
    }
    return true;
  }
  /// Waits for all work that used free chunks, by events if they cover all chunks. Waits for all
  /// streams only if the events do not cover all chunks, because that wait would end any thread's
  /// capture. Returns false if it fails.
  bool wait_for_all() noexcept {
    bool const is_covered = !chunks_.has_recent(uncovered_owner_) &&
                            std::none_of(streams_.begin(), streams_.end(), [&](auto const& entry) {
                              return chunks_.has_recent(entry.second.owner);
                            });
    if (!is_covered && order_.finish_all()) return true;
    for (auto const& entry : unfinished_) order_.finish(entry.done);
    for (auto const& [identity, known] : streams_) {
      if (known.covering) order_.finish(*known.covering);
    }
    return is_covered;
  }
  /// The host waits for all work that used common chunks. Returns false if a chunk may still be in
  /// use. Returns false without a wait if no event can be recorded on `handle`, for example during
  /// a capture.
  [[nodiscard]] bool finish_common(stream handle) noexcept {
    try {
      auto probe = order_.record(handle);
      ++recorded_;
      order_.drop(probe);
    } catch (...) {
      return false;
    }
    for (auto const& entry : unfinished_) order_.finish(entry.done);
    forget_done();
    return unfinished_.empty();
  }
  [[nodiscard]] Order& order() { return order_; }
  [[nodiscard]] std::uint64_t events() const { return recorded_; }
  [[nodiscard]] std::uint64_t waits() const { return waits_; }
  [[nodiscard]] std::uint64_t shares() const { return shares_; }

 private:
  /// The share of the reserved bytes that streams may free without an event: one part in
  /// `uncovered_share`, divided by the number of known streams.
  static constexpr bytes uncovered_share = 16;
  /// `max_streams`: the maximum number of known streams. `min_to_forget`: with so many streams, the
  /// pool looks for streams to forget, and each free records an event. A program with so many
  /// streams creates new streams all the time, and the pool could not forget a destroyed stream
  /// with uncovered chunks.
  static constexpr std::size_t max_streams = 4096, min_to_forget = 64;

  using state_map = std::unordered_map<stream_identity, state, stream_identity::hash>;
  /// An event of work that may still use common chunks.
  struct unfinished {
    typename Order::event done;
    std::uint32_t owner;  // of the work's stream; 0 once the stream is forgotten
    std::uint64_t number;
  };

  [[nodiscard]] bytes max_uncovered() const {
    return streams_.size() >= min_to_forget
               ? 0
               : chunks_.reserved() / uncovered_share / streams_.size();
  }
  [[nodiscard]] typename state_map::iterator add_state(stream_identity identity) {
    if (streams_.size() >= forget_at_) forget_idle();
    make_room(unused_owners_, streams_.size() + unused_owners_.size() + 1);
    make_room(unfinished_, streams_.size() + unfinished_.size() + 1);  // for `share`
    std::uint32_t owner = 0;
    if (!unused_owners_.empty()) {
      owner = unused_owners_.back();
    } else {
      auto const added = chunks_.add_owner();
      if (!added)
        throw out_of_memory{"stream_pool", 0, "8190 streams, the maximum, have freed memory"};
      unused_owners_.push_back(owner = *added);
    }
    auto const result =
        streams_.emplace(identity, state{.owner = owner, .switches = switches_}).first;
    unused_owners_.pop_back();
    return result;
  }
  /// Forgets the streams that own no free chunk, since they may be destroyed. If `max_streams` are
  /// known, waits for all streams first.
  void forget_idle() noexcept {
    if (streams_.size() >= max_streams) (void)synchronize_all();
    for (auto entry = streams_.begin(); entry != streams_.end();) {
      auto const next = std::next(entry);
      share(entry->second);
      if (!chunks_.has_any(entry->second.owner)) forget_state(entry);
      entry = next;
    }
    forget_at_ = std::clamp(streams_.size() * 2, min_to_forget, max_streams);
  }
  void forget_state(typename state_map::iterator position) noexcept {
    for (auto& entry : unfinished_) {
      if (entry.owner == position->second.owner) entry.owner = 0;
    }
    unused_owners_.push_back(position->second.owner);  // has room: see add_state
    last_ = nullptr;
    streams_.erase(position);
  }

  /// Makes the stream's covered chunks common. The event replaces the previous event of the stream,
  /// which it implies. So there is at most one event for each known stream, and one for each
  /// forgotten stream.
  void share(state& known) noexcept {
    if (known.covering) {
      auto const entry =
          std::find_if(unfinished_.begin(), unfinished_.end(),
                       [&](auto const& pending) { return pending.owner == known.owner; });
      unfinished const fresh{*known.covering, known.owner, ++events_};
      if (entry == unfinished_.end()) {
        unfinished_.push_back(fresh);  // has room: see add_state
      } else {
        order_.drop(entry->done);
        *entry = fresh;
      }
      known.covering.reset();
    }
    chunks_.share(known.owner);
  }
  void forget_done() noexcept {
    std::erase_if(unfinished_, [&](auto& entry) {
      if (!order_.is_done(entry.done)) return false;
      order_.drop(entry.done);
      return true;
    });
  }
  void drop_events() noexcept {
    for (auto& entry : unfinished_) order_.drop(entry.done);
    unfinished_.clear();
    for (auto& [identity, known] : streams_) {
      if (known.covering) order_.drop(*known.covering);
      known.covering.reset();
    }
  }

  Order order_;
  owned_arena& chunks_;
  std::uint32_t uncovered_owner_;  // owns chunks that no event covers
  state_map streams_;
  typename state_map::value_type* last_ = nullptr;  // the stream of the latest call, and its handle
  stream last_handle_{};
  std::size_t forget_at_ = min_to_forget;
  std::vector<std::uint32_t> unused_owners_;  // of forgotten streams
  std::vector<unfinished> unfinished_;
  std::uint64_t events_ = 0;    // the number of shared events
  std::uint64_t switches_ = 0;  // calls that named another stream than the call before
  std::uint64_t recorded_ = 0, waits_ = 0, shares_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI::detail
