// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/errors.hpp"
#include "quarry/host/owned_fitting.hpp"
#include "quarry/host/registry.hpp"
#include "quarry/host/resource.hpp"
#include "quarry/host/stream_order.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>

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
/// What a stream gave back stays its own, so neither a free nor an allocation needs an event as
/// long as a stream finds its own memory again. When nothing of its own and nothing common fits,
/// all streams' free memory is made common, where neighbours merge whoever had them: one event for
/// each stream that gave anything back since, and a stream that takes of what is common first waits
/// for those that are not done. So streams whose allocations alternate do not split the pool
/// between them, and the pool grows only if all that is free would not do (unless `grows_first`).
/// So each time that it would grow, streams may wait for each other; the event is recorded then,
/// and not at the free. A stream whose later work waits for another stream's by other means must
/// `share` what it gave back before that, or the two might wait for each other.
///
/// Not thread-safe (see synchronized_resource). A failed allocation leaves what users have and the
/// counts of that as they were. Giving back does not throw. A stream that will be destroyed is told
/// to the pool before (`forget`); blocks go back to the resource only when all that used them is
/// done.
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
    for (auto const& [handle, its] : streams_) order_.finish(handle);
    // of streams that were forgotten, too
    for (auto const& each : unfinished_) order_.finish(each.done);
    forget_done();
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
    std::uint32_t owner = 0;
    state* its = nullptr;
    try {
      its = &state_of(on);
      owner = its->owner;
    } catch (...) {
      // No memory for a stream that is new here, or no stream: what it has is waited for, and the
      // piece is everybody's.
      order_.finish(on);
    }
    auto const gone = strategy_.deallocate(owner, begin, [&] { ledger_->forget(begin); });
    if (!gone) {
      ++refused_;
      return false;
    }
    if (its != nullptr) its->gave_back = true;
    live_ -= gone.asked;
    return true;
  }

  /// Makes common what the stream gave back, for whoever waits for what it has now: an event is
  /// recorded now.
  void share(stream on) {
    auto const found = streams_.find(order_.checked(on));
    if (found != streams_.end()) share(found->first, found->second);
  }
  /// To be called before a stream is destroyed: what it gave back becomes common.
  void forget(stream on) {
    auto const found = streams_.find(order_.checked(on));
    if (found == streams_.end()) return;
    share(found->first, found->second);
    if (strategy_.has_any(found->second.owner)) {  // it is being captured
      order_.finish(found->first);
      strategy_.share(found->second.owner);
    }
    for (auto& each : unfinished_) {
      if (each.of == found->second.owner) each.of = 0;
    }
    unused_owners_.push_back(found->second.owner);  // has room: see state_of
    last_ = nullptr;
    streams_.erase(found);
  }

  /// Gives back the blocks in which nothing is in use, after waiting for who used them.
  void release() noexcept {
    for (auto& [handle, its] : streams_) {
      if (!strategy_.has_any(its.owner)) continue;
      order_.finish(handle);
      its.gave_back = false;
      strategy_.share(its.owner);
    }
    for (auto& each : unfinished_) order_.finish(each.done);
    forget_done();
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
            events_,          waits_,           shares_,
            streams_.size(),  strategy_.live(), strategy_.footprint()};
  }
  [[nodiscard]] std::vector<std::string> audit() const { return strategy_.audit(); }
  [[nodiscard]] Order& order() { return order_; }
  [[nodiscard]] Resource& resource() { return resource_; }

 private:
  using sizes = owned_fitting::sizes;
  using block = owned_fitting::block;

  struct state {
    std::uint32_t owner;
    bool gave_back = false;    // something since its last event
    std::uint64_t waited = 0;  // for the events up to this one
  };
  /// What may still use what is common.
  struct unfinished {
    typename Order::event done;
    std::uint32_t of;  // owner; 0 once the stream is gone, whose handle may be another's then
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

  [[nodiscard]] state& state_of(stream on) {
    on = order_.checked(on);
    if (last_ != nullptr && last_->first == on) return last_->second;
    auto found = streams_.find(on);
    if (found == streams_.end()) {
      unused_owners_.reserve(streams_.size() + unused_owners_.size() + 1);
      std::uint32_t owner = 0;
      if (!unused_owners_.empty()) {
        owner = unused_owners_.back();
      } else {
        auto const added = strategy_.add_owner();
        if (!added)
          throw out_of_memory{"stream_pool", 0,
                              "it knows 8191 streams; tell it of those that are gone (forget)"};
        unused_owners_.push_back(owner = *added);
      }
      found = streams_.emplace(on, state{owner, false, 0}).first;
      unused_owners_.pop_back();
    }
    last_ = &*found;
    return found->second;
  }

  [[gnu::noinline]] std::uint64_t allocate_slowly(stream on, state& its, sizes both) {
    if (strategy_.merge_aside(its.owner)) {
      if (std::uint64_t const begin = strategy_.allocate(its.owner, both)) return begin;
    }
    if (std::uint64_t const begin = allocate_common(on, its, both)) return begin;
    if (options_.grows_first) {
      try {
        return grow_for(its, both, false);
      } catch (std::exception const&) {  // then what others have must do
      }
    }
    share_all();
    if (std::uint64_t const begin = allocate_common(on, its, both)) return begin;
    return grow_for(its, both, true);
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

  void share_all() {
    ++shares_;
    forget_done();
    for (auto& [handle, its] : streams_) share(handle, its);
  }
  /// Makes common what a stream gave back; not while that is being captured. If no event can be
  /// had, the stream is waited for.
  void share(stream handle, state& its) {
    if (!strategy_.has_any(its.owner)) return;
    if (its.gave_back) {
      try {
        record(handle, its);
      } catch (bad_argument const&) {
        return;
      } catch (...) {
        order_.finish(handle);
      }
      its.gave_back = false;
    }
    strategy_.share(its.owner);
  }
  /// An event in place of the stream's last one, which it implies: so there is one for each stream
  /// at most, and for each forgotten one.
  void record(stream handle, state& its) {
    auto entry = std::find_if(unfinished_.begin(), unfinished_.end(),
                              [&](auto const& each) { return each.of == its.owner; });
    if (entry == unfinished_.end() && unfinished_.size() == unfinished_.capacity()) {
      unfinished_.reserve(unfinished_.size() * 2 + 4);
      entry = unfinished_.end();
    }
    auto const done = order_.record(handle);
    if (entry != unfinished_.end()) {
      order_.drop(entry->done);
      *entry = {done, its.owner, ++events_};
    } else {
      unfinished_.push_back({done, its.owner, ++events_});
    }
  }
  void forget_done() noexcept {
    std::erase_if(unfinished_, [&](auto& each) {
      if (!order_.is_done(each.done)) return false;
      order_.drop(each.done);
      return true;
    });
  }

  [[nodiscard]] std::uint64_t grow_for(state& its, sizes both, bool may_release) {
    strategy_.reserve();
    block const fresh =
        ask_for(std::max(strategy_.size_of_cut(both.rounded), least_block()), both, may_release);
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
  /// Asks for `size` bytes; then for an eighth, three times, and for no more than needed; then once
  /// more after giving back what is free.
  [[nodiscard]] block ask_for(bytes size, sizes both, bool may_release) {
    for (int tries = 0;;
         size = ++tries > 3 ? both.rounded
                            : std::max(both.rounded, size / 8 & ~(options_.alignment - 1))) {
      try {
        return ask_once(size, both);
      } catch (std::exception const&) {
        if (size == both.rounded) break;
      }
    }
    if (may_release && both.rounded <= options_.most) release();
    return ask_once(both.rounded, both);
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
  std::unordered_map<stream, state> streams_;
  typename std::unordered_map<stream, state>::value_type* last_ = nullptr;  // who asked last
  // of streams that were forgotten
  std::vector<std::uint32_t> unused_owners_;
  std::vector<unfinished> unfinished_;
  bytes live_ = 0, most_live_ = 0, most_held_ = 0;
  std::uint64_t allocations_ = 0, refused_ = 0, blocks_taken_ = 0, blocks_given_ = 0, events_ = 0,
                waits_ = 0, shares_ = 0;
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
