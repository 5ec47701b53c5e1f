// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/errors.hpp"
#include "quarry/host/owned_fitting.hpp"
#include "quarry/host/registry.hpp"
#include "quarry/host/resource.hpp"
#include "quarry/host/stream_order.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace quarry {

struct stream_pool_options {
  bytes first_block = 0;      ///< the least that an empty pool asks its resource for; 0: 64 MiB
  bytes next_block = 0;       ///< the least that it asks for later; 0: 8 MiB
  std::uint32_t growth = 12;  ///< the least that it asks for later, as percent of what it holds
  bytes alignment = 256;      ///< of all allocations: a power of two from 16 to 16 KiB
  bytes most = ~bytes{0};     ///< bytes that the pool holds at most
  /// Takes a block before it makes streams wait for each other: more memory, less waiting
  bool grows_first = false;
  std::string name = {};  ///< for reports
  /// The registry knows its allocations; never of a simulated resource
  bool is_tracked = true;
};

struct stream_pool_counts {
  bytes held = 0, most_held = 0;  // blocks
  bytes live = 0, most_live = 0;  // as asked for
  std::uint64_t allocations = 0, deallocations = 0, refused = 0;
  std::uint64_t blocks_taken = 0, blocks_given = 0;
  std::uint64_t events = 0, waits = 0;  // recorded, and streams made to wait
  std::uint64_t shares = 0;             // times that all streams' memory was made common
  std::size_t streams = 0, pieces_live = 0;
  bytes bookkeeping = 0;
};

/// A pool in the order of streams: memory that is given back on a stream may be allocated on it
/// again at once, though work that uses it may not be done, since what uses it next comes later in
/// the stream.
///
/// What a stream gave back stays its own, and it finds that again without an event. When nothing of
/// its own and nothing common fits, all streams' free memory is made common, where neighbours merge
/// whoever had them, and a stream that takes of what is common first waits for those that gave it
/// back and are not done. So streams whose allocations alternate do not split the pool between
/// them. The pool grows only if all that is free would not do, unless `grows_first`.
///
/// A stream may be destroyed at any time, work of its under way or not, and another one may get its
/// handle. So the pool keeps no handles, and tells streams apart by what does not come again
/// (stream_order). The event that others wait for cannot be had later: it is recorded when a stream
/// gives back, each time that this amounts to a share of the pool (`uncovered_share`). What was
/// given back since stays with the stream until it comes again; the pool rather grows than wait for
/// it. If it cannot grow it waits for all that any stream has, as `release` and the destructor do,
/// and then all of it is common.
///
/// A stream whose later work waits for another stream's by other means must `share` what it gave
/// back before that, or the two might wait for each other. What a stream that is being captured
/// gave back stays its own while it is. Not thread-safe (see synchronized_resource). A failed
/// allocation leaves what users have and the counts of that as they were. Giving back does not
/// throw. Blocks go back to the resource only when all that used them is done.
template <memory_resource Resource, stream_order Order>
class stream_pool {
 public:
  using stream = typename Order::stream;

  /// Throws `bad_argument`.
  stream_pool(Resource from, Order order, stream_pool_options const& options = {})
      : resource_{std::move(from)},
        order_{std::move(order)},
        options_{checked(options)},
        strategy_{options_.alignment} {
    if (options_.is_tracked && !simulated<Resource>)
      ledger_.emplace(strategy_.pieces(), place_of(resource_), options_.name);
  }
  stream_pool(stream_pool const&) = delete;
  stream_pool& operator=(stream_pool const&) = delete;
  /// What is still in use is lost with its block. Waits until the streams are done.
  ~stream_pool() {
    if (strategy_.held() != 0) wait_for_all();
    drop_events();
    strategy_.for_each_block([&](auto const& gone) { give(gone); });
  }

  /// `size` bytes, for what `on` gets from now on; for 0 an address of its own. Throws
  /// `out_of_memory`. O(1) while what is free on the stream fits.
  [[nodiscard]] void* allocate(bytes size, stream on = {}) {
    auto const both = sizes_for(size);
    state& its = state_of(on);
    std::uint64_t begin = strategy_.allocate(its.owner, both);
    if (begin == 0) begin = allocate_slowly(on, its, both);
    live_ += size;
    most_live_ = std::max(most_live_, live_);
    ++allocations_;
    return reinterpret_cast<void*>(begin);
  }

  /// Gives back what `allocate` gave, once what `on` has now is done; nullptr is ignored. Who
  /// allocated or used it on another stream sees to it that `on` waits for that. False, and nothing
  /// is changed but a count, if it is not in use.
  bool deallocate(void* pointer, stream on = {}) noexcept {
    if (pointer == nullptr) return true;
    auto const begin = reinterpret_cast<std::uint64_t>(pointer);
    // The handle may be a new stream's by now. Then the piece is kept for the stream that is gone, so
    // that nobody has it too soon; `cover` asks which it is.
    state* its = last_ != nullptr && on == last_handle_ ? &last_->second : nullptr;
    if (its == nullptr) {
      try {
        its = &state_of(on);
      } catch (...) {
        // No memory for a stream that is new here, or no stream: what it has is waited for, and the
        // piece is everybody's.
        order_.finish(on);
      }
    }
    auto const gone = strategy_.deallocate(its == nullptr ? 0 : its->owner, begin,
                                           [&] { ledger_->forget(begin); });
    if (!gone) {
      ++refused_;
      return false;
    }
    live_ -= gone.asked;
    if (its == nullptr) return true;
    its->uncovered += gone.rounded;
    if (its->uncovered > most_uncovered()) cover(on, *its);
    return true;
  }

  /// Makes common what the stream gave back, for whoever waits for what it has now: an event is
  /// recorded now.
  void share(stream on) {
    auto const found = streams_.find(order_.identity(on));
    if (found == streams_.end()) return;
    cover(on, found->second);
    share(found->second);
  }
  /// Tells that the stream will not come again: what it gave back becomes common. Nobody needs to
  /// tell; it saves others from growing the pool.
  void forget(stream on) {
    auto const found = streams_.find(order_.identity(on));
    if (found == streams_.end()) return;
    cover(on, found->second);
    if (strategy_.has_recent(found->second.owner)) {  // it is being captured
      order_.finish(on);
      strategy_.cover(found->second.owner);
    }
    share(found->second);
    forget_state(found);
  }

  /// Gives back the blocks in which nothing is in use, after waiting for who used them.
  void release() noexcept {
    if (!settle_all()) wait_for_all();
    strategy_.release([&](auto const& gone) { give(gone); });
  }

  /// Bytes asked for; nothing if `pointer` is not in use.
  [[nodiscard]] std::optional<bytes> size_of(void const* pointer) const {
    auto const found = strategy_.size_of(reinterpret_cast<std::uint64_t>(pointer));
    if (!found) return std::nullopt;
    return found->asked;
  }
  /// Names an allocation for reports. False if `pointer` is not in use, or the pool is not tracked.
  bool note(void* pointer, std::string name,
            std::source_location where = std::source_location::current()) {
    auto const begin = reinterpret_cast<std::uint64_t>(pointer);
    if (!ledger_ || !strategy_.size_of(begin)) return false;
    ledger_->note(begin, {std::move(name), where});
    return strategy_.set_noted(begin);
  }
  [[nodiscard]] allocator_id id() const { return ledger_ ? ledger_->id() : 0; }
  [[nodiscard]] memory_place place() { return place_of(resource_); }
  [[nodiscard]] bytes alignment() const { return options_.alignment; }

  [[nodiscard]] stream_pool_counts counts() const {
    return {strategy_.held(), most_held_,       live_,
            most_live_,       allocations_,     allocations_ - strategy_.live(),
            refused_,         blocks_taken_,    blocks_given_,
            recorded_,        waits_,           shares_,
            streams_.size(),  strategy_.live(), strategy_.footprint()};
  }
  [[nodiscard]] std::vector<std::string> audit() const { return strategy_.audit(); }
  [[nodiscard]] Order& order() { return order_; }
  [[nodiscard]] Resource& resource() { return resource_; }

 private:
  using sizes = owned_fitting::sizes;
  using block = owned_fitting::block;

  /// What streams gave back and no event tells of is this part of the pool at most, divided among
  /// those that it knows.
  static constexpr bytes uncovered_share = 16;
  /// Streams that it knows at most, and when it first looks for some to forget. From then on each
  /// deallocation has an event: so many are of a program that makes new streams all the time, and of
  /// those that are gone nothing must be left that keeps them in mind.
  static constexpr std::size_t most_streams = 4096, least_to_forget = 64;

  struct state {
    std::uint32_t owner;
    bytes uncovered = 0;  // given back since it was last covered, whether it has that still or not
    std::optional<typename Order::event> covering = {};  // before it, what is covered is in use
    std::uint64_t waited = 0;                            // for the events up to this one
  };
  using state_map = std::unordered_map<stream_identity, state>;
  /// What may still use what is common.
  struct unfinished {
    typename Order::event done;
    std::uint32_t of;  // owner; 0 once that is another's
    std::uint64_t number;
  };

  [[nodiscard]] static stream_pool_options checked(stream_pool_options options) {
    check_alignment("stream_pool_options", options.alignment);
    for (bytes const size : {options.first_block, options.next_block}) {
      if (size > most_bytes_at_once)
        throw bad_argument{"stream_pool_options: blocks of " + std::to_string(size) +
                           " bytes are more than 2^46"};
    }
    if (options.growth > 1000)
      throw bad_argument{"stream_pool_options: growth is " + std::to_string(options.growth) +
                         " percent, more than 1000"};
    if (options.first_block == 0) options.first_block = bytes{64} << 20;
    if (options.next_block == 0) options.next_block = bytes{8} << 20;
    for (bytes* const size : {&options.first_block, &options.next_block})
      *size = (*size + options.alignment - 1) & ~(options.alignment - 1);
    return options;
  }
  [[nodiscard]] sizes sizes_for(bytes size) const {
    if (size > most_bytes_at_once) throw out_of_memory{"stream_pool", size, "nothing has so much"};
    bytes const mask = options_.alignment - 1;
    return {size, size == 0 ? options_.alignment : (size + mask) & ~mask};
  }

  [[nodiscard]] bytes most_uncovered() const {
    return streams_.size() >= least_to_forget
               ? 0
               : strategy_.held() / uncovered_share / streams_.size();
  }
  [[nodiscard]] state& state_of(stream on) {
    stream_identity const who = order_.identity(on);
    if (last_ == nullptr || last_->first != who) {
      auto const found = streams_.find(who);
      last_ = found != streams_.end() ? &*found : &*add_state(who);
    }
    last_handle_ = on;
    return last_->second;
  }
  [[nodiscard]] typename state_map::iterator add_state(stream_identity who) {
    if (streams_.size() >= forget_at_) forget_idle();
    unused_owners_.reserve(streams_.size() + unused_owners_.size() + 1);
    unfinished_.reserve(streams_.size() + unfinished_.size() + 1);  // for `share`
    std::uint32_t owner = 0;
    if (!unused_owners_.empty()) {
      owner = unused_owners_.back();
    } else {
      auto const added = strategy_.add_owner();
      if (!added)
        throw out_of_memory{"stream_pool", 0, "8191 streams have memory that they gave back"};
      unused_owners_.push_back(owner = *added);
    }
    auto const result = streams_.emplace(who, state{owner}).first;
    unused_owners_.pop_back();
    return result;
  }
  /// Forgets streams that may be gone, since they have nothing that only they may have; if there are
  /// very many, after waiting for all.
  void forget_idle() noexcept {
    if (streams_.size() >= most_streams) (void)settle_all();
    for (auto each = streams_.begin(); each != streams_.end();) {
      auto const next = std::next(each);
      share(each->second);
      if (!strategy_.has_any(each->second.owner)) forget_state(each);
      each = next;
    }
    forget_at_ = std::clamp(streams_.size() * 2, least_to_forget, most_streams);
  }
  void forget_state(typename state_map::iterator which) noexcept {
    for (auto& each : unfinished_) {
      if (each.of == which->second.owner) each.of = 0;
    }
    unused_owners_.push_back(which->second.owner);  // has room: see add_state
    last_ = nullptr;
    streams_.erase(which);
  }

  [[gnu::noinline]] std::uint64_t allocate_slowly(stream on, state& its, sizes both) {
    if (strategy_.merge_aside(its.owner)) {
      if (std::uint64_t const begin = strategy_.allocate(its.owner, both)) return begin;
    }
    if (std::uint64_t const begin = allocate_common(on, its, both)) return begin;
    if (options_.grows_first) {
      try {
        return grow_for(its, both);
      } catch (std::exception const&) {  // then what others have must do
      }
    }
    cover(on, its);
    share_all();
    if (std::uint64_t const begin = allocate_common(on, its, both)) return begin;
    try {
      return grow_for(its, both);
    } catch (std::exception const&) {
      (void)settle_all();
      if (std::uint64_t const begin = allocate_common(on, its, both)) return begin;
      if (both.rounded > options_.most) throw;
      release();
    }
    return grow_for(its, both);
  }

  /// Of what all may have: `on` waits for who used it, unless that is done. Leaves it alone if
  /// waiting fails.
  [[nodiscard]] std::uint64_t allocate_common(stream on, state& its, sizes both) {
    if (!strategy_.has_any(0)) return 0;
    std::uint64_t const begin = strategy_.allocate(0, both);
    if (begin == 0 || its.waited == events_) return begin;
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
    return begin;
  }

  /// Records an event for what `on`, which is there at this moment, gave back; not while it is being
  /// captured. If no event can be had, the stream is waited for. `its` is what the handle stood for
  /// when it last came.
  void cover(stream on, state& its) noexcept {
    if (!strategy_.has_recent(its.owner)) {
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
      order_.finish(on);
    }
    its.uncovered = 0;
    strategy_.cover(its.owner);
  }
  void share_all() {
    ++shares_;
    forget_done();
    for (auto& [who, its] : streams_) share(its);
  }
  /// Makes common what the stream gave back before it was last covered. The event takes the place of
  /// the stream's one before, which it implies: there is one for each stream at most, and for each
  /// that was forgotten.
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
    strategy_.share(its.owner);
  }
  void forget_done() noexcept {
    std::erase_if(unfinished_, [&](auto& each) {
      if (!order_.is_done(each.done)) return false;
      order_.drop(each.done);
      return true;
    });
  }
  /// Waits for all that any stream has; then all that is free is common. False, and nothing is
  /// changed, if that cannot be waited for.
  bool settle_all() noexcept {
    if (!order_.finish_all()) return false;
    drop_events();
    for (auto& [who, its] : streams_) {
      its.uncovered = 0;
      strategy_.cover(its.owner);
      strategy_.share(its.owner);
    }
    return true;
  }
  /// If not for all, for all events.
  void wait_for_all() noexcept {
    if (order_.finish_all()) return;
    for (auto const& each : unfinished_) order_.finish(each.done);
    for (auto const& [who, its] : streams_) {
      if (its.covering) order_.finish(*its.covering);
    }
  }
  void drop_events() noexcept {
    for (auto& each : unfinished_) order_.drop(each.done);
    unfinished_.clear();
    for (auto& [who, its] : streams_) {
      if (its.covering) order_.drop(*its.covering);
      its.covering.reset();
    }
  }

  [[nodiscard]] std::uint64_t grow_for(state& its, sizes both) {
    strategy_.reserve();
    block const fresh = ask_for(std::max(strategy_.size_of_cut(both.rounded), least_block()), both);
    try {
      settle(resource_);
      if (ledger_) ledger_->add_block(fresh.begin, fresh.size);
    } catch (...) {
      resource_.deallocate(reinterpret_cast<void*>(fresh.begin), fresh.size, options_.alignment);
      throw;
    }
    ++blocks_taken_;
    std::uint64_t const begin = strategy_.allocate_in(its.owner, fresh, both);
    most_held_ = std::max(most_held_, strategy_.held());
    return begin;
  }
  [[nodiscard]] bytes least_block() const {
    if (strategy_.held() == 0) return options_.first_block;
    return std::max(options_.next_block,
                    std::min(most_bytes_at_once, strategy_.held() / 100 * options_.growth) &
                        ~(options_.alignment - 1));
  }
  /// Asks for `size` bytes; then for an eighth, three times, and for no more than needed.
  [[nodiscard]] block ask_for(bytes size, sizes both) {
    for (int tries = 0;;
         size = ++tries > 3 ? both.rounded
                            : std::max(both.rounded, size / 8 & ~(options_.alignment - 1))) {
      try {
        return ask_once(size, both);
      } catch (std::exception const&) {
        if (size == both.rounded) throw;
      }
    }
  }
  [[nodiscard]] block ask_once(bytes size, sizes both) {
    bytes const left =
        (options_.most - std::min(options_.most, strategy_.held())) & ~(options_.alignment - 1);
    if (both.rounded > left) {
      throw out_of_memory{"stream_pool", both.asked,
                          "it holds " + std::to_string(strategy_.held()) + " of at most " +
                              std::to_string(options_.most)};
    }
    bytes const asked = std::min(size, left);
    return {reinterpret_cast<std::uint64_t>(resource_.allocate(asked, options_.alignment)), asked};
  }
  void give(block const& gone) noexcept {
    ++blocks_given_;
    if (ledger_) ledger_->remove_block(gone.begin, gone.size);
    resource_.deallocate(reinterpret_cast<void*>(gone.begin), gone.size, options_.alignment);
  }

  Resource resource_;
  Order order_;
  stream_pool_options options_;
  owned_fitting strategy_;
  std::optional<ledger> ledger_;
  state_map streams_;
  typename state_map::value_type* last_ = nullptr;  // who asked last, and its handle then
  stream last_handle_{};
  std::size_t forget_at_ = least_to_forget;
  // of streams that were forgotten
  std::vector<std::uint32_t> unused_owners_;
  std::vector<unfinished> unfinished_;
  bytes live_ = 0, most_live_ = 0, most_held_ = 0;
  std::uint64_t allocations_ = 0, refused_ = 0, blocks_taken_ = 0, blocks_given_ = 0, events_ = 0,
                recorded_ = 0, waits_ = 0, shares_ = 0;
};

/// A stream's side of a pool, as a resource: for containers, and for what is built on a resource.
/// The pool outlives it.
template <class Pool>
class stream_resource {
 public:
  explicit stream_resource(Pool& from, typename Pool::stream on = {}) : from_{&from}, on_{on} {}

  /// Throws `out_of_memory`, or `bad_argument` if `alignment` is more than the pool's.
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    if (alignment > from_->alignment()) {
      throw bad_argument{"stream_resource: alignment is " + std::to_string(alignment) +
                         ", more than the pool's " + std::to_string(from_->alignment())};
    }
    return from_->allocate(size, on_);
  }
  void deallocate(void* pointer, bytes, bytes) noexcept { (void)from_->deallocate(pointer, on_); }
  [[nodiscard]] memory_place place() const { return from_->place(); }

 private:
  Pool* from_;
  typename Pool::stream on_;
};

}  // namespace quarry
