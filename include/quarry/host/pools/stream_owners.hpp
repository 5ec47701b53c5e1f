// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/pools/owned_fitting.hpp"
#include "quarry/host/pools/stream_order.hpp"
#include "quarry/host/resources/make_room.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// The streams that a pool knows, as owners of its free chunks: whose each is, and what must be
/// waited for before another stream has it (stream_pool says how that works).
///
/// Each stream is an owner (owned_fitting). What it freed is *covered* once there is an event
/// for it; what is covered can be made common. Invariants: (1) an owner's covered chunks are free
/// once its `covering` event is done, if it has one; (2) what is common is free once all of
/// `unfinished` are done; (3) no call names a stream that an earlier call named.
template <stream_order Order>
class stream_owners {
 public:
  using stream = typename Order::stream;
  using sizes = owned_fitting::sizes;

  struct state {
    std::uint32_t owner;
    bytes uncovered = 0;  // freed since it was last covered, whether it has that still or not
    std::optional<typename Order::event> covering = {};  // before it, what is covered is in use
    std::uint64_t waited = 0;                            // for the events up to this one
  };
  /// `chunks` outlives it.
  stream_owners(Order order, owned_fitting& chunks)
      : order_{std::move(order)}, chunks_{chunks}, nobody_{*chunks.add_owner()} {}
  stream_owners(stream_owners const&) = delete;
  stream_owners& operator=(stream_owners const&) = delete;
  ~stream_owners() { drop_events(); }

  /// What is known of a stream; throws what `identity` does, and `out_of_memory`.
  [[nodiscard]] state& of(stream on) {
    stream_identity const who = order_.identity(on);
    if (last_ == nullptr || last_->first != who) {
      auto const found = streams_.find(who);
      last_ = found != streams_.end() ? &*found : &*add_state(who);
    }
    last_handle_ = on;
    return last_->second;
  }
  /// The same without asking what the handle stands for: what it stood for when it last came, which
  /// may be gone. nullptr if another came since, or if it stands for several.
  [[nodiscard]] state* last(stream on) {
    return last_ != nullptr && on == last_handle_ && !order_.depends_on_thread(on) ? &last_->second
                                                                                   : nullptr;
  }
  [[nodiscard]] std::size_t count() const { return streams_.size(); }

  /// `size` bytes were freed on `on`, and are `its` now. An event is recorded if that is time.
  void gave_back(stream on, state& its, bytes size) noexcept {
    its.uncovered += size;
    if (its.uncovered > max_uncovered()) cover(on, its);
  }

  /// Whose a chunk is that is freed on a stream of which nothing can be kept: once what `on`
  /// has now is done everybody's; nobody's, until all streams are waited for, if that cannot be
  /// waited for.
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

  /// Of what all may have: `on` waits for who used it, unless that is done. Leaves it alone if
  /// waiting fails.
  [[nodiscard]] std::uint64_t allocate_common(stream on, state& its, sizes both) {
    if (!chunks_.has_any(0)) return 0;
    std::uint64_t const base = chunks_.allocate(0, both);
    if (base == 0 || its.waited == events_) return base;
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

  /// Records an event for what `on`, which is there at this moment, freed; not while it is
  /// being captured. If no event can be had, the stream is waited for; if that cannot be, what it
  /// freed stays its own. `its` is what the handle
  /// stood for when it last came.
  void cover(stream on, state& its) noexcept {
    if (!chunks_.has_recent(its.owner)) {
      its.uncovered = 0;
      return;
    }
    try {
      if (auto const now = streams_.find(order_.identity(on));
          now == streams_.end() || &now->second != &its) {
        last_ = nullptr;  // the handle is another stream's
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
  /// Makes common what is covered.
  void share_all() noexcept {
    ++shares_;
    forget_done();
    for (auto& [who, its] : streams_) share(its);
  }
  /// Makes common what the stream freed until now.
  void share(stream on) {
    auto const found = streams_.find(order_.identity(on));
    if (found == streams_.end()) return;
    cover(on, found->second);
    share(found->second);
  }
  /// The same, for a stream that will not come again.
  void forget(stream on) {
    auto const found = streams_.find(order_.identity(on));
    if (found == streams_.end()) return;
    cover(on, found->second);
    share(found->second);
    if (!chunks_.has_recent(found->second.owner)) forget_state(found);  // else it is being captured
  }

  /// Waits for all who used what is free, which is common then. False, and nothing is changed, if
  /// that cannot be waited for.
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
  /// Waits for all who used what is free: for events where there are some. To wait for all streams
  /// would end a capture, of any thread, so that is done only if it must be. False if it cannot be.
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
  /// What streams freed and no event tells of is this part of the pool at most, divided among
  /// those that it knows.
  static constexpr bytes uncovered_share = 16;
  /// Streams that it knows at most, and when it first looks for some to forget. From then on each
  /// deallocation has an event: so many are of a program that makes new streams all the time, and
  /// of those that are gone nothing must be left that keeps them in mind.
  static constexpr std::size_t max_streams = 4096, min_to_forget = 64;

  using state_map = std::unordered_map<stream_identity, state, stream_identity::hash>;
  /// What may still use what is common.
  struct unfinished {
    typename Order::event done;
    std::uint32_t of;  // owner; 0 once that is another's
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
  /// Forgets streams that may be gone, since they have nothing that only they may have; if there
  /// are very many, after waiting for all.
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

  /// Makes common what the stream freed before it was last covered. The event takes the place
  /// of the stream's one before, which it implies: there is one for each stream at most, and for
  /// each that was forgotten.
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
  owned_fitting& chunks_;
  std::uint32_t nobody_;  // owner of what nobody knows when it is free
  state_map streams_;
  typename state_map::value_type* last_ = nullptr;  // who asked last, and its handle then
  stream last_handle_{};
  std::size_t forget_at_ = min_to_forget;
  std::vector<std::uint32_t> unused_owners_;  // of streams that were forgotten
  std::vector<unfinished> unfinished_;
  std::uint64_t events_ = 0;  // that were shared
  std::uint64_t recorded_ = 0, waits_ = 0, shares_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI
