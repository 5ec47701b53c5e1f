// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/errors.hpp"
#include "quarry/host/fitting.hpp"
#include "quarry/host/page_source.hpp"
#include "quarry/host/resource.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace quarry {

struct stitched_options {
  bytes alignment = 16;       ///< of all allocations: a power of two from 16 to 16 KiB
  bytes most = ~bytes{0};     ///< bytes of pages that the pool holds at most
  bytes range = 0;            ///< addresses reserved at once; 0: 256 GiB
  bool is_registered = false; ///< pages are never moved, for memory that MPI, NCCL or other processes know by its address
};

struct stitched_counts {
  bytes held = 0, most_held = 0;  // pages
  bytes live = 0, most_live = 0;  // as asked for
  bytes moved = 0;                // pages
  std::uint64_t growths = 0;      // times that nothing fitted
  std::uint64_t refused = 0;      // deallocations of what was not in use
  std::size_t pieces_live = 0;
  bytes bookkeeping = 0;
};

/// A pool whose free pages go where they are needed: when nothing fits, whole pages are cut out of free pieces and put side by side at
/// fresh addresses, with as many new ones as are missing. What is in use stays where it is, and nothing is copied.
///
/// So it holds what was in use at most, and parts of pages: 1 % more with pages of 64 KiB, 6 % with 2 MiB, on the trace of the
/// coalescing heuristics, and no coalesce. Addresses are used once: each growth takes new ones of the reserved range, of which a
/// process has 2^47. With `is_registered` it only grows, unless it is told to shrink. For device memory, the user sees to it that nothing that runs uses
/// freed memory when the pool grows.
///
/// Not thread-safe. A failed allocation leaves what users have and the counts of that as they were, though free pages may have been
/// put together.
template <page_source Pages, class Strategy = fitting<lowest_best_fit>>
class stitched_pool {
 public:
  /// Throws `bad_argument`.
  explicit stitched_pool(Pages pages, stitched_options const& options = {}) : pages_{std::move(pages)}, options_{checked(options, pages_)}, strategy_{options_.alignment} {}
  stitched_pool(stitched_pool const&) = delete;
  stitched_pool& operator=(stitched_pool const&) = delete;
  ~stitched_pool() {
    strategy_.for_each_block([&](auto const& one) { pages_.unmap(one.begin, one.size); });  // blocks are of whole pages
    for (auto const& [begin, size] : ranges_) pages_.give_up(begin, size);
  }

  /// `size` bytes, or for 0 an address of its own. Throws `out_of_memory`. As the strategy says while something fits; then O(pieces).
  [[nodiscard]] void* allocate(bytes size) {
    if (size > most_bytes_at_once) throw out_of_memory{"stitched_pool", size, "nothing has so much"};
    bytes const mask = options_.alignment - 1;
    typename Strategy::sizes const both{size, size == 0 ? options_.alignment : (size + mask) & ~mask};
    auto const found = strategy_.allocate(both);
    std::uint64_t const begin = found ? *found : grow_for(both);
    live_ += size;
    most_live_ = std::max(most_live_, live_);
    return reinterpret_cast<void*>(begin);
  }

  /// Gives back what `allocate` gave; nullptr is ignored. False, and nothing is changed but a count, if it is not in use.
  bool deallocate(void* pointer) noexcept {
    if (pointer == nullptr) return true;
    auto const gone = strategy_.deallocate(reinterpret_cast<std::uint64_t>(pointer));
    if (!gone) {
      ++refused_;
      return false;
    }
    live_ -= gone.asked;
    return true;
  }

  /// As a resource.
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    if (alignment > options_.alignment) throw bad_argument{"stitched_pool: alignment is " + std::to_string(alignment) + ", more than the pool's " + std::to_string(options_.alignment)};
    return allocate(size);
  }
  void deallocate(void* pointer, bytes, bytes) noexcept { (void)deallocate(pointer); }

  /// Gives free pages back, `most` bytes at most. How many were. Throws std::bad_alloc if there is no memory for bookkeeping.
  bytes shrink(bytes most = ~bytes{0}) {
    bytes given = 0;
    strategy_.carve(pages_.page_bytes(), most, [&](std::uint64_t begin, bytes size) {
      pages_.unmap(begin, size);
      given += size;
    });
    return given;
  }

  [[nodiscard]] std::optional<bytes> size_of(void const* pointer) const {
    auto const found = strategy_.size_of(reinterpret_cast<std::uint64_t>(pointer));
    if (!found) return std::nullopt;
    return found->asked;
  }
  [[nodiscard]] stitched_counts counts() const {
    return {strategy_.held(), most_held_, live_, most_live_, moved_, growths_, refused_, strategy_.live(), strategy_.footprint()};
  }
  [[nodiscard]] std::vector<std::string> audit() const { return strategy_.audit(); }
  [[nodiscard]] Pages& pages() { return pages_; }

 private:
  [[nodiscard]] static stitched_options checked(stitched_options options, Pages& pages) {
    if (options.alignment < 16 || options.alignment > 1 << 14 || (options.alignment & (options.alignment - 1)) != 0) {
      throw bad_argument{"stitched_options: alignment is " + std::to_string(options.alignment) + ", not a power of two from 16 to 16384"};
    }
    bytes const page = pages.page_bytes();
    if (options.alignment > page) throw bad_argument{"stitched_options: alignment is " + std::to_string(options.alignment) + ", more than a page's " + std::to_string(page)};
    options.range = ((options.range == 0 ? bytes{1} << 38 : options.range) + page - 1) & ~(page - 1);
    return options;
  }

  /// A piece of pages put side by side: free ones of the pool first, then new ones.
  [[nodiscard]] std::uint64_t grow_for(typename Strategy::sizes both) {
    bytes const page = pages_.page_bytes();
    bytes const needed = (both.rounded + page - 1) & ~(page - 1);
    if (needed > options_.most) throw out_of_memory{"stitched_pool", both.asked, "it may hold " + std::to_string(options_.most)};
    strategy_.reserve();
    std::uint64_t const begin = addresses_for(needed);
    bytes const left = options_.most - std::min(options_.most, strategy_.held());
    bytes put = 0;
    auto const keep = [&] {  // what was put together stays, as a free block
      if (put != 0) strategy_.deallocate(strategy_.allocate_in({begin, put}, {put, put}));
    };
    try {
      if (!options_.is_registered) {
        strategy_.carve(page, needed, [&](std::uint64_t from, bytes size) {
          pages_.move(from, begin + put, size);
          put += size;
          moved_ += size;
        });
      }
      if (needed - put > left) throw out_of_memory{"stitched_pool", both.asked, "it holds " + std::to_string(strategy_.held() + put) + " of at most " + std::to_string(options_.most)};
      strategy_.reserve();
      if (put < needed) pages_.map(begin + put, needed - put);
    } catch (...) {
      keep();
      next_ += put;
      throw;
    }
    next_ += needed;
    ++growths_;
    std::uint64_t const result = strategy_.allocate_in({begin, needed}, both);
    most_held_ = std::max(most_held_, strategy_.held());
    return result;
  }

  /// Where the next `size` bytes of addresses begin that were never used.
  [[nodiscard]] std::uint64_t addresses_for(bytes size) {
    if (!ranges_.empty() && size <= ranges_.back().second - (next_ - ranges_.back().first)) return next_;
    ranges_.reserve(ranges_.size() + 1);
    bytes const range = std::max(options_.range, size);
    ranges_.emplace_back(pages_.reserve(range), range);
    return next_ = ranges_.back().first;
  }

  Pages pages_;
  stitched_options options_;
  Strategy strategy_;
  std::vector<std::pair<std::uint64_t, bytes>> ranges_;
  std::uint64_t next_ = 0;
  bytes live_ = 0, most_live_ = 0, most_held_ = 0, moved_ = 0;
  std::uint64_t growths_ = 0, refused_ = 0;
};

}  // namespace quarry
