// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/detail/block_source.hpp"
#include "quarry/host/detail/stream_owners.hpp"
#include "quarry/host/resources/resource.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI {

struct stream_pool_options {
  bytes first_block = 0;  ///< minimum size of a block while the pool has none; 0: 64 MiB
  bytes next_block = 0;   ///< minimum size of each later block; 0: 8 MiB
  /// Minimum size of each later block, as a percentage of the reserved bytes: at most 1000
  std::uint32_t growth_percent = 4;
  bytes alignment = 256;       ///< of all allocations: a power of two from 16 to 16 KiB
  bytes max_bytes = no_limit;  ///< limit on the bytes of all blocks
  /// Allocates a block before it makes streams wait for each other: more memory, less waiting
  bool grows_first = false;
  std::string name = {};  ///< for reports
  /// The registry knows its allocations; never those of a simulated resource
  bool is_tracked = true;
};

struct stream_pool_counts {
  bytes reserved = 0, peak_reserved = 0;    // bytes of blocks
  bytes allocated = 0, peak_allocated = 0;  // requested bytes
  bytes granted = 0;                        // of the chunks that serve them
  std::uint64_t allocations = 0, deallocations = 0, invalid_frees = 0;
  std::uint64_t blocks_allocated = 0, blocks_returned = 0;
  std::uint64_t events = 0, waits = 0;  // events recorded; waits of streams for them
  std::uint64_t shares = 0;             // times that all streams' memory was made common
  std::size_t streams = 0, allocations_in_use = 0;
};

/// A stream-ordered pool. Memory that was freed on a stream may be allocated on that stream again
/// at once. Earlier work may still use the memory, but the stream runs the next use later.
///
/// Freed memory stays with its stream, and the stream reuses it without an event. Memory that was
/// freed before a recorded event is *covered*. While no other stream makes calls, covered memory
/// becomes common at once, so that all free memory of a stream that works alone can merge. A stream
/// takes the tightest fit of its own and of those common chunks for which it need not wait. If no
/// chunk fits, it takes common memory and waits for the streams that freed it and are not done. If
/// that does not fit either, the pool makes all covered memory common and merges neighbours. So
/// streams whose allocations alternate do not split the pool between them. The pool grows if that
/// does not suffice; with `grows_first` it grows before a stream waits.
///
/// Before the pool grows, it returns empty common blocks to the resource, as long as the pool with
/// its next block reserves no less than its peak use. The host first waits for the work that used
/// common memory. While the stream is being captured, the pool returns no blocks. With
/// `grows_first` it returns blocks only if it cannot grow.
///
/// A stream may be destroyed at any time, even with work under way, and another stream may get its
/// handle. So the pool keeps no handles, and tells streams apart by a number that is never used
/// again (stream_order). A handle is valid only during the call that passes it, so the pool records
/// events in frees. It records an event when the bytes that a stream freed since its last event
/// exceed 1/16 of the reserved bytes, divided by the number of streams. With 64 streams or more it
/// records an event in each free. Memory freed after the last event is available to its stream
/// only, until the stream's next call; the pool grows instead of waiting for it. If the pool cannot
/// grow, it waits for the work of all streams, as `release` and the destructor do. Then all free
/// memory is common.
///
/// Before the program itself makes stream A wait for stream B (by an event of its own), it must
/// call `share(A)`. Otherwise the pool might make B wait for A, and both would wait forever. Memory
/// that is freed on a stream during its capture stays with the stream during the capture. Not
/// thread-safe (see locked_stream_pool). A failed allocation leaves the users' allocations and
/// their counts unchanged; the pool may have returned empty blocks. Frees do not throw. Blocks
/// return to the resource only when all work that used them is done.
template <memory_resource Resource, stream_order Order>
class stream_pool {
 public:
  static constexpr bool is_simulated = simulated<Resource>;
  using stream = typename Order::stream;

  /// Throws `bad_argument`.
  stream_pool(Resource upstream, Order order, stream_pool_options const& options = {})
      : options_{detail::checked_blocks("stream_pool_options", options)},
        arena_{options_.alignment},
        source_{"stream_pool", std::move(upstream), options_, arena_.chunks()},
        streams_{std::move(order), arena_} {}
  stream_pool(stream_pool const&) = delete;
  stream_pool& operator=(stream_pool const&) = delete;
  /// Waits until the streams are done, and returns all blocks. Allocations that are still in use
  /// become invalid.
  ~stream_pool() {
    bool const is_done = arena_.allocated() != 0 && streams_.order().finish_all();
    if (!is_done) (void)streams_.wait_for_all();
    arena_.for_each_block([&](auto const& block) { source_.deallocate(block); });
  }

  /// Allocates `size` bytes for the later work of stream `handle`. Size 0 returns a unique address.
  /// Throws `out_of_memory`, also if 8190 streams own free memory; `bad_argument` if `handle` is
  /// not a stream; and what the resource throws. O(1) while the stream's own free memory fits.
  [[nodiscard]] void* allocate(bytes size, stream handle = {}) {
    auto const needed = sizes_for(size);
    return record_allocation(allocate_chunk(handle, streams_.state_of(handle), needed), size);
  }
  /// The same at a multiple of `alignment`, a power of two. If it exceeds the alignment of the
  /// options, the free chunk must be larger by the difference. Also throws `bad_argument`.
  [[nodiscard]] void* allocate(bytes size, bytes alignment, stream handle) {
    bytes const room = room_to_align("stream_pool", size, alignment, options_.alignment);
    if (room == 0) return allocate(size, handle);
    auto const needed = sizes_for(size);
    if (size > max_bytes_at_once - room) source_.memory().refuse(size);
    state& owner_state = streams_.state_of(handle);
    std::uint64_t const base =
        allocate_chunk(handle, owner_state, {size, needed.granted + room}, true);
    return record_allocation(arena_.trim(base, needed, alignment, owner_state.owner), size);
  }

  /// Frees an allocation in stream order: after the present work of stream `handle`. Ignores
  /// nullptr. If another stream allocated or used the memory, the caller first makes `handle` wait
  /// for that work. Returns false, and changes nothing but the count `invalid_frees`, if `pointer`
  /// is not the base address of an allocation in use.
  bool deallocate(void* pointer, stream handle = {}) noexcept {
    if (pointer == nullptr) return true;
    auto const base = reinterpret_cast<std::uint64_t>(pointer);
    // The handle may stand for a new stream by now. Then the destroyed stream owns the chunk, so
    // that no stream gets it too soon.
    state* owner_state = streams_.last(handle);
    if (owner_state == nullptr) {
      try {
        owner_state = &streams_.state_of(handle);
      } catch (...) {  // no memory for the state of a new stream, or the handle is invalid
      }
    }
    if (owner_state == nullptr && !arena_.size_of(base)) {
      ++invalid_frees_;
      return false;
    }
    auto const freed = arena_.deallocate(
        base, [&] { source_.memory().tracking()->forget(base); },
        owner_state == nullptr ? streams_.owner_without_stream(handle) : owner_state->owner);
    if (!freed) {
      ++invalid_frees_;
      return false;
    }
    allocated_ -= freed.requested;
    if (owner_state != nullptr) streams_.count_free(handle, *owner_state, freed.granted);
    return true;
  }

  /// Makes the stream's freed memory common. Records an event now, and a stream that takes the
  /// memory waits for that event.
  void share(stream handle) { streams_.share(handle); }
  /// Announces that the stream makes no more calls: its freed memory becomes common. The call is
  /// optional; with it other streams need not grow the pool.
  void forget(stream handle) { streams_.forget(handle); }

  /// Waits for all work that used free memory. Then returns the blocks without allocations to the
  /// resource.
  void release() noexcept {
    (void)streams_.synchronize_all();
    arena_.release([&](auto const& block) { source_.deallocate(block); });
  }

  /// The requested bytes; nullopt if `pointer` is not the base address of an allocation in use.
  [[nodiscard]] std::optional<bytes> size_of(void const* pointer) const {
    auto const found = sizes_of(pointer);
    if (!found) return std::nullopt;
    return found->requested;
  }
  /// The requested bytes, and those of the chunk; nullopt as for `size_of`.
  [[nodiscard]] std::optional<chunk_sizes> sizes_of(void const* pointer) const {
    return arena_.size_of(reinterpret_cast<std::uint64_t>(pointer));
  }
  /// Labels an allocation for reports. False if `pointer` is not allocated, or the pool is not
  /// tracked.
  bool label(void* pointer, std::string name,
             std::source_location call_site = std::source_location::current()) {
    return source_.memory().label(arena_, pointer, {std::move(name), call_site});
  }
  [[nodiscard]] allocator_id id() const { return source_.memory().id(); }
  [[nodiscard]] memory_location location() { return location_of(source_.resource()); }
  [[nodiscard]] bytes alignment() const { return options_.alignment; }

  [[nodiscard]] stream_pool_counts counts() const {
    return {arena_.reserved(),
            source_.memory().peak(),
            allocated_,
            peak_allocated_,
            arena_.in_use(),
            allocations_,
            allocations_ - arena_.allocated(),
            invalid_frees_,
            source_.allocated(),
            source_.returned(),
            streams_.events(),
            streams_.waits(),
            streams_.shares(),
            streams_.count(),
            arena_.allocated()};
  }
  /// Bytes of memory that the pool needs in addition to its blocks: its own size, resident pages of
  /// its tables, and its labels. O(pages + labels), by system calls.
  [[nodiscard]] bytes bookkeeping() const {
    return sizeof(*this) + arena_.footprint() + source_.memory().footprint(arena_.blocks());
  }
  [[nodiscard]] std::vector<std::string> audit() const { return arena_.audit(); }
  [[nodiscard]] Order& order() { return streams_.order(); }
  [[nodiscard]] Resource& resource() { return source_.resource(); }

 private:
  using sizes = chunk_sizes;
  using state = typename detail::stream_owners<Order>::state;

  [[nodiscard]] sizes sizes_for(bytes size) const {
    return source_.memory().sizes_for(size, options_.alignment);
  }

  [[nodiscard]] std::uint64_t allocate_chunk(stream handle, state& owner_state, sizes needed,
                                             bool will_be_trimmed = false) {
    auto const base = arena_.allocate_from_cached(needed, owner_state.owner, will_be_trimmed);
    return base ? *base : allocate_slowly(handle, owner_state, needed);
  }
  [[nodiscard]] void* record_allocation(std::uint64_t base, bytes size) {
    allocated_ += size;
    peak_allocated_ = std::max(peak_allocated_, allocated_);
    ++allocations_;
    return reinterpret_cast<void*>(base);
  }

  [[gnu::noinline]] std::uint64_t allocate_slowly(stream handle, state& owner_state, sizes needed) {
    bool const takes_common = streams_.is_ordered(owner_state);
    auto const allocate_merged = [&] {
      return takes_common ? arena_.allocate_tightest(needed, owner_state.owner)
                          : arena_.allocate_from_free(needed, owner_state.owner);
    };
    if (auto const base = allocate_merged()) return *base;
    if (arena_.merge_cached(owner_state.owner)) {
      if (auto const base = allocate_merged()) return *base;
    }
    if (!options_.grows_first) {
      if (auto const base = streams_.allocate_common(handle, owner_state, needed)) return *base;
    } else {
      try {
        return grow_for(owner_state, needed);
      } catch (std::exception const&) {  // then uses the free memory of other streams
      }
    }
    streams_.cover(handle, owner_state);
    streams_.share_all();
    if (auto const base = streams_.allocate_common(handle, owner_state, needed)) return *base;
    if (needed.granted <= options_.max_bytes) return_empty_blocks(handle, needed);
    try {
      return grow_for(owner_state, needed);
    } catch (std::exception const&) {
      (void)streams_.synchronize_all();
      if (auto const base = streams_.allocate_common(handle, owner_state, needed)) return *base;
      if (needed.granted > options_.max_bytes) throw;
      release();
    }
    return grow_for(owner_state, needed);
  }

  /// Before the pool grows: returns empty common blocks, oldest first, as long as the pool with its
  /// next block reserves no less than the peak use. A call that returns blocks although the peak
  /// did not rise since the last such call raises this limit by 1/32. So a program whose requests
  /// repeat soon stops waiting and calling the resource.
  void return_empty_blocks(stream handle, sizes needed) noexcept {
    bytes const peak = std::max(peak_allocated_, allocated_ + needed.requested);
    bytes const limit = peak + peak / 32 * repeated_returns_;
    bytes const min_reserved = limit - std::min(limit, next_block(needed));
    if (!arena_.can_release(min_reserved) || !streams_.finish_common(handle)) return;
    arena_.release([&](auto const& block) { source_.deallocate(block); }, min_reserved);
    if (peak <= peak_at_return_) ++repeated_returns_;
    peak_at_return_ = peak;
  }
  [[nodiscard]] bytes next_block(sizes needed) const {
    return std::max(arena_.size_of_cut(needed.granted), source_.min_block());
  }
  [[nodiscard]] std::uint64_t grow_for(state& owner_state, sizes needed) {
    arena_.reserve();
    upstream_block const fresh = source_.allocate(next_block(needed), needed, [] { return false; });
    return arena_.allocate_in(fresh, needed, owner_state.owner);
  }

  stream_pool_options options_;
  detail::owned_arena arena_;
  detail::block_source<Resource> source_;  // is destroyed before the arena
  detail::stream_owners<Order> streams_;
  bytes allocated_ = 0, peak_allocated_ = 0;
  bytes peak_at_return_ = 0;            // peak use when blocks were last returned before growth
  std::uint64_t repeated_returns_ = 0;  // such returns while the peak did not rise
  std::uint64_t allocations_ = 0, invalid_frees_ = 0;
};

/// A pool as a resource, for one of its streams: for containers, and for adaptors of resources. The
/// pool must outlive it.
template <class Pool>
class stream_resource {
 public:
  static constexpr bool is_simulated = simulated<Pool>;

  explicit stream_resource(Pool& upstream, typename Pool::stream handle = {})
      : pool_{&upstream}, stream_{handle} {}

  /// The same as the function of the pool.
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    return pool_->allocate(size, alignment, stream_);
  }
  bool deallocate(void* pointer, bytes, bytes) noexcept {
    return pool_->deallocate(pointer, stream_);
  }
  [[nodiscard]] memory_location location() const { return pool_->location(); }

 private:
  Pool* pool_;
  typename Pool::stream stream_;
};

}  // namespace quarry::inline QUARRY_ABI
