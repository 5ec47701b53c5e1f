// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/detail/make_room.hpp"
#include "quarry/host/detail/poison.hpp"
#include "quarry/host/detail/reserved_memory.hpp"
#include "quarry/host/pools/chunk_arena.hpp"
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
  bytes max_bytes = no_limit;  ///< limit on the bytes of all pages
  bytes range = 0;             ///< bytes of addresses reserved at once, at most 2^46; 0: 256 GiB
  std::string name = {};       ///< for reports
  bool is_tracked = true;  ///< the registry knows its allocations; never those of simulated pages
  /// Pages never move, for memory whose address MPI, NCCL or another process knows
  bool is_registered = false;
};

struct stitched_counts {
  bytes reserved = 0, peak_reserved = 0;    // of pages
  bytes allocated = 0, peak_allocated = 0;  // requested bytes
  bytes granted = 0;                        // of the chunks that serve them
  bytes largest_free = 0;                   // the largest free chunk
  bytes moved = 0;                          // bytes of moved pages
  std::uint64_t growths = 0;                // requests for which no free chunk sufficed
  std::uint64_t invalid_frees = 0;          // frees of addresses that were not in use
  std::size_t allocations_in_use = 0;
};

/// A pool that moves its free pages. If no free chunk fits, it cuts whole pages out of free chunks.
/// It maps these side by side at new addresses, followed by the new pages that are missing.
/// Allocations stay where they are, and nothing is copied.
///
/// So the pool reserves the peak use and parts of pages. On the three traces of
/// docs/plots/README.md (time and memory of placements) this is 1 % more than the peak with pages
/// of 64 KiB. With pages of 2 MiB it is 3 to 6 % more. The pool never coalesces. It uses each
/// address once: each growth takes new addresses of the reserved range, and a process has 2^47 of
/// them. With `is_registered` the pool only grows, until `shrink` is called. For device memory, the
/// user makes sure that no running work uses freed memory when the pool grows.
///
/// Not thread-safe. A failed allocation leaves the users' allocations and their counts unchanged,
/// but may have moved free pages.
template <page_source Pages, page_placement Placement = chunk_arena<lowest_best_fit>>
class QUARRY_POISONS stitched_pool {
 public:
  static constexpr bool is_simulated = simulated<Pages>;

  /// Throws `bad_argument`.
  explicit stitched_pool(Pages pages, stitched_options const& options = {})
      : pages_{std::move(pages)},
        options_{checked(options, pages_)},
        placement_{options_.alignment},
        memory_{"stitched_pool", options_.max_bytes} {
    if (options_.is_tracked && !simulated<Pages>)
      memory_.track(placement_.chunks(), location_of(pages_), options_.name);
  }
  stitched_pool(stitched_pool const&) = delete;
  stitched_pool& operator=(stitched_pool const&) = delete;
  ~stitched_pool() {
    // blocks are whole pages
    placement_.for_each_block([&](auto const& block) {
      forget(block.base, block.size);
      pages_.unmap(block.base, block.size);
    });
    for (extent const& block : known_) memory_.tracking()->remove_block(block.base, block.size);
    for (range const& reserved : ranges_) pages_.release(reserved.base, reserved.size);
  }

  /// Allocates `size` bytes. Size 0 returns a unique address. Throws `out_of_memory`. Has the cost
  /// of the placement while a free chunk fits, and otherwise O(chunks).
  [[nodiscard]] void* allocate(bytes size) {
    return record_allocation(allocate_chunk(sizes_for(size)), size);
  }
  /// The same at a multiple of `alignment`, a power of two. If it exceeds the alignment of the
  /// options, the free chunk must be larger by the difference. Also throws `bad_argument`.
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    bytes const room = room_to_align("stitched_pool", size, alignment, options_.alignment);
    if (room == 0) return allocate(size);
    auto const needed = sizes_for(size);
    if (size > max_bytes_at_once - room) memory_.refuse(size);
    std::uint64_t const base = allocate_chunk({size, needed.granted + room});
    return record_allocation(placement_.trim(base, needed, alignment), size);
  }

  /// Frees an allocation; ignores nullptr. Returns false, and changes nothing but the count
  /// `invalid_frees`, if `pointer` is not the base address of an allocation.
  bool deallocate(void* pointer) noexcept {
    if (pointer == nullptr) return true;
    auto const base = reinterpret_cast<std::uint64_t>(pointer);
    auto const freed = placement_.deallocate(base, [&] { memory_.tracking()->forget(base); });
    if (!freed) {
      ++invalid_frees_;
      return false;
    }
    allocated_ -= freed.requested;
    if (detail::is_poisoned(pages_)) detail::poison(pointer, freed.requested);
    return true;
  }

  /// The interface of a resource.
  bool deallocate(void* pointer, bytes, bytes) noexcept { return deallocate(pointer); }

  /// Returns free pages to their source, at most `max_bytes` bytes. The result is the number of
  /// bytes returned. Throws std::bad_alloc if there is no memory for bookkeeping.
  bytes shrink(bytes max_bytes = no_limit) {
    bytes returned = 0;
    placement_.carve(pages_.page_bytes(), max_bytes, [&](std::uint64_t base, bytes size) {
      pages_.unmap(base, size);
      forget(base, size);
      returned += size;
      memory_.remove(size);
    });
    return returned;
  }

  [[nodiscard]] std::optional<bytes> size_of(void const* pointer) const {
    auto const found = placement_.size_of(reinterpret_cast<std::uint64_t>(pointer));
    if (!found) return std::nullopt;
    return found->requested;
  }
  /// Labels an allocation for reports. False if `pointer` is not allocated, or the pool is not
  /// tracked.
  bool label(void* pointer, std::string name,
             std::source_location call_site = std::source_location::current()) {
    return memory_.label(placement_, pointer, {std::move(name), call_site});
  }
  [[nodiscard]] allocator_id id() const { return memory_.id(); }
  [[nodiscard]] memory_location location() { return location_of(pages_); }
  [[nodiscard]] stitched_counts counts() const {
    return {placement_.reserved(),
            memory_.peak(),
            allocated_,
            peak_allocated_,
            placement_.in_use(),
            placement_.largest_free(),
            moved_,
            growths_,
            invalid_frees_,
            placement_.allocated()};
  }
  /// Bytes of memory that the pool needs in addition to its blocks: its own size, resident pages of
  /// its tables, and its labels. O(pages + labels), by system calls.
  [[nodiscard]] bytes bookkeeping() const {
    return sizeof(*this) + placement_.footprint() + memory_.footprint(placement_.blocks());
  }
  [[nodiscard]] std::vector<std::string> audit() const { return placement_.audit(); }
  [[nodiscard]] Pages& pages() { return pages_; }

 private:
  using sizes = chunk_sizes;
  struct extent {
    std::uint64_t base;
    bytes size;
  };
  struct range {
    std::uint64_t base;
    bytes size, known;  // known: bytes from `base` on that the registry knows
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

  [[nodiscard]] sizes sizes_for(bytes size) const {
    return memory_.sizes_for(size, options_.alignment);
  }
  [[nodiscard]] std::uint64_t allocate_chunk(sizes needed) {
    auto const found = placement_.allocate(needed);
    return found ? *found : grow_for(needed);
  }
  [[nodiscard]] void* record_allocation(std::uint64_t base, bytes size) {
    allocated_ += size;
    peak_allocated_ = std::max(peak_allocated_, allocated_);
    if (detail::is_poisoned(pages_)) detail::unpoison(reinterpret_cast<void*>(base), size);
    return reinterpret_cast<void*>(base);
  }

  /// Allocates from pages mapped side by side: first free pages of the pool, then new pages.
  [[nodiscard]] std::uint64_t grow_for(sizes needed) {
    bytes const page = pages_.page_bytes();
    bytes const mapped_bytes = (needed.granted + page - 1) & ~(page - 1);
    if (!memory_.may_reserve(mapped_bytes)) (void)memory_.left(mapped_bytes, needed.requested);
    placement_.reserve();
    std::uint64_t const base = addresses_for(mapped_bytes);
    bytes mapped = 0;
    auto const keep_moved = [&] {  // the pages moved so far become a free block
      if (mapped != 0)
        placement_.deallocate(placement_.allocate_in({base, mapped}, {mapped, mapped}));
    };
    try {
      if (!options_.is_registered) {
        placement_.carve(page, mapped_bytes, [&](std::uint64_t start, bytes size) {
          pages_.move(start, base + mapped, size);
          forget(start, size);
          if (detail::is_poisoned(pages_))
            detail::poison(reinterpret_cast<void*>(base + mapped), size);
          mapped += size;
          moved_ += size;
        });
      }
      (void)memory_.left(mapped_bytes - mapped, needed.requested);
      placement_.reserve();
      if (mapped < mapped_bytes) {
        pages_.map(base + mapped, mapped_bytes - mapped);
        memory_.add(mapped_bytes - mapped);
        if (detail::is_poisoned(pages_))
          detail::poison(reinterpret_cast<void*>(base + mapped), mapped_bytes - mapped);
      }
    } catch (...) {
      keep_moved();
      next_ += mapped;
      throw;
    }
    next_ += mapped_bytes;
    ++growths_;
    return placement_.allocate_in({base, mapped_bytes}, needed);
  }

  /// Unpoisons addresses that leave the pool.
  void forget(std::uint64_t base, bytes size) noexcept {
    if (detail::is_poisoned(pages_)) detail::unpoison(reinterpret_cast<void*>(base), size);
  }

  /// The address of the next `size` bytes of the range, which were never used.
  [[nodiscard]] std::uint64_t addresses_for(bytes size) {
    if (ranges_.empty() || size > ranges_.back().size - (next_ - ranges_.back().base)) {
      detail::make_room(ranges_, ranges_.size() + 1);
      bytes const whole = std::max(options_.range, size);
      ranges_.push_back({pages_.reserve(whole), whole, 0});
      next_ = ranges_.back().base;
    }
    make_known(ranges_.back(), next_, next_ + size);
    return next_;
  }
  /// Tells the registry of the addresses from `base` to `end`, in whole map pages. Each address is
  /// used once and stays known. Does nothing for more bytes than the registry accepts.
  void make_known(range& last, std::uint64_t base, std::uint64_t end) {
    if (memory_.tracking() == nullptr || end - base > detail::page_map::max_block_bytes) return;
    constexpr bytes map_page = detail::page_map::map_page;
    std::uint64_t const known_end =
        std::min(last.base + last.size, (end + map_page - 1) / map_page * map_page);
    // the skipped addresses belong to an allocation that was too large to register
    std::uint64_t start = std::max(last.base + last.known, base / map_page * map_page);
    while (start < known_end) {
      bytes const part = std::min(known_end - start, detail::page_map::max_block_bytes);
      bool const extends_block = !known_.empty() &&
                                 known_.back().base + known_.back().size == start &&
                                 known_.back().size + part <= detail::page_map::max_block_bytes;
      if (!extends_block) detail::make_room(known_, known_.size() + 1);
      memory_.tracking()->add_block(start, part);
      if (extends_block) {
        known_.back().size += part;
      } else {
        known_.push_back({start, part});
      }
      start += part;
      last.known = start - last.base;
    }
  }

  Pages pages_;
  stitched_options options_;
  Placement placement_;
  detail::reserved_memory memory_;  // is destroyed before the placement
  std::vector<range> ranges_;
  std::vector<extent> known_;  // blocks that the registry knows
  std::uint64_t next_ = 0;
  bytes allocated_ = 0, peak_allocated_ = 0, moved_ = 0;
  std::uint64_t growths_ = 0, invalid_frees_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI
