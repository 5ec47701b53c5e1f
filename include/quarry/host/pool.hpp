// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/errors.hpp"
#include "quarry/host/fitting.hpp"
#include "quarry/host/heuristic.hpp"
#include "quarry/host/poison.hpp"
#include "quarry/host/red_zone.hpp"
#include "quarry/host/registry.hpp"
#include "quarry/host/resource.hpp"

#include <algorithm>
#include <string>

namespace quarry {

struct pool_options {
  bytes first_block = 0;      ///< the least that an empty pool asks its resource for; 0: 64 MiB
  bytes next_block = 0;       ///< the least that it asks for later; 0: 8 MiB
  std::uint32_t growth = 12;  ///< the least that it asks for later, as percent of what it holds
  /// Of all allocations, and what sizes are rounded up to: a power of two from 16 to 16 KiB
  bytes alignment = 16;
  bytes most =
      ~bytes{0};  ///< bytes that the pool holds at most, with up to 1/32 that pieces are cut larger
  heuristic coalesce = heuristic::never();
  /// Frees after which blocks go back, but for the most bytes that were in use during these; 0:
  /// never
  std::uint64_t shrink_after = 0;
  std::string name = {};   ///< for reports
  bool is_tracked = true;  ///< the registry knows its allocations; never of a simulated resource
  /// Mitigation: bytes behind each allocation that nobody may write, 64 KiB at most; 0: none. For
  /// memory that the host can touch. Threat, cost and report: red_zone.hpp
  bytes red_zone = 0;
  /// Is told of each write to a red zone, in a line of text; null: standard error is. What it
  /// throws is dropped
  void (*on_overrun)(std::string const& line) = nullptr;
  /// Leak reports say where each allocation was made, by its callers' addresses, up to 32. Then
  /// no allocation is set aside for the next one of its size
  bool keeps_backtraces = false;
};

/// What a pool counts. `held`: its blocks. `live`: asked for and in use; `rounded`: the pieces that
/// serve it, with what alignment adds and what is left over in pieces that were set aside.
struct pool_counts : pool_state {
  bytes most_held = 0;
  std::uint64_t allocations = 0, deallocations = 0;  // of pieces
  std::uint64_t blocks_taken = 0, blocks_given = 0;  // from and to the resource
  std::uint64_t coalesces = 0;                       // that took a block
  std::uint64_t refused = 0;                         // deallocations of what was not in use
  std::uint64_t overruns = 0;                        // deallocations of what had a changed red zone
  std::size_t pieces_live = 0;
  bytes largest_free = 0;
  bytes bookkeeping = 0;
};

/// Takes blocks from a resource and hands out pieces of them, as its strategy places them.
///
/// Not thread-safe (see synchronized_resource). A failed allocation leaves what users have and the
/// counts of that as they were, though blocks in which nothing is in use may have gone back. Giving
/// back never throws, never asks a heuristic from within a heuristic, and needs no memory: if
/// coalescing gets no block, for whatever reason, the pool does without.
template <memory_resource Resource, class Strategy = fast_fit>
class QUARRY_POISONS pool {
 public:
  /// Throws `bad_argument`.
  explicit pool(Resource from, pool_options const& options = {})
      : resource_{std::move(from)},
        options_{checked(options)},
        strategy_{options_.alignment},
        padding_{options_.red_zone + options_.alignment - 1},
        least_piece_{std::max(options_.alignment, padding_ & ~(options_.alignment - 1))},
        is_poisoned_{quarry::is_poisoned(resource_)} {
    check_red_zone();
    // then all goes the slow path, where these are looked at
    if (options_.red_zone != 0 || options_.keeps_backtraces) strategy_.set_nothing_aside();
    if (options_.is_tracked && !simulated<Resource>)
      ledger_.emplace(strategy_.pieces(), place_of(resource_), options_.name);
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
    auto const both = sizes_for(size);
    if (auto const begin = strategy_.allocate_from_aside(both)) return counted(*begin, size);
    return counted(allocate_slowly(both), size);
  }
  /// At a multiple of `alignment`, a power of two, which may be more than the options say: then as
  /// much more must be free in one piece. Throws `bad_argument` too.
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    bytes const room = room_to_align("pool", size, alignment, options_.alignment);
    return room == 0 ? allocate(size) : allocate_aligned(size, alignment, room);
  }

  /// Gives back what `allocate` gave; nullptr is ignored. False, and nothing is changed but a
  /// count, if it is not in use.
  bool deallocate(void* pointer) noexcept {
    if (try_deallocate(pointer)) return true;
    ++refused_;
    return false;
  }
  /// The same without a count, for who has several pools, of which one may have it in use.
  [[nodiscard]] bool try_deallocate(void* pointer) noexcept {
    if (pointer == nullptr) return true;
    auto const asked = strategy_.deallocate_aside(reinterpret_cast<std::uint64_t>(pointer));
    if (!asked) return deallocate_slowly(reinterpret_cast<std::uint64_t>(pointer));
    live_ -= *asked;
    if (is_poisoned()) poison(pointer, *asked);
    if (asks_after_frees_) ask_heuristic();
    return true;
  }

  /// The same, with a name that reports give, and the place of the call. The registry keeps it
  /// until it is given back.
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
    if (!ledger_ || !strategy_.size_of(begin)) return false;
    ledger_->note(begin, {std::move(name), where});
    return strategy_.set_noted(begin);
  }
  /// Its number in the registry; 0 if it is not tracked.
  [[nodiscard]] allocator_id id() const { return ledger_ ? ledger_->id() : 0; }

  /// As a resource, for what is built on a pool.
  void deallocate(void* pointer, bytes, bytes) noexcept { (void)deallocate(pointer); }

  /// Gives back the blocks in which nothing is in use.
  void release() noexcept {
    rent_ = 0;
    strategy_.release([&](auto const& gone) { give(gone); });
  }

  /// Gives back the blocks in which nothing is in use, and takes one for what is missing to
  /// `wanted` bytes. (By the published rules only if that much is not free already in other
  /// blocks.)
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

  /// Bytes asked for; nothing if `pointer` is not in use. Of interior pointers the registry knows.
  [[nodiscard]] std::optional<bytes> size_of(void const* pointer) const {
    auto const found = strategy_.size_of(reinterpret_cast<std::uint64_t>(pointer));
    if (!found) return std::nullopt;
    return found->asked;
  }

  [[nodiscard]] pool_counts counts() const {
    pool_counts all;
    static_cast<pool_state&>(all) = state();
    all.most_held = most_held_;
    all.allocations = allocations_;
    all.deallocations = allocations_ - strategy_.live();
    all.blocks_taken = blocks_taken_;
    all.blocks_given = blocks_given_;
    all.coalesces = coalesces_;
    all.refused = refused_;
    all.overruns = overruns_;
    all.pieces_live = strategy_.live();
    all.largest_free = strategy_.largest_free();
    all.bookkeeping = strategy_.footprint();
    return all;
  }

  /// Calls `visit(address, size, is_free)` for each piece, block by block.
  template <class Visit>
  void for_each(Visit const& visit) const {
    strategy_.for_each(visit);
  }
  /// What is wrong: in the strategy's tables, and which red zones were written to.
  [[nodiscard]] std::vector<std::string> audit() const {
    auto problems = strategy_.audit();
    if (!checks_red_zones()) return problems;
    strategy_.for_each([&](std::uint64_t begin, bytes, bool is_free) {
      if (auto const changed = is_free ? std::nullopt : changed_byte(begin))
        problems.push_back(overrun_at(begin, *changed));
    });
    return problems;
  }
  [[nodiscard]] Resource& resource() { return resource_; }
  [[nodiscard]] memory_place place() { return place_of(resource_); }

 private:
  using sizes = typename Strategy::sizes;
  using block = typename Strategy::block;

  [[nodiscard]] static pool_options checked(pool_options options) {
    check_alignment("pool_options", options.alignment);
    for (bytes const size : {options.first_block, options.next_block}) {
      if (size > most_bytes_at_once)
        throw bad_argument{"pool_options: blocks of " + std::to_string(size) +
                           " bytes are more than 2^46"};
    }
    if (options.growth > 1000)
      throw bad_argument{"pool_options: growth is " + std::to_string(options.growth) +
                         " percent, more than 1000"};
    if (options.first_block == 0) options.first_block = 64_MiB;
    if (options.next_block == 0) options.next_block = 8_MiB;
    for (bytes* const size : {&options.first_block, &options.next_block})
      *size = (*size + options.alignment - 1) & ~(options.alignment - 1);
    return options;
  }

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

  [[nodiscard]] void* counted(std::uint64_t begin, bytes size) {
    live_ += size;
    ++allocations_;
    most_live_ = std::max(most_live_, live_);
    most_rounded_ = std::max(most_rounded_, strategy_.in_use());
    if (is_poisoned()) unpoison(reinterpret_cast<void*>(begin), size);
    return reinterpret_cast<void*>(begin);
  }

  /// What was set aside last, if it lies well; else out of a piece with `room` to align.
  [[gnu::noinline]] void* allocate_aligned(bytes size, bytes alignment, bytes room) {
    auto const both = sizes_for(size);
    auto const again = strategy_.allocate_from_aside(both);
    if (again && *again % alignment == 0) return counted(*again, size);
    if (again) (void)strategy_.deallocate(*again);
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

  [[gnu::noinline]] std::uint64_t allocate_slowly(sizes both) {
    std::uint64_t const begin = allocate_piece(both);
    mark(begin, both);
    return begin;
  }
  [[nodiscard]] std::uint64_t allocate_piece(sizes both) {
    auto const found = strategy_.allocate_from_free(both);
    return found ? *found : grow_for(both);
  }
  /// Fills the red zone and keeps the backtrace, if the options say so.
  void mark(std::uint64_t begin, sizes both) {
    if (checks_red_zones())
      red_zone::fill(reinterpret_cast<void*>(begin + both.asked), both.rounded - both.asked);
    if (options_.keeps_backtraces && ledger_ && ledger_->note_backtrace(begin))
      (void)strategy_.set_noted(begin);
  }
  [[gnu::noinline]] bool deallocate_slowly(std::uint64_t begin) noexcept {
    if (checks_red_zones()) look_for_overrun(begin);
    auto const gone = strategy_.deallocate(begin, [&] { ledger_->forget(begin); });
    if (!gone) return false;
    live_ -= gone.asked;
    if (is_poisoned()) poison(reinterpret_cast<void*>(begin), gone.asked);
    if (asks_after_frees_) ask_heuristic();
    return true;
  }
  [[gnu::noinline]] void ask_heuristic() noexcept {
    if (options_.shrink_after != 0 && ++frees_of_period_ >= options_.shrink_after) shrink();
    if (strategy_.releasable_blocks() >= 2) rent_ += static_cast<double>(strategy_.releasable());
    if (options_.coalesce.when == heuristic::trigger::never ||
        options_.coalesce.asked != heuristic::moment::after_free)
      return;
    if (bytes const wanted = options_.coalesce.wanted(state())) coalesce(wanted);
  }

  /// Gives back what the most of a period would not have needed.
  void shrink() noexcept {
    strategy_.release([&](auto const& gone) { give(gone); }, most_rounded_);
    most_rounded_before_ = std::max(most_rounded_before_, most_rounded_);
    most_rounded_ = strategy_.in_use();
    frees_of_period_ = 0;
  }

  [[nodiscard]] std::uint64_t grow_for(sizes both) {
    bytes size = std::max(strategy_.size_of_cut(both.rounded), least_block());
    if (options_.coalesce.asked == heuristic::moment::before_growth) {
      if (bytes const wanted = options_.coalesce.wanted(state())) {
        coalesce(wanted);
        if (options_.coalesce.rules == heuristic_rules::quarry) {
          if (auto const found = strategy_.allocate(both)) return *found;
          size = std::max(strategy_.size_of_cut(both.rounded), least_block());
        }
      }
    }
    return take_block(size, both);
  }

  /// A piece of a block of `size` bytes, or of as many as can be had, which is taken for it.
  [[nodiscard]] std::uint64_t take_block(bytes size, sizes both) {
    strategy_.reserve();
    block fresh = ask_for(size, both);
    try {
      settle(resource_);
      if (ledger_) ledger_->add_block(fresh.begin, fresh.size);
    } catch (...) {
      resource_.deallocate(reinterpret_cast<void*>(fresh.begin), fresh.size, options_.alignment);
      throw;
    }
    ++blocks_taken_;
    if (is_poisoned()) poison(reinterpret_cast<void*>(fresh.begin), fresh.size);
    std::uint64_t const result = strategy_.allocate_in(fresh, both);
    most_held_ = std::max(most_held_, strategy_.held());
    return result;
  }
  /// Asks for `size` bytes; then once more after giving back what is free; then for an eighth,
  /// three times, and for no more than needed.
  [[nodiscard]] block ask_for(bytes size, sizes both) {
    if (both.rounded > options_.most) return ask_once(size, both);  // refuses it
    try {
      return ask_once(size, both);
    } catch (std::exception const&) {
      if (strategy_.releasable_blocks() == 0 && size == both.rounded) throw;
    }
    release();
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
    if (both.rounded > left)
      throw out_of_memory{"pool", both.asked,
                          "it holds " + std::to_string(strategy_.held()) + " of at most " +
                              std::to_string(options_.most)};
    bytes const asked = std::min(size, left);
    return {reinterpret_cast<std::uint64_t>(resource_.allocate(asked, options_.alignment)), asked};
  }
  void give(block const& gone) noexcept {
    ++blocks_given_;
    if (ledger_) ledger_->remove_block(gone.begin, gone.size);
    if (is_poisoned()) unpoison(reinterpret_cast<void*>(gone.begin), gone.size);
    resource_.deallocate(reinterpret_cast<void*>(gone.begin), gone.size, options_.alignment);
  }

  [[nodiscard]] bool is_poisoned() const {
    if constexpr (!has_address_sanitizer) return false;
    return is_poisoned_;
  }

  void check_red_zone() {
    if (options_.red_zone == 0) return;
    if (options_.red_zone > 64_KiB)
      throw bad_argument{"pool_options: red_zone is " + std::to_string(options_.red_zone) +
                         " bytes, more than 65536"};
    if (simulated<Resource> || !place_of(resource_).is_touchable())
      throw bad_argument{"pool_options: red_zone is " + std::to_string(options_.red_zone) +
                         " bytes, in memory that the host cannot touch"};
  }
  /// By their pattern; poisoned ones need no look.
  [[nodiscard]] bool checks_red_zones() const { return options_.red_zone != 0 && !is_poisoned(); }
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

  Resource resource_;
  pool_options options_;
  Strategy strategy_;
  bytes padding_, least_piece_;  // of sizes, with the red zone
  bool is_poisoned_;
  std::optional<ledger> ledger_;
  bool asks_after_frees_ = false;
  bytes live_ = 0, most_live_ = 0, most_held_ = 0;
  bytes most_rounded_ = 0, most_rounded_before_ = 0;  // in this period of shrinking; before it
  std::uint64_t frees_of_period_ = 0;
  double rent_ = 0;
  std::uint64_t allocations_ = 0, blocks_taken_ = 0, blocks_given_ = 0, coalesces_ = 0,
                refused_ = 0, overruns_ = 0;
};

}  // namespace quarry
