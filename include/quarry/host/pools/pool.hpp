// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/detail/block_source.hpp"
#include "quarry/host/detail/poison.hpp"
#include "quarry/host/detail/red_zone.hpp"
#include "quarry/host/detail/slices.hpp"
#include "quarry/host/pools/caching_arena.hpp"
#include "quarry/host/pools/pool_options.hpp"
#include "quarry/host/resources/resource.hpp"

#include <algorithm>
#include <string>

namespace quarry::inline QUARRY_ABI {

/// Takes blocks from a resource and hands out chunks of them, as its placement decides.
///
/// Before a pool without a heuristic takes a block, it returns empty blocks. It stops as soon as
/// its other blocks and the new block together do not exceed the peak use.
///
/// Not thread-safe (see synchronized_resource). A failed allocation leaves the users' allocations
/// and their counts unchanged, but empty blocks may have been returned. `deallocate` never throws,
/// needs no memory, and never calls a heuristic from within a heuristic. If coalescing gets no
/// block, for whatever reason, the pool continues without it.
template <memory_resource Resource, placement Placement = fast_fit>
class QUARRY_POISONS pool {
 public:
  static constexpr bool is_simulated = simulated<Resource>;

  /// Throws `bad_argument`.
  explicit pool(Resource upstream, pool_options const& options = {})
      : options_{checked(options)},
        placement_{options_.alignment},
        slices_{options_.alignment},
        padding_{options_.red_zone + options_.alignment - 1},
        min_chunk_{std::max(options_.alignment, padding_ & ~(options_.alignment - 1))},
        source_{"pool", std::move(upstream), options_, placement_.chunks()},
        is_poisoned_{detail::is_poisoned(source_.resource())} {
    check_red_zone();
    may_have_slices_ = Placement::caches && options_.red_zone == 0 && !options_.keeps_backtraces &&
                       options_.coalesce.condition == heuristic::trigger::never;
    if (options_.keeps_backtraces) detail::registration::prepare_backtraces();
    // without quick lists each call takes the slow path, which handles both options
    if (options_.red_zone != 0 || options_.keeps_backtraces) placement_.disable_caching();
    asks_after_frees_ =
        options_.shrink_after != 0 || options_.coalesce.condition == heuristic::trigger::cost;
    if (options_.coalesce.condition == heuristic::trigger::never) return;
    placement_.disable_caching();
    asks_after_frees_ |= options_.coalesce.checked_at == heuristic::moment::after_free;
  }
  pool(pool const&) = delete;
  pool& operator=(pool const&) = delete;
  /// Returns all blocks. Allocations that are still in use become invalid.
  ~pool() {
    placement_.for_each_block([&](auto const& empty) { return_block(empty); });
  }

  /// Allocates `size` bytes with the alignment of the options. Size 0 returns a unique address.
  /// Throws `out_of_memory`. O(1), or the cost of the placement, while a free chunk fits.
  [[nodiscard]] void* allocate(bytes size) {
    if (size - 1 < slices_.maximum()) {
      auto const base = slices_.allocate(size);
      return base ? record_allocation(*base, size) : allocate_small_slowly(size);
    }
    auto const needed = sizes_for(size);
    auto const base = placement_.allocate_from_cached(needed);
    return base ? record_allocation(*base, size) : allocate_slowly(needed);
  }
  /// The same at a multiple of `alignment`, a power of two. If it exceeds the alignment of the
  /// options, the free chunk must be larger by the difference. Also throws `bad_argument`.
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    bytes const room = room_to_align("pool", size, alignment, options_.alignment);
    return room == 0 ? allocate(size) : allocate_aligned(size, alignment, room);
  }

  /// Frees an allocation; ignores nullptr. Returns false, and changes nothing but the count
  /// `invalid_frees`, if `pointer` is not the base address of an allocation in use.
  bool deallocate(void* pointer) noexcept { return deallocate_pointer<true>(pointer); }
  /// The same, but does not count a refused pointer: for callers that try several pools.
  [[nodiscard]] bool try_deallocate(void* pointer) noexcept {
    return deallocate_pointer<false>(pointer);
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
    detail::slice_block* const slice_block = slices_.find_block(base);
    if (slice_block == nullptr)
      return memory().label(placement_, pointer, {std::move(name), call_site});
    if (memory().tracking() == nullptr || !size_of(pointer)) return false;
    memory().tracking()->label(base, {std::move(name), call_site});
    slice_block->set_labelled(slice_block->find_base(base).number);
    return true;
  }
  /// The pool's number in the registry; 0 if it is not tracked.
  [[nodiscard]] allocator_id id() const { return source_.memory().id(); }

  /// As a resource, for adaptors and pools on top of this pool.
  void deallocate(void* pointer, bytes, bytes) noexcept { (void)deallocate(pointer); }

  /// Returns the blocks without allocations to the resource. O(blocks).
  void release() noexcept {
    holding_cost_ = 0;
    slices_.release(map_pages{*this});
    placement_.release([&](auto const& empty) { return_block(empty); });
  }

  /// Returns empty blocks to the resource. Then takes one block of `wanted` minus the reserved
  /// bytes, if that is positive. `heuristic_rules` says when it does less. Does not throw: if it
  /// gets no block, the pool continues without it.
  void coalesce(bytes wanted) noexcept {
    bool const is_ours = options_.coalesce.rules == heuristic_rules::quarry;
    bool const is_of_2024 = options_.coalesce.rules == heuristic_rules::umpire_2024;
    if (is_of_2024 && placement_.free_chunks() < 2) return;
    slices_.release(map_pages{*this});  // may empty blocks
    if (is_ours && source_.replaces_in_vain(placement_, wanted, padding_)) return;
    release();
    if (placement_.reserved() >= wanted) return;
    try {
      auto const needed = sizes_for(wanted - placement_.reserved());
      auto const found = is_ours ? std::nullopt : placement_.allocate(needed);
      std::uint64_t const base =
          found ? *found : allocate_block(std::max(needed.granted, min_block()), needed);
      if (!found) ++coalesces_;
      if (!is_ours) peak_granted_ = std::max(peak_granted_, placement_.in_use());
      (void)placement_.deallocate(base);
    } catch (...) {  // the pool continues without that block
    }
  }

  /// The requested bytes; nullopt if `pointer` is not the base address of an allocation in use. For
  /// interior pointers use `registry::find`.
  [[nodiscard]] std::optional<bytes> size_of(void const* pointer) const {
    auto const found = sizes_of(pointer);
    return found ? std::optional{found->requested} : std::nullopt;
  }
  /// The same, with the bytes of the chunk or slice that serves the allocation.
  [[nodiscard]] std::optional<chunk_sizes> sizes_of(void const* pointer) const {
    auto const base = reinterpret_cast<std::uint64_t>(pointer);
    detail::slice_block const* const slice_block = slices_.find_block(base);
    if (slice_block == nullptr) return placement_.size_of(base);
    auto const slice = slice_block->find_base(base).slice;
    return slice.is_free() ? std::nullopt
                           : std::optional{chunk_sizes{slice.requested(), slice_block->slice()}};
  }

  [[nodiscard]] pool_counts counts() const {
    pool_counts result{state()};
    result.peak_reserved = source_.memory().peak();
    result.allocations = allocations_;
    result.allocations_in_use = placement_.allocated() - slices_.blocks() + slices_.in_use();
    result.deallocations = allocations_ - result.allocations_in_use;
    result.blocks_allocated = source_.allocated();
    result.blocks_returned = source_.returned();
    result.coalesces = coalesces_;
    result.invalid_frees = invalid_frees_;
    result.overruns = overruns_;
    result.largest_free = placement_.largest_free();
    return result;
  }

  /// Bytes of memory that the pool needs beside its blocks: its own size, resident pages of its
  /// tables, and its labels. O(pages + labels), by system calls.
  [[nodiscard]] bytes bookkeeping() const {
    return sizeof(*this) + placement_.footprint() + slices_.footprint() +
           source_.memory().footprint(placement_.blocks());
  }

  /// Calls `visit(address, size, is_free)` for each chunk and slice, block by block. O(chunks).
  template <class Visit>
  void for_each(Visit const& visit) const {
    placement_.for_each([&](std::uint64_t base, bytes size, bool is_free) {
      detail::slice_block const* const slice_block = is_free ? nullptr : slices_.find_block(base);
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
    auto problems = placement_.audit();
    for (auto& problem : slices_.audit()) problems.push_back(std::move(problem));
    if (!checks_red_zones()) return problems;
    placement_.for_each([&](std::uint64_t base, bytes, bool is_free) {
      if (auto const changed = is_free ? std::nullopt : changed_byte(base))
        problems.push_back(overrun_at(base, *changed));
    });
    return problems;
  }
  [[nodiscard]] Resource& resource() { return source_.resource(); }
  [[nodiscard]] memory_location location() { return location_of(source_.resource()); }

 private:
  /// A smaller pool could be full of slice blocks: one block for each size class takes 3 MiB.
  static constexpr bytes min_reserved_for_slices = 16_MiB;

  using sizes = chunk_sizes;

  [[nodiscard]] sizes sizes_for(bytes size) const {
    if (size > max_bytes_at_once) source_.memory().refuse(size);
    return {size, size == 0 ? min_chunk_ : (size + padding_) & ~(options_.alignment - 1)};
  }
  [[nodiscard]] bytes min_block() const { return source_.min_block(); }
  [[nodiscard]] detail::reserved_memory& memory() { return source_.memory(); }
  [[nodiscard]] bool is_poisoned() const {
    if constexpr (!detail::has_address_sanitizer) return false;
    return is_poisoned_;
  }

  /// Supplies the memory of slice blocks: chunks.
  struct map_pages {
    pool& owner;
    [[nodiscard]] std::optional<std::uint64_t> allocate() const noexcept {
      return owner.allocate_map_page();
    }
    void deallocate(std::uint64_t base) const noexcept { (void)owner.placement_.deallocate(base); }
  };
  [[nodiscard]] std::optional<std::uint64_t> allocate_map_page() noexcept {
    constexpr bytes size = detail::slice_block::size;
    try {
      auto const found = placement_.allocate_for_slices(size, size, options_.alignment);
      if (!found || *found < detail::object_starts::end) return found;
      (void)placement_.deallocate(*found);
    } catch (std::bad_alloc const&) {  // no page: chunks serve the size
    }
    return std::nullopt;
  }
  // Rare steps of a slice's free are tail calls, so that the usual free needs no stack frame.
  template <bool CountsInvalid>
  bool deallocate_pointer(void* pointer) noexcept {
    if (pointer == nullptr) return true;
    auto const base = reinterpret_cast<std::uint64_t>(pointer);
    detail::slice_block* const slice_block = slices_.find_block(base);
    if (slice_block == nullptr) return deallocate_chunk<CountsInvalid>(base);
    auto const [number, slice] = slice_block->find_base(base);
    if (slice.is_free() || slice.is_labelled()) [[unlikely]]
      return deallocate_labelled<CountsInvalid>(*slice_block, base);
    bool const is_full = slices_.deallocate(*slice_block, base, number);
    record_free(base, slice.requested());
    return is_full || asks_after_frees_ ? finish_slice_free(*slice_block, is_full) : true;
  }
  template <bool CountsInvalid>
  [[nodiscard]] bool deallocate_chunk(std::uint64_t base) noexcept {
    auto const requested = placement_.deallocate_to_cache(base);
    if (!requested) return deallocate_slowly<CountsInvalid>(base);
    record_free(base, *requested);
    return asks_after_frees_ ? maintain_after_free() : true;
  }
  template <bool CountsInvalid>
  [[nodiscard, gnu::noinline]] bool deallocate_slowly(std::uint64_t base) noexcept {
    if (checks_red_zones()) look_for_overrun(base);
    auto const size = placement_.deallocate(base, [&] { memory().tracking()->forget(base); });
    if (!size) {
      invalid_frees_ += CountsInvalid;
      return false;
    }
    record_free(base, size.requested);
    return asks_after_frees_ ? maintain_after_free() : true;
  }
  template <bool CountsInvalid>
  [[nodiscard, gnu::noinline]] bool deallocate_labelled(detail::slice_block& slice_block,
                                                        std::uint64_t base) noexcept {
    auto const [number, slice] = slice_block.find_base(base);
    if (slice.is_free()) {
      invalid_frees_ += CountsInvalid;
      return false;
    }
    memory().tracking()->forget(base);
    bool const is_full = slices_.deallocate(slice_block, base, number);
    record_free(base, slice.requested());
    return finish_slice_free(slice_block, is_full);
  }
  [[gnu::noinline]] bool finish_slice_free(detail::slice_block& slice_block,
                                           bool is_full) noexcept {
    if (is_full) slices_.flush(slice_block.size_class(), map_pages{*this});
    return asks_after_frees_ ? maintain_after_free() : true;
  }
  void record_free(std::uint64_t base, bytes requested) noexcept {
    allocated_ -= requested;
    if (is_poisoned()) detail::poison(reinterpret_cast<void*>(base), requested);
  }
  [[nodiscard]] void* record_allocation(std::uint64_t base, bytes size) {
    allocated_ += size;
    ++allocations_;
    peak_allocated_ = std::max(peak_allocated_, allocated_);
    peak_granted_ = std::max(peak_granted_, placement_.in_use());
    if (is_poisoned()) detail::unpoison(reinterpret_cast<void*>(base), size);
    return reinterpret_cast<void*>(base);
  }

  /// Takes the latest cached chunk if it is aligned, or cuts a chunk that has `room` to align.
  [[gnu::noinline]] void* allocate_aligned(bytes size, bytes alignment, bytes room) {
    auto const needed = sizes_for(size);
    if (auto const cached = placement_.allocate_from_cached(needed, alignment))
      return record_allocation(*cached, size);
    if (size > max_bytes_at_once - room) memory().refuse(size);
    std::uint64_t base = allocate_chunk({size, needed.granted + room});
    try {
      placement_.reserve();
    } catch (...) {
      (void)placement_.deallocate(base);
      throw;
    }
    base = placement_.trim(base, needed, alignment);
    mark(base, needed);
    return record_allocation(base, size);
  }

  [[nodiscard, gnu::noinline]] void* allocate_small_slowly(bytes size) {
    if (auto const base = slices_.allocate_slowly(size, map_pages{*this}))
      return record_allocation(*base, size);
    auto const needed = sizes_for(size);
    auto const base = placement_.allocate_from_cached(needed);
    return base ? record_allocation(*base, size) : allocate_slowly(needed);
  }
  [[nodiscard, gnu::noinline]] void* allocate_slowly(sizes needed) {
    std::uint64_t const base = allocate_chunk(needed);
    mark(base, needed);
    return record_allocation(base, needed.requested);
  }
  [[nodiscard]] std::uint64_t allocate_chunk(sizes needed) {
    auto found = placement_.allocate_from_free(needed);
    if (!found && slices_.release(map_pages{*this})) found = placement_.allocate_from_free(needed);
    return found ? *found : grow_for(needed);
  }
  /// Fills the red zone and keeps the backtrace, if the options say so.
  void mark(std::uint64_t base, sizes needed) {
    if (checks_red_zones())
      detail::red_zone::fill(reinterpret_cast<void*>(base + needed.requested),
                             needed.granted - needed.requested);
    auto* const tracking = memory().tracking();
    if (options_.keeps_backtraces && tracking != nullptr && tracking->label_backtrace(base))
      (void)placement_.set_labelled(base);
  }
  /// Returns the bytes that the heuristic wants; 0 while its rule runs, which may use the pool.
  [[nodiscard]] bytes ask_heuristic() noexcept {
    if (is_rule_running_) return 0;
    is_rule_running_ = true;
    bytes const wanted = options_.coalesce.wanted(state());
    is_rule_running_ = false;
    return wanted;
  }
  /// Trims the pool and asks the heuristic, if it is time. Returns true.
  [[gnu::noinline]] bool maintain_after_free() noexcept {
    if (options_.shrink_after != 0 && ++frees_of_period_ >= options_.shrink_after) shrink();
    if (placement_.releasable_blocks() >= 2)
      holding_cost_ += static_cast<double>(placement_.releasable());
    if (options_.coalesce.condition == heuristic::trigger::never ||
        options_.coalesce.checked_at != heuristic::moment::after_free)
      return true;
    if (bytes const wanted = ask_heuristic()) coalesce(wanted);
    return true;
  }

  /// Returns unused blocks beyond the peak use since the last call.
  void shrink() noexcept {
    slices_.release(map_pages{*this});
    placement_.release([&](auto const& empty) { return_block(empty); }, peak_granted_);
    peak_granted_before_ = std::max(peak_granted_before_, peak_granted_);
    peak_granted_ = placement_.in_use();
    frees_of_period_ = 0;
  }

  [[nodiscard]] std::uint64_t grow_for(sizes needed) {
    bytes size = std::max(placement_.size_of_cut(needed.granted), min_block());
    if (options_.coalesce.checked_at == heuristic::moment::before_growth) {
      if (bytes const wanted = ask_heuristic()) {
        coalesce(wanted);
        if (options_.coalesce.rules == heuristic_rules::quarry) {
          if (auto const found = placement_.allocate(needed)) return *found;
          size = std::max(placement_.size_of_cut(needed.granted), min_block());
        }
      }
    } else if (options_.coalesce.condition == heuristic::trigger::never &&
               placement_.releasable_blocks() != 0 && needed.granted <= options_.max_bytes) {
      if (auto const found = placement_.allocate_from_empty_block(needed)) return *found;
      bytes const maximum = std::max(peak_granted_, peak_granted_before_);
      placement_.release([&](auto const& empty) { return_block(empty); },
                         maximum - std::min(maximum, size));
      size = std::max(placement_.size_of_cut(needed.granted), min_block());
    }
    return allocate_block(size, needed);
  }

  /// Takes a block of `size` bytes, or of fewer bytes, and allocates a chunk of the block.
  [[nodiscard]] std::uint64_t allocate_block(bytes size, sizes needed) {
    placement_.reserve();
    auto const fresh = source_.allocate(size, needed, [this] {
      bool const has_empty_block = placement_.releasable_blocks() != 0;
      release();
      return has_empty_block;
    });
    try {
      placement_.reserve();  // again: the resource may have used the pool
    } catch (...) {
      source_.deallocate(fresh);
      throw;
    }
    if (is_poisoned()) detail::poison(reinterpret_cast<void*>(fresh.base), fresh.size);
    std::uint64_t const result = placement_.allocate_in(fresh, needed);
    if (may_have_slices_ && placement_.reserved() >= min_reserved_for_slices) begin_slices();
    return result;
  }
  void begin_slices() noexcept {
    may_have_slices_ = false;  // the pool has slices now, or never will
    try {
      slices_.begin();
      placement_.chunks().keep_slices(slices_.map());
    } catch (std::bad_alloc const&) {  // chunks serve small sizes
    }
  }
  void return_block(upstream_block const& empty) noexcept {
    if (is_poisoned()) detail::unpoison(reinterpret_cast<void*>(empty.base), empty.size);
    source_.deallocate(empty);
  }

  void check_red_zone() {
    if (options_.red_zone != 0 && !host_can_touch(source_.resource()))
      throw bad_argument{"pool_options: red_zone is " + std::to_string(options_.red_zone) +
                         " bytes, in memory that the host cannot touch"};
  }
  /// Whether frees check the pattern of red zones. Poisoned red zones have no pattern.
  [[nodiscard]] bool checks_red_zones() const { return options_.red_zone != 0 && !is_poisoned(); }
  /// The offset, from the allocation's address, of the first changed byte in its red zone.
  [[nodiscard]] std::optional<bytes> changed_byte(std::uint64_t base) const {
    auto const size = placement_.size_of(base);
    if (!size) return std::nullopt;
    bytes const zone = sizes_for(size->requested).granted - size->requested;
    auto const changed =
        detail::red_zone::changed_byte(reinterpret_cast<void*>(base + size->requested), zone);
    return changed ? std::optional{size->requested + *changed} : std::nullopt;
  }
  [[nodiscard]] std::string overrun_at(std::uint64_t base, bytes changed) const {
    auto const* const tracking = source_.memory().tracking();
    auto const label = tracking != nullptr ? tracking->label_of(base) : std::nullopt;
    return detail::red_zone::overrun(tracking != nullptr ? tracking->name() : options_.name, base,
                                     placement_.size_of(base)->requested, label ? label->name : "",
                                     changed);
  }
  [[gnu::noinline]] void look_for_overrun(std::uint64_t base) noexcept {
    auto const changed = changed_byte(base);
    if (!changed) return;
    ++overruns_;
    try {
      detail::red_zone::report(overrun_at(base, *changed), options_.on_overrun);
    } catch (...) {  // the overrun is counted
    }
  }

  [[nodiscard]] pool_state state() const {
    return {placement_.reserved(),
            placement_.releasable(),
            placement_.releasable_blocks(),
            allocated_,
            peak_allocated_,
            placement_.in_use(),
            std::max(peak_granted_before_, peak_granted_),
            placement_.free_chunks(),
            holding_cost_};
  }

  pool_options options_;
  Placement placement_;
  detail::slices slices_;
  bool may_have_slices_ = false;  // and has no slices yet
  bytes padding_, min_chunk_;     // of `sizes_for`; include the red zone
  // is destroyed before the tables that its registration reads
  detail::block_source<Resource> source_;
  bool is_poisoned_;
  bool asks_after_frees_ = false;
  bool is_rule_running_ = false;  // the heuristic's rule, which may call the pool
  bytes allocated_ = 0, peak_allocated_ = 0;
  bytes peak_granted_ = 0, peak_granted_before_ = 0;  // since the last shrink; before it
  std::uint64_t frees_of_period_ = 0;
  double holding_cost_ = 0;
  std::uint64_t allocations_ = 0, coalesces_ = 0, invalid_frees_ = 0, overruns_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI
