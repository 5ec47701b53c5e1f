// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/pools/fitting.hpp"
#include "quarry/host/pools/poison.hpp"
#include "quarry/host/registry/registry.hpp"
#include "quarry/host/resources/make_room.hpp"
#include "quarry/host/resources/resource.hpp"
#include "quarry/platform/page_source.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI {

struct stitched_options {
  bytes alignment = 16;        ///< of all allocations: a power of two from 16 to 16 KiB
  bytes max_bytes = no_limit;  ///< bytes of pages that the pool holds at most
  bytes range = 0;             ///< addresses reserved at once, 2^46 bytes at most; 0: 256 GiB
  std::string name = {};       ///< for reports
  bool is_tracked = true;      ///< the registry knows its allocations; never of simulated pages
  /// Pages are never moved, for memory that MPI, NCCL or other processes know by its address
  bool is_registered = false;
};

struct stitched_counts {
  bytes reserved = 0, peak_reserved = 0;    // pages
  bytes allocated = 0, peak_allocated = 0;  // as asked for
  bytes moved = 0;                          // pages
  std::uint64_t growths = 0;                // times that nothing fitted
  std::uint64_t invalid_frees = 0;          // deallocations of what was not in use
  std::size_t chunks_allocated = 0;
};

/// A pool whose free pages go where they are needed: when nothing fits, whole pages are cut out of
/// free chunks and put side by side at fresh addresses, with as many new ones as are missing. What
/// is in use stays where it is, and nothing is copied.
///
/// So it holds what was in use at most, and parts of pages: 1 % more with pages of 64 KiB, 6 % with
/// 2 MiB, on the trace of the coalescing heuristics, and no coalesce. Addresses are used once: each
/// growth takes new ones of the reserved range, of which a process has 2^47. With `is_registered`
/// it only grows, unless it is told to shrink. For device memory, the user sees to it that nothing
/// that runs uses freed memory when the pool grows.
///
/// Not thread-safe. A failed allocation leaves what users have and the counts of that as they were,
/// though free pages may have been put together.
template <page_source Pages, class Strategy = fitting<lowest_best_fit>>
class QUARRY_POISONS stitched_pool {
 public:
  static constexpr bool is_simulated = simulated<Pages>;

  /// Throws `bad_argument`.
  explicit stitched_pool(Pages pages, stitched_options const& options = {})
      : pages_{std::move(pages)},
        options_{checked(options, pages_)},
        strategy_{options_.alignment} {
    if (options_.is_tracked && !simulated<Pages>)
      registration_.emplace(strategy_.chunks(), location_of(pages_), options_.name);
  }
  stitched_pool(stitched_pool const&) = delete;
  stitched_pool& operator=(stitched_pool const&) = delete;
  ~stitched_pool() {
    // blocks are of whole pages
    strategy_.for_each_block([&](auto const& one) {
      forget(one.base, one.size);
      pages_.unmap(one.base, one.size);
    });
    for (extent const& each : known_) registration_->remove_block(each.base, each.size);
    for (range const& each : ranges_) pages_.release(each.base, each.size);
  }

  /// `size` bytes, or for 0 an address of its own. Throws `out_of_memory`. As the strategy says
  /// while something fits; then O(chunks).
  [[nodiscard]] void* allocate(bytes size) {
    return counted(allocate_chunk(sizes_for(size)), size);
  }
  /// At a multiple of `alignment`, a power of two, which may be more than the options say: then as
  /// much more must be free in one chunk. Throws `bad_argument` too.
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    bytes const room = room_to_align("stitched_pool", size, alignment, options_.alignment);
    if (room == 0) return allocate(size);
    auto const both = sizes_for(size);
    if (size > max_bytes_at_once - room) refuse(size);
    std::uint64_t const base = allocate_chunk({size, both.granted + room});
    try {
      strategy_.reserve();
    } catch (...) {
      (void)strategy_.deallocate(base);
      throw;
    }
    return counted(strategy_.trim(base, both, alignment), size);
  }

  /// Frees what `allocate` gave; nullptr is ignored. False, and nothing is changed but a
  /// count, if it is not in use.
  bool deallocate(void* pointer) noexcept {
    if (pointer == nullptr) return true;
    auto const base = reinterpret_cast<std::uint64_t>(pointer);
    auto const gone = strategy_.deallocate(base, [&] { registration_->forget(base); });
    if (!gone) {
      ++invalid_frees_;
      return false;
    }
    allocated_ -= gone.requested;
    if (is_poisoned(pages_)) poison(pointer, gone.requested);
    return true;
  }

  /// As a resource.
  void deallocate(void* pointer, bytes, bytes) noexcept { (void)deallocate(pointer); }

  /// Returns free pages to the source, `max_bytes` at most; gives how many bytes. Throws
  /// std::bad_alloc if there is no memory for bookkeeping.
  bytes shrink(bytes max_bytes = no_limit) {
    bytes given = 0;
    strategy_.carve(pages_.page_bytes(), max_bytes, [&](std::uint64_t base, bytes size) {
      pages_.unmap(base, size);
      forget(base, size);
      given += size;
    });
    return given;
  }

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
  [[nodiscard]] memory_location location() { return location_of(pages_); }
  [[nodiscard]] stitched_counts counts() const {
    return {
        strategy_.reserved(), peak_reserved_,       allocated_, peak_allocated_, moved_, growths_,
        invalid_frees_,       strategy_.allocated()};
  }
  /// Bytes of memory that the pool takes beside its blocks: its own size, pages of tables that are
  /// resident, and its labels. O(pages + labels), by calls of the system.
  [[nodiscard]] bytes bookkeeping() const {
    return sizeof(*this) + strategy_.footprint() - sizeof(strategy_) +
           (registration_ ? registration_->footprint(strategy_.reserved(), strategy_.blocks()) : 0);
  }
  [[nodiscard]] std::vector<std::string> audit() const { return strategy_.audit(); }
  [[nodiscard]] Pages& pages() { return pages_; }

 private:
  using sizes = typename Strategy::sizes;
  struct extent {
    std::uint64_t base;
    bytes size;
  };
  struct range {
    std::uint64_t base;
    bytes size, known;  // known: up to where the registry was told of it
  };

  [[nodiscard]] static stitched_options checked(stitched_options options, Pages& pages) {
    check_alignment("stitched_options", options.alignment);
    bytes const page = pages.page_bytes();
    if (options.alignment > page)
      throw bad_argument{"stitched_options: alignment is " + std::to_string(options.alignment) +
                         ", more than a page's " + std::to_string(page)};
    if (options.range > max_bytes_at_once)
      throw bad_argument{"stitched_options: range is " + std::to_string(options.range) +
                         " bytes, more than 2^46"};
    options.range =
        ((options.range == 0 ? bytes{1} << 38 : options.range) + page - 1) & ~(page - 1);
    return options;
  }

  [[noreturn, gnu::noinline]] static void refuse(bytes size) {
    throw out_of_memory{"stitched_pool", size, "nothing has so much"};
  }
  [[nodiscard]] sizes sizes_for(bytes size) const {
    if (size > max_bytes_at_once) refuse(size);
    bytes const mask = options_.alignment - 1;
    return {size, size == 0 ? options_.alignment : (size + mask) & ~mask};
  }
  [[nodiscard]] std::uint64_t allocate_chunk(sizes both) {
    auto const found = strategy_.allocate(both);
    return found ? *found : grow_for(both);
  }
  [[nodiscard]] void* counted(std::uint64_t base, bytes size) {
    allocated_ += size;
    peak_allocated_ = std::max(peak_allocated_, allocated_);
    if (is_poisoned(pages_)) unpoison(reinterpret_cast<void*>(base), size);
    return reinterpret_cast<void*>(base);
  }

  /// A chunk of pages put side by side: free ones of the pool first, then new ones.
  [[nodiscard]] std::uint64_t grow_for(sizes both) {
    bytes const page = pages_.page_bytes();
    bytes const needed = (both.granted + page - 1) & ~(page - 1);
    if (needed > options_.max_bytes)
      throw out_of_memory{"stitched_pool", both.requested,
                          "it may hold " + std::to_string(options_.max_bytes)};
    strategy_.reserve();
    std::uint64_t const base = addresses_for(needed);
    bytes const left = options_.max_bytes - std::min(options_.max_bytes, strategy_.reserved());
    bytes put = 0;
    auto const keep = [&] {  // what was put together stays, as a free block
      if (put != 0) strategy_.deallocate(strategy_.allocate_in({base, put}, {put, put}));
    };
    try {
      if (!options_.is_registered) {
        strategy_.carve(page, needed, [&](std::uint64_t from, bytes size) {
          pages_.move(from, base + put, size);
          forget(from, size);
          if (is_poisoned(pages_)) poison(reinterpret_cast<void*>(base + put), size);
          put += size;
          moved_ += size;
        });
      }
      if (needed - put > left)
        throw out_of_memory{"stitched_pool", both.requested,
                            "it holds " + std::to_string(strategy_.reserved() + put) +
                                " of at most " + std::to_string(options_.max_bytes)};
      strategy_.reserve();
      if (put < needed) {
        pages_.map(base + put, needed - put);
        if (is_poisoned(pages_)) poison(reinterpret_cast<void*>(base + put), needed - put);
      }
    } catch (...) {
      keep();
      next_ += put;
      throw;
    }
    next_ += needed;
    ++growths_;
    std::uint64_t const result = strategy_.allocate_in({base, needed}, both);
    peak_reserved_ = std::max(peak_reserved_, strategy_.reserved());
    return result;
  }

  /// Addresses that are the pool's no more are poisoned no more.
  void forget(std::uint64_t base, bytes size) noexcept {
    if (is_poisoned(pages_)) unpoison(reinterpret_cast<void*>(base), size);
  }

  /// Where the next `size` bytes of addresses begin that were never used.
  [[nodiscard]] std::uint64_t addresses_for(bytes size) {
    if (ranges_.empty() || size > ranges_.back().size - (next_ - ranges_.back().base)) {
      make_room(ranges_, ranges_.size() + 1);
      bytes const whole = std::max(options_.range, size);
      ranges_.push_back({pages_.reserve(whole), whole, 0});
      next_ = ranges_.back().base;
    }
    make_known(ranges_.back(), next_, next_ + size);
    return next_;
  }
  /// Tells the registry of the range's addresses from `base` to `end`, by whole map pages: they
  /// are used once, and stay known. Not of so many that the registry does not take them.
  void make_known(range& last, std::uint64_t base, std::uint64_t end) {
    if (!registration_ || end - base > page_map::most_of_block) return;
    constexpr bytes map_page = page_map::map_page;
    std::uint64_t const known_end =
        std::min(last.base + last.size, (end + map_page - 1) / map_page * map_page);
    // what lies between was too large
    std::uint64_t from = std::max(last.base + last.known, base / map_page * map_page);
    while (from < known_end) {
      bytes const part = std::min(known_end - from, page_map::most_of_block);
      bool const goes_on = !known_.empty() && known_.back().base + known_.back().size == from &&
                           known_.back().size + part <= page_map::most_of_block;
      if (!goes_on) make_room(known_, known_.size() + 1);
      registration_->add_block(from, part);
      if (goes_on) {
        known_.back().size += part;
      } else {
        known_.push_back({from, part});
      }
      from += part;
      last.known = from - last.base;
    }
  }

  Pages pages_;
  stitched_options options_;
  Strategy strategy_;
  std::optional<registration> registration_;
  std::vector<range> ranges_;
  std::vector<extent> known_;  // what the registry was told of
  std::uint64_t next_ = 0;
  bytes allocated_ = 0, peak_allocated_ = 0, peak_reserved_ = 0, moved_ = 0;
  std::uint64_t growths_ = 0, invalid_frees_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI
