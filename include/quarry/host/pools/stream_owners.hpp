// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/pools/owned_arena.hpp"
#include "quarry/host/pools/stream_order.hpp"
#include "quarry/host/resources/make_room.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

namespace quarry::inline QUARRY_ABI::detail {

/// The streams that a pool knows, as owners of its free chunks: which stream owns a chunk, and
/// which events another stream must wait for before it uses the chunk (stream_pool says how that
/// works).
///
/// Each stream is an owner (owned_arena). The chunks that it freed are *covered* once an event is
/// recorded after the frees; covered chunks can be made common. Invariants: (1) no work uses an
/// owner's covered chunks once its `covering` event is done, if it has one; (2) no work uses the
/// common chunks once all of `unfinished` are done; (3) `order_` is asked about no stream but
/// the one that the current call names.
template <stream_order Order>
class stream_owners {
 public:
  using stream = typename Order::stream;
  using sizes = chunk_sizes;

  struct state {
    std::uint32_t owner;
    bytes uncovered = 0;  // freed since it was last covered, reused or not
    std::optional<typename Order::event> covering = {};  // when the covered chunks are unused
    std::uint64_t waited = 0;                            // for the shared events up to this one
  };
  /// `chunks` outlives it.
  stream_owners(Order order, owned_arena& chunks)
      : order_{std::move(order)}, chunks_{chunks}, nobody_{*chunks.add_owner()} {}
  stream_owners(stream_owners const&) = delete;
  stream_owners& operator=(stream_owners const&) = delete;
  ~stream_owners() { drop_events(); }

  /// The state of a stream; throws what `identity` throws, and `out_of_memory`.
  [[nodiscard]] state& of(stream on) {
    stream_identity const who = order_.identity(on);
    if (last_ == nullptr || last_->first != who) {
      auto const found = streams_.find(who);
      last_ = found != streams_.end() ? &*found : &*add_state(who);
    }
    last_handle_ = on;
    return last_->second;
  }
  /// The state of the stream that the handle stood for in the latest call; that stream may be
  /// destroyed. Does not ask for the identity. nullptr if the latest call named another handle, or
  /// if the handle depends on the thread.
  [[nodiscard]] state* last(stream on) {
    return last_ != nullptr && on == last_handle_ && !order_.depends_on_thread(on) ? &last_->second
                                                                                   : nullptr;
  }
  [[nodiscard]] std::size_t count() const { return streams_.size(); }

  /// Counts `size` bytes that were freed on `on` and belong to `its` now. Records an event if it is
  /// time for one.
  void gave_back(stream on, state& its, bytes size) noexcept {
    its.uncovered += size;
    if (its.uncovered > max_uncovered()) cover(on, its);
  }

  /// The owner of a chunk that is freed on a stream whose state cannot be kept. Waits for the work
  /// that `on` has now; then the chunk is common. If the wait fails, the chunk is nobody's until
  /// all streams are waited for.
  [[nodiscard]] std::uint32_t owner_without_stream(stream on) noexcept {
    try {
      auto now = order_.record(on);
      order_.finish(now);
      bool const is_done = order_.is_done(now);
      order_.drop(now);
      return is_done ? 0 : nobody_;
    } catch (bad_argument const&) {  // it is being captured
      return nobody_;
    } catch (...) {
      return order_.finish(on) ? 0 : nobody_;
    }
  }

  /// Allocates common memory. Makes `on` wait for the streams that used that memory, unless they
  /// are done; if that fails, the host waits for them.
  [[nodiscard]] std::optional<std::uint64_t> allocate_common(stream on, state& its, sizes both) {
    if (!chunks_.has_any(many_owners::common)) return std::nullopt;
    auto const base = chunks_.allocate(both, many_owners::common);
    if (!base || its.waited == events_) return base;
    forget_done();
    try {
      for (auto const& each : unfinished_) {
        if (each.number <= its.waited || each.of == its.owner) continue;
        order_.wait(on, each.done);
        ++waits_;
      }
    } catch (...) {
      for (auto const& each : unfinished_) order_.finish(each.done);
    }
    its.waited = events_;
    return base;
  }

  /// Covers what the stream freed: records an event on `on`, which must exist at this moment. Does
  /// nothing while the stream is being captured. If no event can be recorded, waits for the stream;
  /// if that fails, the freed chunks stay the stream's own. `its` is the state of the stream that
  /// the handle stood for in the latest call.
  void cover(stream on, state& its) noexcept {
    if (!chunks_.has_recent(its.owner)) {
      its.uncovered = 0;
      return;
    }
    try {
      if (auto const now = streams_.find(order_.identity(on));
          now == streams_.end() || &now->second != &its) {
        last_ = nullptr;  // the handle stands for another stream
        return;
      }
      auto const event = order_.record(on);
      ++recorded_;
      if (its.covering) order_.drop(*its.covering);
      its.covering = event;
    } catch (bad_argument const&) {
      return;
    } catch (...) {
      if (!order_.finish(on)) return;
    }
    its.uncovered = 0;
    chunks_.cover(its.owner);
  }
  /// Makes all covered chunks common.
  void share_all() noexcept {
    ++shares_;
    forget_done();
    for (auto& [who, its] : streams_) share(its);
  }
  /// Makes common the chunks that the stream freed until now.
  void share(stream on) {
    auto const found = streams_.find(order_.identity(on));
    if (found == streams_.end()) return;
    cover(on, found->second);
    share(found->second);
  }
  /// The same, for a stream that no later call names.
  void forget(stream on) {
    auto const found = streams_.find(order_.identity(on));
    if (found == streams_.end()) return;
    cover(on, found->second);
    share(found->second);
    if (!chunks_.has_recent(found->second.owner)) forget_state(found);  // else it is captured
  }

  /// Waits for all work that used free chunks; then all of them are common. Returns false and
  /// changes nothing if the wait fails.
  bool synchronize_all() noexcept {
    if (!wait_for_all()) return false;
    drop_events();
    chunks_.cover(nobody_);
    chunks_.share(nobody_);
    for (auto& [who, its] : streams_) {
      its.uncovered = 0;
      chunks_.cover(its.owner);
      chunks_.share(its.owner);
    }
    return true;
  }
  /// Waits for all work that used free chunks, by events if they cover all chunks. A wait for all
  /// streams would end any thread's capture, so this does it only if it must. False if that fails.
  bool wait_for_all() noexcept {
    bool const is_covered = !chunks_.has_recent(nobody_) &&
                            std::none_of(streams_.begin(), streams_.end(), [&](auto const& each) {
                              return chunks_.has_recent(each.second.owner);
                            });
    if (!is_covered && order_.finish_all()) return true;
    for (auto const& each : unfinished_) order_.finish(each.done);
    for (auto const& [who, its] : streams_) {
      if (its.covering) order_.finish(*its.covering);
    }
    return is_covered;
  }
  [[nodiscard]] Order& order() { return order_; }
  [[nodiscard]] std::uint64_t events() const { return recorded_; }
  [[nodiscard]] std::uint64_t waits() const { return waits_; }
  [[nodiscard]] std::uint64_t shares() const { return shares_; }

 private:
  /// Streams may have freed one part in so many of the pool without an event, divided among the
  /// streams that the pool knows.
  static constexpr bytes uncovered_share = 16;
  /// The maximum number of streams, and the number from which on it looks for streams to forget.
  /// From then on each free records an event: a program with so many streams makes new ones all the
  /// time, and a destroyed stream with uncovered chunks could not be forgotten.
  static constexpr std::size_t max_streams = 4096, min_to_forget = 64;

  using state_map = std::unordered_map<stream_identity, state, stream_identity::hash>;
  /// An event of work that may still use common chunks.
  struct unfinished {
    typename Order::event done;
    std::uint32_t of;  // the owner; 0 once its stream is forgotten
    std::uint64_t number;
  };

  [[nodiscard]] bytes max_uncovered() const {
    return streams_.size() >= min_to_forget
               ? 0
               : chunks_.reserved() / uncovered_share / streams_.size();
  }
  [[nodiscard]] typename state_map::iterator add_state(stream_identity who) {
    if (streams_.size() >= forget_at_) forget_idle();
    make_room(unused_owners_, streams_.size() + unused_owners_.size() + 1);
    make_room(unfinished_, streams_.size() + unfinished_.size() + 1);  // for `share`
    std::uint32_t owner = 0;
    if (!unused_owners_.empty()) {
      owner = unused_owners_.back();
    } else {
      auto const added = chunks_.add_owner();
      if (!added) throw out_of_memory{"stream_pool", 0, "8190 streams have memory that they freed"};
      unused_owners_.push_back(owner = *added);
    }
    auto const result = streams_.emplace(who, state{owner}).first;
    unused_owners_.pop_back();
    return result;
  }
  /// Forgets the streams that own no free chunk, since they may be destroyed. If there are very
  /// many streams, waits for all of them first.
  void forget_idle() noexcept {
    if (streams_.size() >= max_streams) (void)synchronize_all();
    for (auto each = streams_.begin(); each != streams_.end();) {
      auto const next = std::next(each);
      share(each->second);
      if (!chunks_.has_any(each->second.owner)) forget_state(each);
      each = next;
    }
    forget_at_ = std::clamp(streams_.size() * 2, min_to_forget, max_streams);
  }
  void forget_state(typename state_map::iterator which) noexcept {
    for (auto& each : unfinished_) {
      if (each.of == which->second.owner) each.of = 0;
    }
    unused_owners_.push_back(which->second.owner);  // has room: see add_state
    last_ = nullptr;
    streams_.erase(which);
  }

  /// Makes the stream's covered chunks common. The event replaces the stream's previous one, which
  /// it implies: there is at most one for each stream, and one for each forgotten stream.
  void share(state& its) noexcept {
    if (its.covering) {
      auto const entry = std::find_if(unfinished_.begin(), unfinished_.end(),
                                      [&](auto const& each) { return each.of == its.owner; });
      unfinished const fresh{*its.covering, its.owner, ++events_};
      if (entry == unfinished_.end()) {
        unfinished_.push_back(fresh);  // has room: see add_state
      } else {
        order_.drop(entry->done);
        *entry = fresh;
      }
      its.covering.reset();
    }
    chunks_.share(its.owner);
  }
  void forget_done() noexcept {
    std::erase_if(unfinished_, [&](auto& each) {
      if (!order_.is_done(each.done)) return false;
      order_.drop(each.done);
      return true;
    });
  }
  void drop_events() noexcept {
    for (auto& each : unfinished_) order_.drop(each.done);
    unfinished_.clear();
    for (auto& [who, its] : streams_) {
      if (its.covering) order_.drop(*its.covering);
      its.covering.reset();
    }
  }

  Order order_;
  owned_arena& chunks_;
  std::uint32_t nobody_;  // owner of chunks of which no event tells when they are unused
  state_map streams_;
  typename state_map::value_type* last_ = nullptr;  // the latest call's stream, and its handle
  stream last_handle_{};
  std::size_t forget_at_ = min_to_forget;
  std::vector<std::uint32_t> unused_owners_;  // of forgotten streams
  std::vector<unfinished> unfinished_;
  std::uint64_t events_ = 0;  // shared so far
  std::uint64_t recorded_ = 0, waits_ = 0, shares_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI::detail
