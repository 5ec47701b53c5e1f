// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/detail/pool_checks.hpp"
#include "quarry/host/detail/pool_growth.hpp"
#include "quarry/host/pools/caching_arena.hpp"
#include "quarry/host/pools/pool_options.hpp"
#include "quarry/host/resources/resource.hpp"

#include <string>

namespace quarry::inline QUARRY_ABI {
namespace detail {
template <memory_resource Resource>
class QUARRY_POISONS arena_pool;
}

/// Takes blocks from a resource and serves allocations from chunks of these blocks. Its placement
/// decides which chunk serves an allocation.
///
/// Not thread-safe (see synchronized_resource). A failed allocation leaves the users' allocations
/// and their counts unchanged, but empty blocks may have been returned. `deallocate` never throws,
/// needs no memory, and never calls a heuristic from within a heuristic.
///
/// `Growth` decides when the pool takes blocks and returns them. Programs leave it out.
template <memory_resource Resource, placement Placement = fast_fit,
          class Growth = detail::pool_growth<Resource, Placement>>
class QUARRY_POISONS pool {
 public:
  static constexpr bool is_simulated = simulated<Resource>;

  /// `growth`: more arguments of Growth's constructor. Throws `bad_argument`.
  explicit pool(Resource upstream, pool_options const& options = {}, auto const&... growth)
      : memory_{std::move(upstream), checked(options), growth...},
        checks_{memory_},
        asks_after_frees_{memory_.coalesces_at(heuristic::moment::after_free)},
        maintains_after_frees_{asks_after_frees_ || options.shrink_after != 0 ||
                               options.coalesce.condition == heuristic::trigger::cost} {}

  /// Allocates `size` bytes with the alignment of the options. Size 0 returns a unique address.
  /// Throws `out_of_memory`. O(1), or the cost of the placement, while a free chunk fits.
  [[nodiscard]] void* allocate(bytes size) {
    void* const result = has_slices_of(size) ? allocate_quickly(size) : nullptr;
    return result != nullptr ? result : allocate_otherwise(size);
  }
  /// The same for 1 to `max_quick()` bytes, if a free slice of the size is at hand. Otherwise
  /// changes nothing and returns nullptr. It is short, so that the compiler inlines it into callers
  /// that have another way to continue.
  [[nodiscard]] void* allocate_quickly(bytes size) {
    auto& list = slices().list_of(size);
    if (list.is_empty()) return nullptr;
    void* const result = record_slice(list.take(size), size);
    if (result == nullptr) __builtin_unreachable();  // so that callers need not ask
    return result;
  }
  /// The largest size that `allocate_quickly` may serve; 0 if slices serve no size yet.
  [[nodiscard]] bytes max_quick() const {
    return Placement::caches ? memory_.slices().maximum() : 0;
  }
  /// Allocates `size` bytes at a multiple of `alignment`, a power of two. If `alignment` exceeds
  /// that of the options, the free chunk must be larger by the difference. Throws `out_of_memory`,
  /// and `bad_argument` if `alignment` is not a power of two.
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    bytes const room = room_to_align("pool", size, alignment, memory_.options().alignment);
    return room == 0 ? allocate(size) : allocate_slowly<true>(size, alignment, room);
  }

  /// Frees an allocation; ignores nullptr. Returns false, and changes nothing but the count
  /// `invalid_frees`, if `pointer` is not the base address of an allocation in use.
  bool deallocate(void* pointer) noexcept {
    return deallocate_slice(
        pointer, [this](std::uint64_t base) { return deallocate_chunk(base); },
        [this](detail::slice_block& slice_block, std::uint64_t base) {
          return deallocate_labelled(slice_block, base);
        });
  }
  /// The same if a slice without a label serves the allocation. Otherwise changes nothing and
  /// returns false. Inlined, as `allocate_quickly` is.
  [[nodiscard]] bool deallocate_quickly(void* pointer) noexcept {
    return deallocate_slice(
        pointer, [](std::uint64_t) { return false; },
        [](detail::slice_block&, std::uint64_t) { return false; });
  }
  /// `deallocate`, but does not count a refused pointer: for callers that try several pools.
  [[nodiscard]] bool try_deallocate(void* pointer) noexcept {
    if (deallocate(pointer)) [[likely]]
      return true;
    --invalid_frees_;
    return false;
  }
  /// The interface of a resource, for adaptors and pools on top of this pool.
  bool deallocate(void* pointer, bytes, bytes) noexcept { return deallocate(pointer); }

  /// Merges cached chunks, and returns the blocks without allocations to the resource. O(cached
  /// chunks + blocks), and O(blocks) again for each 64 blocks that return.
  void release() noexcept {
    chunks_held const lock{memory_.shared()};
    if (lock) memory_.release();
  }
  /// Returns empty blocks to the resource. Then takes one block of `wanted` minus the reserved
  /// bytes, if that is positive. Keeps the only empty block if a block of at least the same size
  /// would replace it. Does not throw: if it gets no block, the pool continues without it.
  void coalesce(bytes wanted) noexcept {
    chunks_held const lock{memory_.shared()};
    if (lock) memory_.coalesce(wanted);
  }

  /// Allocates `size` bytes, and labels the allocation with a name and the call site, for reports.
  /// The registry keeps the label until the allocation is freed. A pool that is not tracked drops
  /// the label. Throws as `allocate` does, and std::bad_alloc if there is no memory for the label.
  [[nodiscard]] void* allocate(bytes size, std::string name,
                               std::source_location call_site = std::source_location::current()) {
    void* const result = allocate(size);
    try {
      (void)label(result, std::move(name), call_site);
    } catch (...) {
      deallocate(result);
      throw;
    }
    return result;
  }
  /// Labels an allocation. False if `pointer` is not allocated, or the pool is not tracked.
  bool label(void* pointer, std::string name,
             std::source_location call_site = std::source_location::current()) {
    auto const base = reinterpret_cast<std::uint64_t>(pointer);
    detail::slice_block* const slice_block = slices().find_block(base);
    if (slice_block == nullptr)
      return registered().label(arena(), pointer, {std::move(name), call_site});
    if (registered().tracking() == nullptr || !size_of(pointer)) return false;
    registered().tracking()->label(base, {std::move(name), call_site});
    slice_block->set_labelled(slice_block->find_base(base).number);
    return true;
  }
  /// The pool's number in the registry; 0 if it is not tracked.
  [[nodiscard]] allocator_id id() const { return memory_.source().memory().id(); }

  /// The requested bytes; nullopt if `pointer` is not the base address of an allocation in use. For
  /// interior pointers use `registry::find`.
  [[nodiscard]] std::optional<bytes> size_of(void const* pointer) const {
    auto const found = sizes_of(pointer);
    return found ? std::optional{found->requested} : std::nullopt;
  }
  /// The same, with the bytes of the chunk or slice that serves the allocation.
  [[nodiscard]] std::optional<chunk_sizes> sizes_of(void const* pointer) const {
    auto const base = reinterpret_cast<std::uint64_t>(pointer);
    detail::slice_block const* const slice_block = memory_.slices().find_block(base);
    if (slice_block == nullptr) return memory_.arena().size_of(base);
    auto const slice = slice_block->find_base(base).slice;
    return slice.is_free() ? std::nullopt
                           : std::optional{chunk_sizes{slice.requested(), slice_block->slice()}};
  }

  /// The pool's sizes in bytes and counts of calls (pool_options.hpp).
  [[nodiscard]] pool_counts counts() const {
    chunks_held const lock{memory_.shared()};
    return held_counts();
  }
  /// Bytes of memory that the pool needs in addition to its blocks: its own size, resident pages of
  /// its tables, and its labels. O(pages + labels), by system calls.
  [[nodiscard]] bytes bookkeeping() const {
    auto const& arena = memory_.arena();
    return sizeof(*this) + arena.footprint() + memory_.slices().footprint() +
           memory_.source().memory().footprint(arena.blocks());
  }

  /// Calls `visit(address, size, is_free)` for each chunk and slice, block by block. O(chunks).
  template <class Visit>
  void for_each(Visit const& visit) const {
    memory_.arena().for_each([&](std::uint64_t base, bytes size, bool is_free) {
      auto const* const slice_block = is_free ? nullptr : memory_.slices().find_block(base);
      if (slice_block == nullptr) return visit(base, size, is_free);
      std::uint64_t const end = base + size;
      for (std::uint32_t number = 0; number < slice_block->count();
           ++number, base += slice_block->slice())
        visit(base, slice_block->slice(), (*slice_block)[number].is_free());
      if (base != end) visit(base, end - base, true);
    });
  }
  /// Describes each violated invariant of the pool's tables and each changed red zone; empty if
  /// there are none.
  [[nodiscard]] std::vector<std::string> audit() const {
    chunks_held const lock{memory_.shared()};
    auto problems = memory_.arena().audit();
    for (auto& problem : memory_.slices().audit()) problems.push_back(std::move(problem));
    checks_.audit(problems);
    return problems;
  }
  [[nodiscard]] Resource& resource() { return memory_.source().resource(); }
  [[nodiscard]] memory_location location() { return location_of(resource()); }

 private:
  friend class detail::arena_pool<Resource>;
  using chunks_held = detail::shared_chunks::hold;

  [[nodiscard]] Placement& arena() { return memory_.arena(); }
  [[nodiscard]] detail::slices& slices() { return memory_.slices(); }
  [[nodiscard]] detail::reserved_memory& registered() { return memory_.source().memory(); }
  [[nodiscard]] bool has_slices_of(bytes size) const { return size - 1 < max_quick(); }

  /// `counts`. Requires the lock of shared chunks, unless it is lost.
  [[nodiscard]] pool_counts held_counts() const {
    auto const& source = memory_.source();
    auto const& slices = memory_.slices();
    pool_counts result{memory_.state()};
    result.peak_reserved = source.memory().peak();
    result.allocations = allocations_;
    result.allocations_in_use = memory_.arena().allocated() - slices.blocks() + slices.in_use();
    result.deallocations = allocations_ - result.allocations_in_use;
    result.blocks_allocated = source.allocated();
    result.blocks_returned = source.returned();
    result.coalesces = memory_.coalesces();
    result.invalid_frees = invalid_frees_;
    result.overruns = checks_.overruns();
    result.largest_free = memory_.arena().largest_free();
    return result;
  }

  /// An allocation that no slice at hand serves.
  [[nodiscard, gnu::noinline]] void* allocate_otherwise(bytes size) {
    if (!has_slices_of(size)) {
      chunks_held const lock{memory_.shared()};
      lock.require();
      if (auto const base = arena().allocate_from_cached(memory_.sizes_for(size)))
        return record_allocation(*base, size);
    }
    return allocate_slowly(size);
  }
  /// An allocation that the first quick list cannot serve, from top to bottom. `room`: the bytes
  /// that a chunk needs beyond its size, so that it can be cut at a multiple of `alignment`.
  template <bool IsAligned = false>
  [[nodiscard, gnu::noinline]] void* allocate_slowly(bytes size, bytes alignment = 1,
                                                     bytes room = 0) {
    chunk_sizes const needed = memory_.sizes_for(size);
    bool const is_small = has_slices_of(size);
    chunks_held const lock{memory_.shared()};
    lock.require();
    std::optional<std::uint64_t> base;
    if (is_small && !IsAligned) base = memory_.find_slice(size);
    if (!base && (is_small || IsAligned))  // for other requests, `allocate` asked these lists
      base = arena().allocate_from_cached(needed, alignment);
    if (base) return record_allocation(*base, size);
    if (IsAligned && size > max_bytes_at_once - room) registered().refuse(size);
    chunk_sizes const uncut{size, IsAligned ? needed.granted + room : needed.granted};
    base = memory_.find_chunk(uncut);
    if (!base) base = memory_.grow(uncut);
    if (IsAligned) base = arena().trim(*base, needed, alignment);
    checks_.mark(*base, needed);
    return record_allocation(*base, size);
  }
  [[nodiscard]] void* record_allocation(std::uint64_t base, bytes size) {
    memory_.count_allocation(size);
    return record(base, size);
  }
  [[nodiscard]] void* record_slice(std::uint64_t base, bytes size) {
    memory_.count_slice(size);
    return record(base, size);
  }
  [[nodiscard]] void* record(std::uint64_t base, bytes size) {
    ++allocations_;
    if (memory_.is_poisoned()) detail::unpoison(reinterpret_cast<void*>(base), size);
    return reinterpret_cast<void*>(base);
  }

  /// Frees a slice without a label. Otherwise returns `chunk(base)`, or `labelled(block, base)` for
  /// a slice that has a label or is free. The other calls are tail calls, so that the free of a
  /// slice needs no stack frame.
  template <class Chunk, class Labelled>
  [[gnu::always_inline]] bool deallocate_slice(void* pointer, Chunk const& chunk,
                                               Labelled const& labelled) noexcept {
    auto const base = reinterpret_cast<std::uint64_t>(pointer);
    detail::slice_block* const slice_block = slices().find_block(base);
    if (slice_block == nullptr) return chunk(base);
    auto const [number, slice] = slice_block->find_base(base);
    if (slice.has_flags()) [[unlikely]]
      return labelled(*slice_block, base);
    bool const has_work = slices().deallocate(*slice_block, base, number);
    record_free(base, slice.requested());
    return has_work ? finish_slice_free(*slice_block) : true;
  }
  [[nodiscard, gnu::noinline]] bool deallocate_chunk(std::uint64_t base) noexcept {
    if (base == 0) return true;
    chunks_held const lock{memory_.shared()};
    if (lock) [[likely]]
      return deallocate_held_chunk(base);
    ++invalid_frees_;
    return false;
  }
  /// Requires the lock of shared chunks.
  [[gnu::always_inline]] bool deallocate_held_chunk(std::uint64_t base) noexcept {
    auto const requested = arena().deallocate_to_cache(base);
    if (!requested) return deallocate_slowly(base);
    record_free(base, *requested);
    return maintains_after_frees_ ? maintain() : true;
  }
  [[nodiscard, gnu::noinline]] bool deallocate_slowly(std::uint64_t base) noexcept {
    checks_.look_for_overrun(base);
    auto const size = arena().deallocate(base, [&] { registered().tracking()->forget(base); });
    if (!size) {
      ++invalid_frees_;
      return false;
    }
    record_free(base, size.requested);
    return maintains_after_frees_ ? maintain() : true;
  }
  [[nodiscard, gnu::noinline]] bool deallocate_labelled(detail::slice_block& slice_block,
                                                        std::uint64_t base) noexcept {
    auto const [number, slice] = slice_block.find_base(base);
    if (slice.is_free()) {
      ++invalid_frees_;
      return false;
    }
    registered().tracking()->forget(base);
    (void)slices().deallocate(slice_block, base, number);
    record_free(base, slice.requested());
    return finish_slice_free(slice_block);
  }
  [[gnu::noinline]] bool finish_slice_free(detail::slice_block& slice_block) noexcept {
    chunks_held const lock{memory_.shared()};
    memory_.flush_slices(slice_block, static_cast<bool>(lock));
    return maintains_after_frees_ && lock ? maintain() : true;
  }
  void record_free(std::uint64_t base, bytes requested) noexcept {
    memory_.count_free(requested);
    if (memory_.is_poisoned()) detail::poison(reinterpret_cast<void*>(base), requested);
  }
  /// Trims the pool and asks the heuristic, if it is time. Returns true.
  [[gnu::noinline]] bool maintain() noexcept {
    memory_.maintain();
    bytes const wanted = asks_after_frees_ ? memory_.wanted() : 0;
    if (wanted != 0) memory_.coalesce(wanted);
    return true;
  }

  Growth memory_;
  detail::pool_checks<Growth> checks_;
  bool asks_after_frees_, maintains_after_frees_;
  std::uint64_t allocations_ = 0, invalid_frees_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI
