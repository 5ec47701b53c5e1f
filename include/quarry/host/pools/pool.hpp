// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/pools/block_source.hpp"
#include "quarry/host/pools/fitting.hpp"
#include "quarry/host/pools/poison.hpp"
#include "quarry/host/pools/pool_options.hpp"
#include "quarry/host/pools/red_zone.hpp"
#include "quarry/host/pools/slices.hpp"
#include "quarry/host/registry/registry.hpp"
#include "quarry/host/resources/resource.hpp"

#include <algorithm>
#include <string>

namespace quarry::inline QUARRY_ABI {

/// Takes blocks from a resource and hands out chunks of them, as its strategy places them.
///
/// A pool without a heuristic that needs a block first returns empty blocks, which are too small
/// for the request. It stops when the blocks that it holds and the new one together do not exceed
/// the peak use.
///
/// Not thread-safe (see synchronized_resource). A failed allocation leaves the users' allocations
/// and their counts unchanged, but empty blocks may have been returned. `deallocate` never throws,
/// needs no memory, and never calls a heuristic from within a heuristic. If coalescing gets no
/// block, for whatever reason, the pool continues without it.
template <memory_resource Resource, class Strategy = fast_fit>
class QUARRY_POISONS pool {
 public:
  static constexpr bool is_simulated = simulated<Resource>;

  /// Throws `bad_argument`.
  explicit pool(Resource from, pool_options const& options = {})
      : options_{checked(options)},
        source_{std::move(from), options_.alignment, options_.max_bytes},
        strategy_{options_.alignment},
        slices_{options_.alignment},
        padding_{options_.red_zone + options_.alignment - 1},
        min_chunk_{std::max(options_.alignment, padding_ & ~(options_.alignment - 1))} {
    check_red_zone();
    may_have_slices_ = Strategy::caches && options_.red_zone == 0 && !options_.keeps_backtraces &&
                       options_.coalesce.when == heuristic::trigger::never;
    if (options_.keeps_backtraces) registration::prepare_backtraces();
    // then all goes the slow path, where these are looked at
    if (options_.red_zone != 0 || options_.keeps_backtraces) strategy_.disable_caching();
    if (options_.is_tracked && !simulated<Resource>)
      registration_.emplace(strategy_.chunks(), location_of(source_.resource()), options_.name);
    asks_after_frees_ =
        options_.shrink_after != 0 || options_.coalesce.when == heuristic::trigger::cost;
    if (options_.coalesce.when == heuristic::trigger::never) return;
    strategy_.disable_caching();
    asks_after_frees_ |= options_.coalesce.checked_at == heuristic::moment::after_free;
  }
  pool(pool const&) = delete;
  pool& operator=(pool const&) = delete;
  /// What is still in use is lost with its block.
  ~pool() {
    strategy_.for_each_block([&](auto const& gone) { give(gone); });
  }

  /// `size` bytes, aligned as the options say; for 0 an address of its own. Throws `out_of_memory`.
  /// O(1), or as the strategy says, as long as something fits.
  [[nodiscard]] void* allocate(bytes size) {
    if (size - 1 < slices_.maximum()) {
      auto const base = slices_.allocate(size);
      return base ? counted(*base, size) : allocate_small_slowly(size);
    }
    auto const both = sizes_for(size);
    auto const base = strategy_.allocate_from_cached(both);
    return base ? counted(*base, size) : allocate_slowly(both);
  }
  /// At a multiple of `alignment`, a power of two, which may be more than the options say: then as
  /// much more must be free in one chunk. Throws `bad_argument` too.
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    bytes const room = room_to_align("pool", size, alignment, options_.alignment);
    return room == 0 ? allocate(size) : allocate_aligned(size, alignment, room);
  }

  /// Frees an allocation; ignores nullptr. Returns false, and changes nothing but the count
  /// `invalid_frees`, if `pointer` is not the first address of an allocation in use.
  bool deallocate(void* pointer) noexcept { return give_back<true>(pointer); }
  /// The same, but does not count what it refuses. For a user of several pools who does not know
  /// which of them allocated `pointer`.
  [[nodiscard]] bool try_deallocate(void* pointer) noexcept { return give_back<false>(pointer); }

  /// Allocates `size` bytes, and labels them in reports with a name and the place of the call. The
  /// registry keeps the label until the free. A pool that is not tracked drops the label.
  [[nodiscard]] void* allocate(bytes size, std::string name,
                               std::source_location where = std::source_location::current()) {
    void* const result = allocate(size);
    try {
      (void)label(result, std::move(name), where);
    } catch (...) {
      deallocate(result);
      throw;
    }
    return result;
  }
  /// Names an allocation. False if `pointer` is not in use, or the pool is not tracked.
  bool label(void* pointer, std::string name,
             std::source_location where = std::source_location::current()) {
    auto const base = reinterpret_cast<std::uint64_t>(pointer);
    if (!registration_ || !size_of(pointer)) return false;
    registration_->label(base, {std::move(name), where});
    slice_block* const its = slices_.of(base);
    if (its == nullptr) return strategy_.set_labelled(base);
    its->set_labelled(its->find_base(base).number);
    return true;
  }
  /// Its number in the registry; 0 if it is not tracked.
  [[nodiscard]] allocator_id id() const { return registration_ ? registration_->id() : 0; }

  /// As a resource, for what is built on a pool.
  void deallocate(void* pointer, bytes, bytes) noexcept { (void)deallocate(pointer); }

  /// Returns the blocks in which nothing is in use to the resource.
  void release() noexcept {
    holding_cost_ = 0;
    slices_.release(map_pages{*this});
    strategy_.release([&](auto const& gone) { give(gone); });
  }

  /// Returns empty blocks, then takes one block for the bytes that are missing to `wanted`. By the
  /// published rules it takes none if that many bytes are free in one chunk of another block, and
  /// by `umpire_2024` it does nothing while fewer than two chunks are free.
  void coalesce(bytes wanted) noexcept {
    if (options_.coalesce.rules == heuristic_rules::umpire_2024 && strategy_.free_chunks() < 2)
      return;
    release();
    if (strategy_.reserved() >= wanted) return;
    try {
      auto const both = sizes_for(wanted - strategy_.reserved());
      bool const is_ours = options_.coalesce.rules == heuristic_rules::quarry;
      auto const found = is_ours ? std::nullopt : strategy_.allocate(both);
      std::uint64_t const base =
          found ? *found : take_block(std::max(both.granted, min_block()), both);
      if (!found) ++coalesces_;
      if (!is_ours) peak_granted_ = std::max(peak_granted_, strategy_.in_use());
      (void)strategy_.deallocate(base);
    } catch (...) {  // then the pool does without
    }
  }

  /// Bytes requested; nullopt if `pointer` is not the first address of an allocation in use. For
  /// interior pointers there is `registry::find`.
  [[nodiscard]] std::optional<bytes> size_of(void const* pointer) const {
    auto const base = reinterpret_cast<std::uint64_t>(pointer);
    if (slice_block const* const its = slices_.of(base)) {
      auto const what = its->find_base(base).what;
      if (what.is_free()) return std::nullopt;
      return what.requested();
    }
    auto const found = strategy_.size_of(base);
    if (!found) return std::nullopt;
    return found->requested;
  }

  [[nodiscard]] pool_counts counts() const {
    pool_counts all;
    static_cast<pool_state&>(all) = state();
    all.peak_reserved = source_.peak_reserved();
    all.allocations = allocations_;
    all.chunks_allocated = strategy_.allocated() - slices_.blocks() + slices_.in_use();
    all.deallocations = allocations_ - all.chunks_allocated;
    all.blocks_allocated = source_.taken();
    all.blocks_returned = source_.given();
    all.coalesces = coalesces_;
    all.invalid_frees = invalid_frees_;
    all.overruns = overruns_;
    all.largest_free = strategy_.largest_free();
    return all;
  }

  /// Bytes of memory that the pool takes beside its blocks: its own size, pages of tables that are
  /// resident, and its labels. O(pages + labels), by calls of the system.
  [[nodiscard]] bytes bookkeeping() const {
    bytes const tables = strategy_.footprint() - sizeof(strategy_) + slices_.footprint();
    return sizeof(*this) + tables +
           (registration_ ? registration_->footprint(strategy_.reserved(), strategy_.blocks()) : 0);
  }

  /// Calls `visit(address, size, is_free)` for each chunk and slice, block by block.
  template <class Visit>
  void for_each(Visit const& visit) const {
    strategy_.for_each([&](std::uint64_t base, bytes size, bool is_free) {
      slice_block const* const its = is_free ? nullptr : slices_.of(base);
      if (its == nullptr) return visit(base, size, is_free);
      std::uint64_t const end = base + size;
      for (std::uint32_t number = 0; number < its->count(); ++number, base += its->slice())
        visit(base, its->slice(), (*its)[number].is_free());
      if (base != end) visit(base, end - base, true);
    });
  }
  /// What is wrong: in the strategy's tables, and which red zones were written to.
  [[nodiscard]] std::vector<std::string> audit() const {
    auto problems = strategy_.audit();
    for (auto& each : slices_.audit()) problems.push_back(std::move(each));
    if (!checks_red_zones()) return problems;
    strategy_.for_each([&](std::uint64_t base, bytes, bool is_free) {
      if (auto const changed = is_free ? std::nullopt : changed_byte(base))
        problems.push_back(overrun_at(base, *changed));
    });
    return problems;
  }
  [[nodiscard]] Resource& resource() { return source_.resource(); }
  [[nodiscard]] memory_location location() { return location_of(source_.resource()); }

 private:
  /// A pool that holds less might be used up by a block for each size of slices, 3 MiB in all.
  static constexpr bytes min_held_for_slices = 16_MiB;

  using sizes = typename Strategy::sizes;
  using block = typename Strategy::block;

  [[nodiscard]] sizes sizes_for(bytes size) const {
    if (size > max_bytes_at_once) refuse(size);
    return {size, size == 0 ? min_chunk_ : (size + padding_) & ~(options_.alignment - 1)};
  }
  [[noreturn, gnu::noinline]] static void refuse(bytes size) {
    throw out_of_memory{"pool", size, "nothing has so much"};
  }
  /// The least that the resource is asked for now.
  [[nodiscard]] bytes min_block() const {
    if (strategy_.reserved() == 0) return options_.first_block;
    return std::max(options_.next_block,
                    std::min(max_bytes_at_once, strategy_.reserved() / 100 * options_.growth) &
                        ~(options_.alignment - 1));
  }

  /// Where slice blocks lie: in chunks.
  struct map_pages {
    pool& its;
    [[nodiscard]] std::optional<std::uint64_t> take() const noexcept { return its.take_map_page(); }
    void give(std::uint64_t base) const noexcept { (void)its.strategy_.deallocate(base); }
  };
  [[nodiscard]] std::optional<std::uint64_t> take_map_page() noexcept {
    constexpr bytes size = slice_block::size;
    try {
      auto const found = strategy_.allocate_for_slices(size, size, options_.alignment);
      if (!found || *found < object_starts::end) return found;
      (void)strategy_.deallocate(*found);
    } catch (std::bad_alloc const&) {  // then none is free
    }
    return std::nullopt;
  }
  // What is not done for most slices is called last, so that these need no room on the stack.
  template <bool CountsRefused>
  bool give_back(void* pointer) noexcept {
    if (pointer == nullptr) return true;
    auto const base = reinterpret_cast<std::uint64_t>(pointer);
    slice_block* const its = slices_.of(base);
    if (its == nullptr) return give_back_chunk<CountsRefused>(base);
    auto const [number, what] = its->find_base(base);
    if (what.is_free() || what.is_labelled()) [[unlikely]]
      return deallocate_labelled<CountsRefused>(*its, base);
    bool const is_full = slices_.deallocate(*its, base, number);
    gone(base, what.requested());
    return is_full || asks_after_frees_ ? after_slice(*its, is_full) : true;
  }
  template <bool CountsRefused>
  [[nodiscard]] bool give_back_chunk(std::uint64_t base) noexcept {
    auto const requested = strategy_.deallocate_to_cache(base);
    if (!requested) return give_back_slowly<CountsRefused>(base);
    gone(base, *requested);
    return asks_after_frees_ ? after_free() : true;
  }
  template <bool CountsRefused>
  [[nodiscard, gnu::noinline]] bool give_back_slowly(std::uint64_t base) noexcept {
    if (checks_red_zones()) look_for_overrun(base);
    auto const size = strategy_.deallocate(base, [&] { registration_->forget(base); });
    if (!size) {
      invalid_frees_ += CountsRefused;
      return false;
    }
    gone(base, size.requested);
    return asks_after_frees_ ? after_free() : true;
  }
  template <bool CountsRefused>
  [[nodiscard, gnu::noinline]] bool deallocate_labelled(slice_block& its,
                                                        std::uint64_t base) noexcept {
    auto const [number, what] = its.find_base(base);
    if (what.is_free()) {
      invalid_frees_ += CountsRefused;
      return false;
    }
    registration_->forget(base);
    bool const is_full = slices_.deallocate(its, base, number);
    gone(base, what.requested());
    return after_slice(its, is_full);
  }
  [[gnu::noinline]] bool after_slice(slice_block& its, bool is_full) noexcept {
    if (is_full) slices_.flush(its.size_class(), map_pages{*this});
    return asks_after_frees_ ? after_free() : true;
  }
  void gone(std::uint64_t base, bytes requested) noexcept {
    allocated_ -= requested;
    if (source_.is_poisoned()) poison(reinterpret_cast<void*>(base), requested);
  }
  [[nodiscard]] void* counted(std::uint64_t base, bytes size) {
    allocated_ += size;
    ++allocations_;
    peak_allocated_ = std::max(peak_allocated_, allocated_);
    peak_granted_ = std::max(peak_granted_, strategy_.in_use());
    if (source_.is_poisoned()) unpoison(reinterpret_cast<void*>(base), size);
    return reinterpret_cast<void*>(base);
  }

  /// What was cached last, if it lies well; else out of a chunk with `room` to align.
  [[gnu::noinline]] void* allocate_aligned(bytes size, bytes alignment, bytes room) {
    auto const both = sizes_for(size);
    if (auto const again = strategy_.allocate_from_cached(both, alignment))
      return counted(*again, size);
    if (size > max_bytes_at_once - room) refuse(size);
    std::uint64_t base = allocate_chunk({size, both.granted + room});
    try {
      strategy_.reserve();
    } catch (...) {
      (void)strategy_.deallocate(base);
      throw;
    }
    base = strategy_.trim(base, both, alignment);
    mark(base, both);
    return counted(base, size);
  }

  [[nodiscard, gnu::noinline]] void* allocate_small_slowly(bytes size) {
    if (auto const base = slices_.allocate_slowly(size, map_pages{*this}))
      return counted(*base, size);
    auto const both = sizes_for(size);
    auto const base = strategy_.allocate_from_cached(both);
    return base ? counted(*base, size) : allocate_slowly(both);
  }
  [[nodiscard, gnu::noinline]] void* allocate_slowly(sizes both) {
    std::uint64_t const base = allocate_chunk(both);
    mark(base, both);
    return counted(base, both.requested);
  }
  [[nodiscard]] std::uint64_t allocate_chunk(sizes both) {
    auto found = strategy_.allocate_from_free(both);
    if (!found && slices_.release(map_pages{*this})) found = strategy_.allocate_from_free(both);
    return found ? *found : grow_for(both);
  }
  /// Fills the red zone and keeps the backtrace, if the options say so.
  void mark(std::uint64_t base, sizes both) {
    if (checks_red_zones())
      red_zone::fill(reinterpret_cast<void*>(base + both.requested), both.granted - both.requested);
    if (options_.keeps_backtraces && registration_ && registration_->label_backtrace(base))
      (void)strategy_.set_labelled(base);
  }
  /// How many bytes the heuristic wants; 0 from within its rule, which may use the pool.
  [[nodiscard]] bytes requested_heuristic() noexcept {
    if (is_being_asked_) return 0;
    is_being_asked_ = true;
    bytes const wanted = options_.coalesce.wanted(state());
    is_being_asked_ = false;
    return wanted;
  }
  /// Asks the heuristic. True.
  [[gnu::noinline]] bool after_free() noexcept {
    if (options_.shrink_after != 0 && ++frees_of_period_ >= options_.shrink_after) shrink();
    if (strategy_.releasable_blocks() >= 2)
      holding_cost_ += static_cast<double>(strategy_.releasable());
    if (options_.coalesce.when == heuristic::trigger::never ||
        options_.coalesce.checked_at != heuristic::moment::after_free)
      return true;
    if (bytes const wanted = requested_heuristic()) coalesce(wanted);
    return true;
  }

  /// Frees what the most of a period would not have needed.
  void shrink() noexcept {
    slices_.release(map_pages{*this});
    strategy_.release([&](auto const& gone) { give(gone); }, peak_granted_);
    peak_granted_before_ = std::max(peak_granted_before_, peak_granted_);
    peak_granted_ = strategy_.in_use();
    frees_of_period_ = 0;
  }

  [[nodiscard]] std::uint64_t grow_for(sizes both) {
    bytes size = std::max(strategy_.size_of_cut(both.granted), min_block());
    if (options_.coalesce.checked_at == heuristic::moment::before_growth) {
      if (bytes const wanted = requested_heuristic()) {
        coalesce(wanted);
        if (options_.coalesce.rules == heuristic_rules::quarry) {
          if (auto const found = strategy_.allocate(both)) return *found;
          size = std::max(strategy_.size_of_cut(both.granted), min_block());
        }
      }
    } else if (options_.coalesce.when == heuristic::trigger::never &&
               strategy_.releasable_blocks() != 0 && both.granted <= options_.max_bytes) {
      if (auto const found = strategy_.allocate_from_empty_block(both)) return *found;
      bytes const maximum = std::max(peak_granted_, peak_granted_before_);
      strategy_.release([&](auto const& gone) { give(gone); }, maximum - std::min(maximum, size));
      size = std::max(strategy_.size_of_cut(both.granted), min_block());
    }
    return take_block(size, both);
  }

  /// A chunk of a block of `size` bytes, or of as many as can be had, which is taken for it.
  [[nodiscard]] std::uint64_t take_block(bytes size, sizes both) {
    strategy_.reserve();
    auto const fresh = source_.take(size, both.granted, both.requested, [this] {
      bool const any = strategy_.releasable_blocks() != 0;
      release();
      return any;
    });
    try {
      strategy_.reserve();  // again: the resource may have used the pool
      if (registration_) registration_->add_block(fresh.base, fresh.size);
    } catch (...) {
      source_.give(fresh.base, fresh.size);
      throw;
    }
    std::uint64_t const result = strategy_.allocate_in({fresh.base, fresh.size}, both);
    if (may_have_slices_ && strategy_.reserved() >= min_held_for_slices) begin_slices();
    return result;
  }
  void begin_slices() noexcept {
    may_have_slices_ = false;  // it has them, or never will
    try {
      slices_.begin();
      strategy_.chunks().keep_slices(slices_.map());
    } catch (std::bad_alloc const&) {  // all are chunks, then
    }
  }
  void give(block const& gone) noexcept {
    if (registration_) registration_->remove_block(gone.base, gone.size);
    source_.give(gone.base, gone.size);
  }

  void check_red_zone() {
    if (options_.red_zone != 0 && !host_can_touch(source_.resource()))
      throw bad_argument{"pool_options: red_zone is " + std::to_string(options_.red_zone) +
                         " bytes, in memory that the host cannot touch"};
  }
  /// By their pattern; poisoned ones need no look.
  [[nodiscard]] bool checks_red_zones() const {
    return options_.red_zone != 0 && !source_.is_poisoned();
  }
  /// The first byte of the allocation's red zone that was written to, from the allocation's begin.
  [[nodiscard]] std::optional<bytes> changed_byte(std::uint64_t base) const {
    auto const size = strategy_.size_of(base);
    if (!size) return std::nullopt;
    bytes const zone = sizes_for(size->requested).granted - size->requested;
    auto const changed =
        red_zone::changed_byte(reinterpret_cast<void*>(base + size->requested), zone);
    if (!changed) return std::nullopt;
    return size->requested + *changed;
  }
  [[nodiscard]] std::string overrun_at(std::uint64_t base, bytes changed) const {
    auto const label = registration_ ? registration_->label_of(base) : std::nullopt;
    return red_zone::overrun(registration_ ? registration_->name() : options_.name, base,
                             strategy_.size_of(base)->requested, label ? label->name : "", changed);
  }
  [[gnu::noinline]] void look_for_overrun(std::uint64_t base) noexcept {
    auto const changed = changed_byte(base);
    if (!changed) return;
    ++overruns_;
    try {
      red_zone::report(overrun_at(base, *changed), options_.on_overrun);
    } catch (...) {  // it is counted
    }
  }

  [[nodiscard]] pool_state state() const {
    return {strategy_.reserved(),
            strategy_.releasable(),
            strategy_.releasable_blocks(),
            allocated_,
            peak_allocated_,
            strategy_.in_use(),
            std::max(peak_granted_before_, peak_granted_),
            strategy_.free_chunks(),
            holding_cost_};
  }

  pool_options options_;
  block_source<Resource> source_;
  Strategy strategy_;
  slices slices_;
  bool may_have_slices_ = false;  // and has none yet
  bytes padding_, min_chunk_;     // of sizes, with the red zone
  std::optional<registration> registration_;
  bool asks_after_frees_ = false;
  bool is_being_asked_ = false;  // the heuristic, whose rule may call the pool
  bytes allocated_ = 0, peak_allocated_ = 0;
  bytes peak_granted_ = 0, peak_granted_before_ = 0;  // in this period of shrinking; before it
  std::uint64_t frees_of_period_ = 0;
  double holding_cost_ = 0;
  std::uint64_t allocations_ = 0, coalesces_ = 0, invalid_frees_ = 0, overruns_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI
