// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/pools/stream_owners.hpp"
#include "quarry/host/registry/registry.hpp"
#include "quarry/host/resources/resource.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI {

struct stream_pool_options {
  bytes first_block = 0;       ///< the least that an empty pool asks its resource for; 0: 64 MiB
  bytes next_block = 0;        ///< the least that it asks for later; 0: 8 MiB
  std::uint32_t growth = 12;   ///< the least that it asks for later, as percent of what it holds
  bytes alignment = 256;       ///< of all allocations: a power of two from 16 to 16 KiB
  bytes max_bytes = no_limit;  ///< bytes that the pool holds at most
  /// Takes a block before it makes streams wait for each other: more memory, less waiting
  bool grows_first = false;
  std::string name = {};  ///< for reports
  /// The registry knows its allocations; never of a simulated resource
  bool is_tracked = true;
};

struct stream_pool_counts {
  bytes reserved = 0, peak_reserved = 0;    // blocks
  bytes allocated = 0, peak_allocated = 0;  // as asked for
  std::uint64_t allocations = 0, deallocations = 0, invalid_frees = 0;
  std::uint64_t blocks_allocated = 0, blocks_returned = 0;
  std::uint64_t events = 0, waits = 0;  // recorded, and streams made to wait
  std::uint64_t shares = 0;             // times that all streams' memory was made common
  std::size_t streams = 0, chunks_allocated = 0;
};

/// A pool in the order of streams: memory that was freed on a stream may be allocated on that
/// stream again at once, although work that uses it may not be done. The next use comes later in
/// the stream.
///
/// Freed memory stays the stream's own, and the stream reuses it without an event. If neither its
/// own nor common free memory fits, the pool makes the free memory of all streams common, as far
/// as an event covers it, and merges neighbours, whichever stream had them. A stream that takes
/// common memory first waits for the streams that freed it and are not done. So streams whose
/// allocations alternate do not split the pool between them. The pool grows if that does not
/// suffice; with `grows_first` it grows before that.
///
/// A stream may be destroyed at any time, even with work under way, and another stream may get its
/// handle. So the pool keeps no handles, and tells streams apart by a number that is never used
/// again (stream_order). It cannot record the event that others wait for later. So it records one
/// in a free, each time that the bytes freed since the last event exceed a share of the pool
/// (`uncovered_share`). Memory freed since then stays with the stream until the stream's next
/// call; the pool grows rather than wait for it. If the pool cannot grow, it waits for the work of
/// all streams, as `release` and the destructor do, and then all free memory is common.
///
/// If later work of a stream waits for another stream by other means, the stream must `share` its
/// freed memory before that, or the two might wait for each other. Memory that is freed on a
/// stream during its capture stays the stream's own during the capture. Not thread-safe (see
/// locked_stream_pool). A failed allocation leaves the users' allocations and their counts
/// unchanged. Frees do not throw. Blocks return to the resource only when all work that used them
/// is done.
template <memory_resource Resource, stream_order Order>
class stream_pool {
 public:
  static constexpr bool is_simulated = simulated<Resource>;
  using stream = typename Order::stream;

  /// Throws `bad_argument`.
  stream_pool(Resource from, Order order, stream_pool_options const& options = {})
      : resource_{std::move(from)},
        options_{checked(options)},
        strategy_{options_.alignment},
        streams_{std::move(order), strategy_} {
    if (options_.is_tracked && !simulated<Resource>)
      registration_.emplace(strategy_.chunks(), location_of(resource_), options_.name);
  }
  stream_pool(stream_pool const&) = delete;
  stream_pool& operator=(stream_pool const&) = delete;
  /// What is still in use is lost with its block. Waits until the streams are done.
  ~stream_pool() {
    bool const waited = strategy_.allocated() != 0 && streams_.order().finish_all();
    if (!waited) (void)streams_.wait_for_all();
    strategy_.for_each_block([&](auto const& gone) { give(gone); });
  }

  /// Allocates `size` bytes for the later work of stream `on`; for 0 an address of its own. Throws
  /// `out_of_memory`, `bad_argument` if `on` is no stream, and what the resource throws. O(1)
  /// while the stream's own free memory fits.
  [[nodiscard]] void* allocate(bytes size, stream on = {}) {
    auto const both = sizes_for(size);
    return counted(allocate_chunk(on, streams_.of(on), both), size);
  }
  /// At a multiple of `alignment`, a power of two, which may be more than the options say: then as
  /// much more must be free in one chunk. Throws `bad_argument` too.
  [[nodiscard]] void* allocate(bytes size, bytes alignment, stream on) {
    bytes const room = room_to_align("stream_pool", size, alignment, options_.alignment);
    if (room == 0) return allocate(size, on);
    auto const both = sizes_for(size);
    if (size > max_bytes_at_once - room) refuse(size);
    state& its = streams_.of(on);
    std::uint64_t const base = allocate_chunk(on, its, {size, both.granted + room}, true);
    try {
      strategy_.reserve();
    } catch (...) {
      (void)strategy_.deallocate(its.owner, base);
      throw;
    }
    return counted(strategy_.trim(its.owner, base, both, alignment), size);
  }

  /// Frees an allocation in the order of `on`, after the work that `on` has now; ignores nullptr.
  /// If another stream allocated or used the memory, the caller first makes `on` wait for that
  /// work. Returns false, and changes nothing but a count, if `pointer` is not the first address
  /// of an allocation in use.
  bool deallocate(void* pointer, stream on = {}) noexcept {
    if (pointer == nullptr) return true;
    auto const base = reinterpret_cast<std::uint64_t>(pointer);
    // The handle may be a new stream's by now. Then the chunk is kept for the stream that is gone,
    // so that nobody has it too soon.
    state* its = streams_.last(on);
    if (its == nullptr) {
      try {
        its = &streams_.of(on);
      } catch (...) {  // no memory for a stream that is new here, or no stream
      }
    }
    if (its == nullptr && !strategy_.size_of(base)) {
      ++invalid_frees_;
      return false;
    }
    auto const gone =
        strategy_.deallocate(its == nullptr ? streams_.owner_without_stream(on) : its->owner, base,
                             [&] { registration_->forget(base); });
    if (!gone) {
      ++invalid_frees_;
      return false;
    }
    allocated_ -= gone.requested;
    if (its != nullptr) streams_.gave_back(on, *its, gone.granted);
    return true;
  }

  /// Makes the stream's freed memory common. Records an event now, and a stream that takes the
  /// memory waits for that event.
  void share(stream on) { streams_.share(on); }
  /// Announces that the stream makes no more calls: its freed memory becomes common. The call is
  /// optional; with it other streams need not grow the pool.
  void forget(stream on) { streams_.forget(on); }

  /// Returns the blocks in which nothing is in use, after waiting for who used them.
  void release() noexcept {
    (void)streams_.synchronize_all();
    strategy_.release([&](auto const& gone) { give(gone); });
  }

  /// Bytes asked for; nothing if `pointer` is not in use.
  [[nodiscard]] std::optional<bytes> size_of(void const* pointer) const {
    auto const found = strategy_.size_of(reinterpret_cast<std::uint64_t>(pointer));
    if (!found) return std::nullopt;
    return found->requested;
  }
  /// Names an allocation for reports. False if `pointer` is not in use, or the pool is not tracked.
  bool label(void* pointer, std::string name,
             std::source_location where = std::source_location::current()) {
    auto const base = reinterpret_cast<std::uint64_t>(pointer);
    if (!registration_ || !strategy_.size_of(base)) return false;
    registration_->label(base, {std::move(name), where});
    return strategy_.set_labelled(base);
  }
  [[nodiscard]] allocator_id id() const { return registration_ ? registration_->id() : 0; }
  [[nodiscard]] memory_location location() { return location_of(resource_); }
  [[nodiscard]] bytes alignment() const { return options_.alignment; }

  [[nodiscard]] stream_pool_counts counts() const {
    return {strategy_.reserved(), peak_reserved_,       allocated_,
            peak_allocated_,      allocations_,         allocations_ - strategy_.allocated(),
            invalid_frees_,       blocks_allocated_,    blocks_returned_,
            streams_.events(),    streams_.waits(),     streams_.shares(),
            streams_.count(),     strategy_.allocated()};
  }
  /// Bytes of memory that the pool takes beside its blocks: its own size, pages of tables that are
  /// resident, and its labels. O(pages + labels), by calls of the system.
  [[nodiscard]] bytes bookkeeping() const {
    return sizeof(*this) + strategy_.footprint() - sizeof(strategy_) +
           (registration_ ? registration_->footprint(strategy_.reserved(), strategy_.blocks()) : 0);
  }
  [[nodiscard]] std::vector<std::string> audit() const { return strategy_.audit(); }
  [[nodiscard]] Order& order() { return streams_.order(); }
  [[nodiscard]] Resource& resource() { return resource_; }

 private:
  using sizes = owned_fitting::sizes;
  using block = owned_fitting::block;
  using state = typename stream_owners<Order>::state;

  [[nodiscard]] static stream_pool_options checked(stream_pool_options options) {
    check_alignment("stream_pool_options", options.alignment);
    for (bytes const size : {options.first_block, options.next_block}) {
      if (size > max_bytes_at_once)
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
  [[noreturn, gnu::noinline]] static void refuse(bytes size) {
    throw out_of_memory{"stream_pool", size, "nothing has so much"};
  }
  [[nodiscard]] sizes sizes_for(bytes size) const {
    if (size > max_bytes_at_once) refuse(size);
    bytes const mask = options_.alignment - 1;
    return {size, size == 0 ? options_.alignment : (size + mask) & ~mask};
  }

  [[nodiscard]] std::uint64_t allocate_chunk(stream on, state& its, sizes both,
                                             bool will_be_trimmed = false) {
    std::uint64_t const base = strategy_.allocate(its.owner, both, will_be_trimmed);
    return base != 0 ? base : allocate_slowly(on, its, both, will_be_trimmed);
  }
  [[nodiscard]] void* counted(std::uint64_t base, bytes size) {
    allocated_ += size;
    peak_allocated_ = std::max(peak_allocated_, allocated_);
    ++allocations_;
    return reinterpret_cast<void*>(base);
  }

  [[gnu::noinline]] std::uint64_t allocate_slowly(stream on, state& its, sizes both,
                                                  bool will_be_trimmed) {
    if (strategy_.merge_cached(its.owner)) {
      if (std::uint64_t const base = strategy_.allocate(its.owner, both, will_be_trimmed))
        return base;
    }
    if (std::uint64_t const base = streams_.allocate_common(on, its, both)) return base;
    if (options_.grows_first) {
      try {
        return grow_for(its, both);
      } catch (std::exception const&) {  // then what others have must do
      }
    }
    streams_.cover(on, its);
    streams_.share_all();
    if (std::uint64_t const base = streams_.allocate_common(on, its, both)) return base;
    try {
      return grow_for(its, both);
    } catch (std::exception const&) {
      (void)streams_.synchronize_all();
      if (std::uint64_t const base = streams_.allocate_common(on, its, both)) return base;
      if (both.granted > options_.max_bytes) throw;
      release();
    }
    return grow_for(its, both);
  }

  [[nodiscard]] std::uint64_t grow_for(state& its, sizes both) {
    strategy_.reserve();
    block const fresh = ask_for(std::max(strategy_.size_of_cut(both.granted), min_block()), both);
    try {
      synchronize(resource_);
      if (registration_) registration_->add_block(fresh.base, fresh.size);
    } catch (...) {
      resource_.deallocate(reinterpret_cast<void*>(fresh.base), fresh.size, options_.alignment);
      throw;
    }
    ++blocks_allocated_;
    std::uint64_t const base = strategy_.allocate_in(its.owner, fresh, both);
    peak_reserved_ = std::max(peak_reserved_, strategy_.reserved());
    return base;
  }
  [[nodiscard]] bytes min_block() const {
    if (strategy_.reserved() == 0) return options_.first_block;
    return std::max(options_.next_block,
                    std::min(max_bytes_at_once, strategy_.reserved() / 100 * options_.growth) &
                        ~(options_.alignment - 1));
  }
  /// Asks for `size` bytes; then for an eighth, three times, and for no more than needed.
  [[nodiscard]] block ask_for(bytes size, sizes both) {
    for (int tries = 0;;
         size = ++tries > 3 ? both.granted
                            : std::max(both.granted, size / 8 & ~(options_.alignment - 1))) {
      try {
        return ask_once(size, both);
      } catch (std::exception const&) {
        if (size == both.granted) throw;
      }
    }
  }
  [[nodiscard]] block ask_once(bytes size, sizes both) {
    bytes const left = (options_.max_bytes - std::min(options_.max_bytes, strategy_.reserved())) &
                       ~(options_.alignment - 1);
    if (both.granted > left) {
      throw out_of_memory{"stream_pool", both.requested,
                          "it holds " + std::to_string(strategy_.reserved()) + " of at most " +
                              std::to_string(options_.max_bytes)};
    }
    bytes const requested = std::min(size, left);
    return {reinterpret_cast<std::uint64_t>(resource_.allocate(requested, options_.alignment)),
            requested};
  }
  void give(block const& gone) noexcept {
    ++blocks_returned_;
    if (registration_) registration_->remove_block(gone.base, gone.size);
    resource_.deallocate(reinterpret_cast<void*>(gone.base), gone.size, options_.alignment);
  }

  Resource resource_;
  stream_pool_options options_;
  owned_fitting strategy_;
  stream_owners<Order> streams_;
  std::optional<registration> registration_;
  bytes allocated_ = 0, peak_allocated_ = 0, peak_reserved_ = 0;
  std::uint64_t allocations_ = 0, invalid_frees_ = 0, blocks_allocated_ = 0, blocks_returned_ = 0;
};

/// A stream's side of a pool, as a resource: for containers, and for what is built on a resource.
/// The pool outlives it.
template <class Pool>
class stream_resource {
 public:
  static constexpr bool is_simulated = simulated<Pool>;

  explicit stream_resource(Pool& from, typename Pool::stream on = {}) : from_{&from}, on_{on} {}

  /// As the pool's.
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    return from_->allocate(size, alignment, on_);
  }
  void deallocate(void* pointer, bytes, bytes) noexcept { (void)from_->deallocate(pointer, on_); }
  [[nodiscard]] memory_location location() const { return from_->location(); }

 private:
  Pool* from_;
  typename Pool::stream on_;
};

}  // namespace quarry::inline QUARRY_ABI
