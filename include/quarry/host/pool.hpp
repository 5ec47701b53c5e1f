// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/block_source.hpp"
#include "quarry/host/errors.hpp"
#include "quarry/host/fitting.hpp"
#include "quarry/host/poison.hpp"
#include "quarry/host/pool_options.hpp"
#include "quarry/host/red_zone.hpp"
#include "quarry/host/registry.hpp"
#include "quarry/host/resource.hpp"
#include "quarry/host/slices.hpp"

#include <algorithm>
#include <string>

namespace quarry::inline QUARRY_ABI {

/// Takes blocks from a resource and hands out pieces of them, as its strategy places them.
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
        source_{std::move(from), options_.alignment, options_.most},
        strategy_{options_.alignment},
        slices_{options_.alignment},
        padding_{options_.red_zone + options_.alignment - 1},
        least_piece_{std::max(options_.alignment, padding_ & ~(options_.alignment - 1))} {
    check_red_zone();
    may_have_slices_ = Strategy::sets_aside && options_.red_zone == 0 &&
                       !options_.keeps_backtraces &&
                       options_.coalesce.when == heuristic::trigger::never;
    if (options_.keeps_backtraces) ledger::prepare_backtraces();
    // then all goes the slow path, where these are looked at
    if (options_.red_zone != 0 || options_.keeps_backtraces) strategy_.set_nothing_aside();
    if (options_.is_tracked && !simulated<Resource>)
      ledger_.emplace(strategy_.pieces(), place_of(source_.resource()), options_.name);
    asks_after_frees_ =
        options_.shrink_after != 0 || options_.coalesce.when == heuristic::trigger::cost;
    if (options_.coalesce.when == heuristic::trigger::never) return;
    strategy_.set_nothing_aside();
    asks_after_frees_ |= options_.coalesce.asked == heuristic::moment::after_free;
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
    if (size - 1 < slices_.most()) {
      auto const begin = slices_.allocate(size);
      return begin ? counted(*begin, size) : allocate_small_slowly(size);
    }
    auto const both = sizes_for(size);
    auto const begin = strategy_.allocate_from_aside(both);
    return begin ? counted(*begin, size) : allocate_slowly(both);
  }
  /// At a multiple of `alignment`, a power of two, which may be more than the options say: then as
  /// much more must be free in one piece. Throws `bad_argument` too.
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    bytes const room = room_to_align("pool", size, alignment, options_.alignment);
    return room == 0 ? allocate(size) : allocate_aligned(size, alignment, room);
  }

  /// Frees an allocation; ignores nullptr. Returns false, and changes nothing but the count
  /// `refused`, if `pointer` is not the first address of an allocation in use.
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
      (void)note(result, std::move(name), where);
    } catch (...) {
      deallocate(result);
      throw;
    }
    return result;
  }
  /// Names an allocation. False if `pointer` is not in use, or the pool is not tracked.
  bool note(void* pointer, std::string name,
            std::source_location where = std::source_location::current()) {
    auto const begin = reinterpret_cast<std::uint64_t>(pointer);
    if (!ledger_ || !size_of(pointer)) return false;
    ledger_->note(begin, {std::move(name), where});
    slice_block* const its = slices_.of(begin);
    if (its == nullptr) return strategy_.set_noted(begin);
    its->set_noted(its->find_begin(begin).number);
    return true;
  }
  /// Its number in the registry; 0 if it is not tracked.
  [[nodiscard]] allocator_id id() const { return ledger_ ? ledger_->id() : 0; }

  /// As a resource, for what is built on a pool.
  void deallocate(void* pointer, bytes, bytes) noexcept { (void)deallocate(pointer); }

  /// Returns the blocks in which nothing is in use to the resource.
  void release() noexcept {
    rent_ = 0;
    slices_.release(granules{*this});
    strategy_.release([&](auto const& gone) { give(gone); });
  }

  /// Returns empty blocks, then takes one block for the bytes that are missing to `wanted`. By the
  /// published rules it takes none if that many bytes are free in one piece of another block, and
  /// by `umpire_2024` it does nothing while fewer than two pieces are free.
  void coalesce(bytes wanted) noexcept {
    if (options_.coalesce.rules == heuristic_rules::umpire_2024 && strategy_.free_pieces() < 2)
      return;
    release();
    if (strategy_.held() >= wanted) return;
    try {
      auto const both = sizes_for(wanted - strategy_.held());
      bool const is_ours = options_.coalesce.rules == heuristic_rules::quarry;
      auto const found = is_ours ? std::nullopt : strategy_.allocate(both);
      std::uint64_t const begin =
          found ? *found : take_block(std::max(both.rounded, least_block()), both);
      if (!found) ++coalesces_;
      if (!is_ours) most_rounded_ = std::max(most_rounded_, strategy_.in_use());
      (void)strategy_.deallocate(begin);
    } catch (...) {  // then the pool does without
    }
  }

  /// Bytes requested; nullopt if `pointer` is not the first address of an allocation in use. For
  /// interior pointers there is `registry::find`.
  [[nodiscard]] std::optional<bytes> size_of(void const* pointer) const {
    auto const begin = reinterpret_cast<std::uint64_t>(pointer);
    if (slice_block const* const its = slices_.of(begin)) {
      auto const what = its->find_begin(begin).what;
      if (what.is_free()) return std::nullopt;
      return what.asked();
    }
    auto const found = strategy_.size_of(begin);
    if (!found) return std::nullopt;
    return found->asked;
  }

  [[nodiscard]] pool_counts counts() const {
    pool_counts all;
    static_cast<pool_state&>(all) = state();
    all.most_held = source_.most_held();
    all.allocations = allocations_;
    all.pieces_live = strategy_.live() - slices_.blocks() + slices_.in_use();
    all.deallocations = allocations_ - all.pieces_live;
    all.blocks_taken = source_.taken();
    all.blocks_given = source_.given();
    all.coalesces = coalesces_;
    all.refused = refused_;
    all.overruns = overruns_;
    all.largest_free = strategy_.largest_free();
    return all;
  }

  /// Bytes of memory that the pool takes beside its blocks: its own size, pages of tables that are
  /// resident, and its notes. O(pages + notes), by calls of the system.
  [[nodiscard]] bytes bookkeeping() const {
    bytes const tables = strategy_.footprint() - sizeof(strategy_) + slices_.footprint();
    return sizeof(*this) + tables +
           (ledger_ ? ledger_->footprint(strategy_.held(), strategy_.blocks()) : 0);
  }

  /// Calls `visit(address, size, is_free)` for each piece and slice, block by block.
  template <class Visit>
  void for_each(Visit const& visit) const {
    strategy_.for_each([&](std::uint64_t begin, bytes size, bool is_free) {
      slice_block const* const its = is_free ? nullptr : slices_.of(begin);
      if (its == nullptr) return visit(begin, size, is_free);
      std::uint64_t const end = begin + size;
      for (std::uint32_t number = 0; number < its->count(); ++number, begin += its->slice())
        visit(begin, its->slice(), (*its)[number].is_free());
      if (begin != end) visit(begin, end - begin, true);
    });
  }
  /// What is wrong: in the strategy's tables, and which red zones were written to.
  [[nodiscard]] std::vector<std::string> audit() const {
    auto problems = strategy_.audit();
    for (auto& each : slices_.audit()) problems.push_back(std::move(each));
    if (!checks_red_zones()) return problems;
    strategy_.for_each([&](std::uint64_t begin, bytes, bool is_free) {
      if (auto const changed = is_free ? std::nullopt : changed_byte(begin))
        problems.push_back(overrun_at(begin, *changed));
    });
    return problems;
  }
  [[nodiscard]] Resource& resource() { return source_.resource(); }
  [[nodiscard]] memory_place place() { return place_of(source_.resource()); }

 private:
  /// A pool that holds less might be used up by a block for each size of slices, 3 MiB in all.
  static constexpr bytes least_held_for_slices = 16_MiB;

  using sizes = typename Strategy::sizes;
  using block = typename Strategy::block;

  [[nodiscard]] sizes sizes_for(bytes size) const {
    if (size > most_bytes_at_once) refuse(size);
    return {size, size == 0 ? least_piece_ : (size + padding_) & ~(options_.alignment - 1)};
  }
  [[noreturn, gnu::noinline]] static void refuse(bytes size) {
    throw out_of_memory{"pool", size, "nothing has so much"};
  }
  /// The least that the resource is asked for now.
  [[nodiscard]] bytes least_block() const {
    if (strategy_.held() == 0) return options_.first_block;
    return std::max(options_.next_block,
                    std::min(most_bytes_at_once, strategy_.held() / 100 * options_.growth) &
                        ~(options_.alignment - 1));
  }

  /// Where slice blocks lie: in pieces.
  struct granules {
    pool& its;
    [[nodiscard]] std::optional<std::uint64_t> take() const noexcept { return its.take_granule(); }
    void give(std::uint64_t begin) const noexcept { (void)its.strategy_.deallocate(begin); }
  };
  [[nodiscard]] std::optional<std::uint64_t> take_granule() noexcept {
    constexpr bytes size = slice_block::size;
    try {
      auto const found = strategy_.allocate_for_slices(size, size, options_.alignment);
      if (!found || *found < address_starts::end) return found;
      (void)strategy_.deallocate(*found);
    } catch (std::bad_alloc const&) {  // then none is free
    }
    return std::nullopt;
  }
  // What is not done for most slices is called last, so that these need no room on the stack.
  template <bool CountsRefused>
  bool give_back(void* pointer) noexcept {
    if (pointer == nullptr) return true;
    auto const begin = reinterpret_cast<std::uint64_t>(pointer);
    slice_block* const its = slices_.of(begin);
    if (its == nullptr) return give_back_piece<CountsRefused>(begin);
    auto const [number, what] = its->find_begin(begin);
    if (what.is_free() || what.is_noted()) [[unlikely]]
      return give_back_noted<CountsRefused>(*its, begin);
    bool const is_full = slices_.deallocate(*its, begin, number);
    gone(begin, what.asked());
    return is_full || asks_after_frees_ ? after_slice(*its, is_full) : true;
  }
  template <bool CountsRefused>
  [[nodiscard]] bool give_back_piece(std::uint64_t begin) noexcept {
    auto const asked = strategy_.deallocate_aside(begin);
    if (!asked) return give_back_slowly<CountsRefused>(begin);
    gone(begin, *asked);
    return asks_after_frees_ ? after_free() : true;
  }
  template <bool CountsRefused>
  [[nodiscard, gnu::noinline]] bool give_back_slowly(std::uint64_t begin) noexcept {
    if (checks_red_zones()) look_for_overrun(begin);
    auto const size = strategy_.deallocate(begin, [&] { ledger_->forget(begin); });
    if (!size) {
      refused_ += CountsRefused;
      return false;
    }
    gone(begin, size.asked);
    return asks_after_frees_ ? after_free() : true;
  }
  template <bool CountsRefused>
  [[nodiscard, gnu::noinline]] bool give_back_noted(slice_block& its,
                                                    std::uint64_t begin) noexcept {
    auto const [number, what] = its.find_begin(begin);
    if (what.is_free()) {
      refused_ += CountsRefused;
      return false;
    }
    ledger_->forget(begin);
    bool const is_full = slices_.deallocate(its, begin, number);
    gone(begin, what.asked());
    return after_slice(its, is_full);
  }
  [[gnu::noinline]] bool after_slice(slice_block& its, bool is_full) noexcept {
    if (is_full) slices_.flush(its.size_class(), granules{*this});
    return asks_after_frees_ ? after_free() : true;
  }
  void gone(std::uint64_t begin, bytes asked) noexcept {
    live_ -= asked;
    if (source_.is_poisoned()) poison(reinterpret_cast<void*>(begin), asked);
  }
  [[nodiscard]] void* counted(std::uint64_t begin, bytes size) {
    live_ += size;
    ++allocations_;
    most_live_ = std::max(most_live_, live_);
    most_rounded_ = std::max(most_rounded_, strategy_.in_use());
    if (source_.is_poisoned()) unpoison(reinterpret_cast<void*>(begin), size);
    return reinterpret_cast<void*>(begin);
  }

  /// What was set aside last, if it lies well; else out of a piece with `room` to align.
  [[gnu::noinline]] void* allocate_aligned(bytes size, bytes alignment, bytes room) {
    auto const both = sizes_for(size);
    if (auto const again = strategy_.allocate_from_aside(both, alignment))
      return counted(*again, size);
    if (size > most_bytes_at_once - room) refuse(size);
    std::uint64_t begin = allocate_piece({size, both.rounded + room});
    try {
      strategy_.reserve();
    } catch (...) {
      (void)strategy_.deallocate(begin);
      throw;
    }
    begin = strategy_.trim(begin, both, alignment);
    mark(begin, both);
    return counted(begin, size);
  }

  [[nodiscard, gnu::noinline]] void* allocate_small_slowly(bytes size) {
    if (auto const begin = slices_.allocate_slowly(size, granules{*this}))
      return counted(*begin, size);
    auto const both = sizes_for(size);
    auto const begin = strategy_.allocate_from_aside(both);
    return begin ? counted(*begin, size) : allocate_slowly(both);
  }
  [[nodiscard, gnu::noinline]] void* allocate_slowly(sizes both) {
    std::uint64_t const begin = allocate_piece(both);
    mark(begin, both);
    return counted(begin, both.asked);
  }
  [[nodiscard]] std::uint64_t allocate_piece(sizes both) {
    auto found = strategy_.allocate_from_free(both);
    if (!found && slices_.release(granules{*this})) found = strategy_.allocate_from_free(both);
    return found ? *found : grow_for(both);
  }
  /// Fills the red zone and keeps the backtrace, if the options say so.
  void mark(std::uint64_t begin, sizes both) {
    if (checks_red_zones())
      red_zone::fill(reinterpret_cast<void*>(begin + both.asked), both.rounded - both.asked);
    if (options_.keeps_backtraces && ledger_ && ledger_->note_backtrace(begin))
      (void)strategy_.set_noted(begin);
  }
  /// How many bytes the heuristic wants; 0 from within its rule, which may use the pool.
  [[nodiscard]] bytes asked_heuristic() noexcept {
    if (is_being_asked_) return 0;
    is_being_asked_ = true;
    bytes const wanted = options_.coalesce.wanted(state());
    is_being_asked_ = false;
    return wanted;
  }
  /// Asks the heuristic. True.
  [[gnu::noinline]] bool after_free() noexcept {
    if (options_.shrink_after != 0 && ++frees_of_period_ >= options_.shrink_after) shrink();
    if (strategy_.releasable_blocks() >= 2) rent_ += static_cast<double>(strategy_.releasable());
    if (options_.coalesce.when == heuristic::trigger::never ||
        options_.coalesce.asked != heuristic::moment::after_free)
      return true;
    if (bytes const wanted = asked_heuristic()) coalesce(wanted);
    return true;
  }

  /// Frees what the most of a period would not have needed.
  void shrink() noexcept {
    slices_.release(granules{*this});
    strategy_.release([&](auto const& gone) { give(gone); }, most_rounded_);
    most_rounded_before_ = std::max(most_rounded_before_, most_rounded_);
    most_rounded_ = strategy_.in_use();
    frees_of_period_ = 0;
  }

  [[nodiscard]] std::uint64_t grow_for(sizes both) {
    bytes size = std::max(strategy_.size_of_cut(both.rounded), least_block());
    if (options_.coalesce.asked == heuristic::moment::before_growth) {
      if (bytes const wanted = asked_heuristic()) {
        coalesce(wanted);
        if (options_.coalesce.rules == heuristic_rules::quarry) {
          if (auto const found = strategy_.allocate(both)) return *found;
          size = std::max(strategy_.size_of_cut(both.rounded), least_block());
        }
      }
    } else if (options_.coalesce.when == heuristic::trigger::never &&
               strategy_.releasable_blocks() != 0 && both.rounded <= options_.most) {
      if (auto const found = strategy_.allocate_from_empty_block(both)) return *found;
      bytes const most = std::max(most_rounded_, most_rounded_before_);
      strategy_.release([&](auto const& gone) { give(gone); }, most - std::min(most, size));
      size = std::max(strategy_.size_of_cut(both.rounded), least_block());
    }
    return take_block(size, both);
  }

  /// A piece of a block of `size` bytes, or of as many as can be had, which is taken for it.
  [[nodiscard]] std::uint64_t take_block(bytes size, sizes both) {
    strategy_.reserve();
    auto const fresh = source_.take(size, both.rounded, both.asked, [this] {
      bool const any = strategy_.releasable_blocks() != 0;
      release();
      return any;
    });
    try {
      strategy_.reserve();  // again: the resource may have used the pool
      if (ledger_) ledger_->add_block(fresh.begin, fresh.size);
    } catch (...) {
      source_.give(fresh.begin, fresh.size);
      throw;
    }
    std::uint64_t const result = strategy_.allocate_in({fresh.begin, fresh.size}, both);
    if (may_have_slices_ && strategy_.held() >= least_held_for_slices) begin_slices();
    return result;
  }
  void begin_slices() noexcept {
    may_have_slices_ = false;  // it has them, or never will
    try {
      slices_.begin();
      strategy_.pieces().keep_slices(slices_.directory());
    } catch (std::bad_alloc const&) {  // all are pieces, then
    }
  }
  void give(block const& gone) noexcept {
    if (ledger_) ledger_->remove_block(gone.begin, gone.size);
    source_.give(gone.begin, gone.size);
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
  [[nodiscard]] std::optional<bytes> changed_byte(std::uint64_t begin) const {
    auto const size = strategy_.size_of(begin);
    if (!size) return std::nullopt;
    bytes const zone = sizes_for(size->asked).rounded - size->asked;
    auto const changed = red_zone::changed_byte(reinterpret_cast<void*>(begin + size->asked), zone);
    if (!changed) return std::nullopt;
    return size->asked + *changed;
  }
  [[nodiscard]] std::string overrun_at(std::uint64_t begin, bytes changed) const {
    auto const note = ledger_ ? ledger_->note_of(begin) : std::nullopt;
    return red_zone::overrun(ledger_ ? ledger_->name() : options_.name, begin,
                             strategy_.size_of(begin)->asked, note ? note->name : "", changed);
  }
  [[gnu::noinline]] void look_for_overrun(std::uint64_t begin) noexcept {
    auto const changed = changed_byte(begin);
    if (!changed) return;
    ++overruns_;
    try {
      red_zone::report(overrun_at(begin, *changed), options_.on_overrun);
    } catch (...) {  // it is counted
    }
  }

  [[nodiscard]] pool_state state() const {
    return {strategy_.held(),
            strategy_.releasable(),
            strategy_.releasable_blocks(),
            live_,
            most_live_,
            strategy_.in_use(),
            std::max(most_rounded_before_, most_rounded_),
            strategy_.free_pieces(),
            rent_};
  }

  pool_options options_;
  block_source<Resource> source_;
  Strategy strategy_;
  slices slices_;
  bool may_have_slices_ = false;  // and has none yet
  bytes padding_, least_piece_;   // of sizes, with the red zone
  std::optional<ledger> ledger_;
  bool asks_after_frees_ = false;
  bool is_being_asked_ = false;  // the heuristic, whose rule may call the pool
  bytes live_ = 0, most_live_ = 0;
  bytes most_rounded_ = 0, most_rounded_before_ = 0;  // in this period of shrinking; before it
  std::uint64_t frees_of_period_ = 0;
  double rent_ = 0;
  std::uint64_t allocations_ = 0, coalesces_ = 0, refused_ = 0, overruns_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI
