// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/detail/block_source.hpp"
#include "quarry/host/detail/poison.hpp"
#include "quarry/host/detail/shared_chunks.hpp"
#include "quarry/host/detail/slices.hpp"
#include "quarry/host/pools/pool_options.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace quarry::inline QUARRY_ABI::detail {

/// The memory of a pool: blocks of the resource, the arena that cuts them into chunks, and slices
/// in free chunks. Takes blocks, returns them, and coalesces as the heuristic says. Also keeps the
/// counts that the heuristic reads.
///
/// Before a pool without a heuristic takes a block, it returns empty blocks. It stops as soon as
/// its other blocks and the new block together do not exceed the peak use.
///
/// A class with other rules derives from this class and replaces `grow`, `coalesce` and `wanted`.
template <memory_resource Resource, placement Placement>
class QUARRY_POISONS pool_growth {
 public:
  /// `options`: the result of `checked`.
  pool_growth(Resource upstream, pool_options const& options)
      : options_{options},
        arena_{options.alignment},
        slices_{options.alignment},
        padding_{options.red_zone + options.alignment - 1},
        min_chunk_{std::max(options.alignment, padding_ & ~(options.alignment - 1))},
        source_{"pool", std::move(upstream), options, arena_.chunks()},
        is_poisoned_{detail::is_poisoned(source_.resource())} {
    bool const sees_each_chunk =
        has_heuristic() || options.red_zone != 0 || options.keeps_backtraces;
    if (sees_each_chunk) arena_.disable_caching();
    may_have_slices_ = Placement::caches && !sees_each_chunk;
  }
  pool_growth(pool_growth const&) = delete;
  pool_growth& operator=(pool_growth const&) = delete;
  ~pool_growth() {
    arena_.for_each_block([&](upstream_block const& block) { return_block(block); });
  }

  // --- An allocation that the quick lists could not serve, in this order. Rare steps are out of
  // line, so that the step that serves most requests (find_chunk) needs a small frame.

  /// A slice of 1 to `slices().maximum()` bytes; nullopt if chunks must serve the size.
  [[nodiscard, gnu::noinline]] std::optional<std::uint64_t> find_slice(bytes size) {
    return slices_.allocate_slowly(size, pages());
  }
  /// The same without a new block of slices.
  [[nodiscard]] std::optional<std::uint64_t> find_slice_in_blocks(bytes size) {
    return slices_.allocate_from_blocks(size);
  }
  /// A chunk of the blocks; nullopt if no free chunk fits. Throws std::bad_alloc.
  [[nodiscard]] std::optional<std::uint64_t> find_chunk(chunk_sizes needed) {
    auto const found = arena_.allocate_from_free(needed);
    if (found || !slices_.release(pages())) return found;
    return arena_.allocate_from_free(needed);
  }
  /// A chunk, although no free chunk fits. Throws `out_of_memory` and what the resource throws.
  [[nodiscard, gnu::noinline]] std::uint64_t grow(chunk_sizes needed) {
    auto const found = has_heuristic() ? coalesce_before_growth(needed) : use_empty_block(needed);
    return found ? *found : add_block(size_of_block(needed), needed);
  }

  // --- Blocks that return to the resource.

  /// Returns the blocks without allocations. O(blocks). Like all that changes blocks, requires the
  /// lock of shared chunks.
  void release() noexcept {
    holding_cost_ = 0;
    release_down_to(0);
  }
  /// Returns empty blocks. Then takes one block of `wanted` minus the reserved bytes, if that is
  /// positive. Does nothing if a block of at least the same size would replace the only empty
  /// block.
  void coalesce(bytes wanted) noexcept {
    slices_.release(pages());  // may empty blocks
    if (replaces_in_vain(wanted)) return;
    release();
    if (arena_.reserved() >= wanted) return;
    try {
      chunk_sizes const missing = sizes_for(wanted - arena_.reserved());
      std::uint64_t const base = add_block(std::max(missing.granted, source_.min_block()), missing);
      ++coalesces_;
      (void)arena_.deallocate(base);
    } catch (...) {  // the pool continues without that block
    }
  }
  /// The bytes that the heuristic wants the pool to hold; 0 means that it should not coalesce.
  [[nodiscard]] bytes wanted() noexcept {
    return ask([this](pool_state const& state) { return options_.coalesce.wanted(state); });
  }
  [[nodiscard]] bool has_heuristic() const {
    return options_.coalesce.condition != heuristic::trigger::never;
  }
  [[nodiscard]] bool coalesces_at(heuristic::moment moment) const {
    return has_heuristic() && options_.coalesce.checked_at == moment;
  }
  /// After a free: shrinks the pool if it is time, and counts what its empty blocks cost.
  void maintain() noexcept {
    if (options_.shrink_after != 0 && ++frees_of_period_ >= options_.shrink_after) shrink();
    if (arena_.releasable_blocks() >= 2) holding_cost_ += static_cast<double>(arena_.releasable());
  }

  // --- Slices and counts.

  /// Whether a new block for slices of `size` bytes would lie in memory that the pool has not used
  /// before. Then a map page of another pool saves memory.
  [[nodiscard]] bool needs_map_page(bytes size) const {
    if (size - 1 >= slice_block::max_slice || slices_.has_spare()) return false;
    shared_chunks::hold const lock{shared_};
    bool const has_memory = arena_.reserved() != 0;
    bytes const peak = std::max(peak_granted_, peak_granted_before_);
    if (has_memory && arena_.in_use() + slice_block::size <= peak) return false;
    if (slices_.map() == nullptr) return may_have_slices_ && !has_memory;
    return size <= slices_.maximum() && (!has_memory || slices_.is_due(size));
  }
  /// Whether the pool needs a block of the resource for a map page.
  [[nodiscard]] bool lacks_map_page() const {
    shared_chunks::hold const lock{shared_};
    return arena_.largest_free() < slice_block::size;
  }
  /// Borrows a map page for allocations of `size` bytes. Returns false if there is no memory for
  /// its bookkeeping.
  [[nodiscard]] bool borrow_map_page(slice_block& origin, bytes size) noexcept {
    try {
      if (slices_.map() == nullptr) begin_slices();
      if (size > slices_.maximum()) return false;
      slices_.borrow(origin, size);
      return true;
    } catch (std::bad_alloc const&) {
      return false;
    }
  }

  /// `has_chunks`: the caller holds the lock of shared chunks. It may be lost.
  void flush_slices(slice_block const& block, bool has_chunks) noexcept {
    slices_.flush(block, pages(), has_chunks);
  }
  void count_allocation(bytes size) {
    count_slice(size);
    count_granted();
  }
  /// The same for a slice that was in a quick list, so that the arena's counts did not change.
  void count_slice(bytes size) {
    if (__builtin_sub_overflow(below_peak_, size, &below_peak_)) [[unlikely]] {
      peak_allocated_ -= below_peak_;  // below_peak_ is negative, modulo 2^64
      below_peak_ = 0;
    }
  }
  void count_free(bytes size) { below_peak_ += size; }
  [[nodiscard]] std::uint64_t coalesces() const { return coalesces_; }
  [[nodiscard]] pool_state state() const {
    return {arena_.reserved(),
            arena_.releasable(),
            arena_.releasable_blocks(),
            peak_allocated_ - below_peak_,
            peak_allocated_,
            arena_.in_use(),
            std::max(peak_granted_before_, peak_granted_),
            arena_.free_chunks(),
            holding_cost_};
  }

  /// The sizes of a chunk for `size` bytes and their red zone. Throws `out_of_memory` if they are
  /// more than any resource can serve.
  [[nodiscard]] chunk_sizes sizes_for(bytes size) const {
    if (size > max_bytes_at_once) source_.memory().refuse(size);
    return {size, size == 0 ? min_chunk_ : (size + padding_) & ~(options_.alignment - 1)};
  }
  [[nodiscard]] bool is_poisoned() const {
    if constexpr (!has_address_sanitizer) return false;
    return is_poisoned_;
  }
  [[nodiscard]] pool_options const& options() const { return options_; }
  [[nodiscard]] Placement& arena() { return arena_; }
  [[nodiscard]] Placement const& arena() const { return arena_; }
  [[nodiscard]] detail::slices& slices() { return slices_; }
  [[nodiscard]] detail::slices const& slices() const { return slices_; }
  [[nodiscard]] block_source<Resource>& source() { return source_; }
  [[nodiscard]] block_source<Resource> const& source() const { return source_; }
  [[nodiscard]] shared_chunks& shared() { return shared_; }
  [[nodiscard]] shared_chunks const& shared() const { return shared_; }
  /// Whether the pool calls no function of its options, and others may have all its memory.
  [[nodiscard]] bool may_share() const {
    return !has_heuristic() && options_.red_zone == 0 && !options_.keeps_backtraces &&
           options_.max_bytes == no_limit;
  }

 protected:
  /// The result of `rule(state())`; 0 while a rule runs, since a user's rule may use the pool.
  template <class Rule>
  [[nodiscard]] bytes ask(Rule const& rule) noexcept {
    if (is_rule_running_) return 0;
    is_rule_running_ = true;
    bytes const wanted = rule(state());
    is_rule_running_ = false;
    return wanted;
  }
  [[nodiscard]] bytes size_of_block(chunk_sizes needed) const {
    return std::max(arena_.size_of_cut(needed.granted), source_.min_block());
  }
  /// Takes a block of `size` bytes, or of fewer bytes, and allocates a chunk of the block.
  [[nodiscard]] std::uint64_t add_block(bytes size, chunk_sizes needed) {
    arena_.reserve();
    upstream_block const fresh = request_block(size, needed);
    try {
      arena_.reserve();  // again: the resource may have used the pool
    } catch (...) {
      shared_chunks::pause const others_may_work{shared_};
      source_.deallocate(fresh);
      throw;
    }
    if (is_poisoned()) poison(reinterpret_cast<void*>(fresh.base), fresh.size);
    std::uint64_t const base = arena_.allocate_in(fresh, needed);
    if (may_have_slices_ && arena_.reserved() >= min_reserved_for_slices) begin_slices();
    return base;
  }
  void count_coalesce() { ++coalesces_; }
  void count_granted() { peak_granted_ = std::max(peak_granted_, arena_.in_use()); }

 private:
  /// A smaller pool could be full of slice blocks: one block for each size class takes 3 MiB.
  static constexpr bytes min_reserved_for_slices = 16_MiB;

  /// Supplies the memory of slice blocks: chunks.
  struct map_pages {
    Placement& arena;
    bytes alignment;
    [[nodiscard]] std::optional<std::uint64_t> allocate() const noexcept {
      constexpr bytes size = slice_block::size;
      try {
        auto const found = arena.allocate_for_slices(size, size, alignment);
        if (!found || *found < object_starts::end) return found;
        deallocate(*found);
      } catch (std::bad_alloc const&) {  // no page: chunks serve the size
      }
      return std::nullopt;
    }
    void deallocate(std::uint64_t base) const noexcept { (void)arena.deallocate(base); }
  };
  [[nodiscard]] map_pages pages() { return {arena_, options_.alignment}; }

  [[nodiscard]] std::optional<std::uint64_t> coalesce_before_growth(chunk_sizes needed) {
    if (!coalesces_at(heuristic::moment::before_growth)) return std::nullopt;
    bytes const size = wanted();
    if (size == 0) return std::nullopt;
    coalesce(size);
    return arena_.allocate(needed);
  }
  /// Allocates in an empty block, which the index may have missed. If no such block is large
  /// enough, returns empty blocks, as the class says.
  [[nodiscard]] std::optional<std::uint64_t> use_empty_block(chunk_sizes needed) {
    if (arena_.releasable_blocks() == 0 || needed.granted > options_.max_bytes) return std::nullopt;
    auto const found = arena_.allocate_from_empty_block(needed);
    if (found) return found;
    bytes const maximum = std::max(peak_granted_, peak_granted_before_);
    release_down_to(maximum - std::min(maximum, size_of_block(needed)));
    return std::nullopt;
  }
  /// Whether a coalesce to `wanted` bytes would replace the only empty block by a block that is not
  /// smaller, although the pool holds `wanted` bytes. A heuristic that fires at each free would do
  /// that each time.
  [[nodiscard]] bool replaces_in_vain(bytes wanted) const {
    if (arena_.releasable_blocks() != 1) return false;
    bytes const empty = arena_.releasable(), kept = arena_.reserved() - empty;
    if (wanted > arena_.reserved() || wanted <= kept) return false;
    bytes const missing = (wanted - kept + padding_) & ~(options_.alignment - 1);
    return std::max(missing, source_.min_block_after(kept)) >= empty;
  }
  /// Returns unused blocks beyond the peak use since the last call.
  void shrink() noexcept {
    release_down_to(peak_granted_);
    peak_granted_before_ = std::max(peak_granted_before_, peak_granted_);
    peak_granted_ = arena_.in_use();
    frees_of_period_ = 0;
  }
  /// Returns empty blocks, oldest first, as long as `min_reserved` bytes remain.
  void release_down_to(bytes min_reserved) noexcept {
    slices_.release(pages());
    arena_.release(
        [&](upstream_block const& block) {
          shared_chunks::pause const others_may_work{shared_};
          return_block(block);
        },
        min_reserved);
  }
  [[nodiscard]] upstream_block request_block(bytes size, chunk_sizes needed) {
    shared_chunks::pause const others_may_work{shared_};
    return source_.allocate(size, needed, [this] {
      shared_chunks::hold const lock{shared_};
      bool const has_empty_block = arena_.releasable_blocks() != 0;
      release();
      return has_empty_block;
    });
  }
  void return_block(upstream_block const& block) noexcept {
    if (is_poisoned()) unpoison(reinterpret_cast<void*>(block.base), block.size);
    source_.deallocate(block);
  }
  void begin_slices() noexcept {
    may_have_slices_ = false;  // the pool has slices now, or never will
    try {
      slices_.begin(options_.shrink_after != 0);
      arena_.chunks().keep_slices(slices_.map());
    } catch (std::bad_alloc const&) {  // chunks serve small sizes
    }
  }

  pool_options options_;
  shared_chunks shared_;
  Placement arena_;
  detail::slices slices_;
  bool may_have_slices_ = false;  // and has no slices yet
  bytes padding_, min_chunk_;     // of `sizes_for`; include the red zone
  // is destroyed before the tables that its registration reads
  block_source<Resource> source_;
  bool is_poisoned_;
  bool is_rule_running_ = false;               // the heuristic's rule, which may call the pool
  bytes peak_allocated_ = 0, below_peak_ = 0;  // the bytes in use are the difference
  bytes peak_granted_ = 0, peak_granted_before_ = 0;  // since the last shrink; before it
  std::uint64_t frees_of_period_ = 0, coalesces_ = 0;
  double holding_cost_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI::detail
