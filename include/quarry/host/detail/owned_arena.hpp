// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/pools/chunk_arena.hpp"

#include <memory>
#include <utility>

namespace quarry::inline QUARRY_ABI::detail {

/// A chunk_arena, with quick lists, whose free chunks belong to owners (streams). An owner reuses
/// its own freed chunks without synchronising. `share` makes them available to all owners, which
/// must synchronise first (stream_owners).
///
/// Owner 0 owns the common chunks. Each owner has segregated lists and two sets of quick lists. The
/// first has the chunks that the owner freed since it was last covered (`cover`); `share` leaves
/// them with the owner. The second has the chunks that the owner freed before that.
class owned_arena : public chunk_arena<segregated_fit, many_owners> {
  using core = chunk_arena<segregated_fit, many_owners>;

 public:
  static constexpr bool caches = true;

  explicit owned_arena(bytes alignment = 16) : core{alignment, true} { add_cache(); }

  /// Adds an owner and returns its number; nullopt if there are 8192. Throws std::bad_alloc.
  [[nodiscard]] std::optional<owner_id> add_owner() {
    if (cached_.size() == chunk_table::owners) return std::nullopt;
    add_cache();
    try {
      free_.add();
    } catch (...) {
      cached_.pop_back();
      throw;
    }
    return static_cast<owner_id>(cached_.size() - 1);
  }

  /// Allocates a chunk of the owner's free memory and returns its address; nullopt if no chunk
  /// fits. Throws std::bad_alloc if there is no memory for bookkeeping. O(1).
  [[nodiscard]] std::optional<std::uint64_t> allocate(sizes size, owner_id owner) {
    if (auto const base = allocate_from_cached(size, owner)) return base;
    return allocate_from_free(size, owner);
  }
  /// The same from the owner's quick lists only. If the caller will `trim` the chunk, allocates no
  /// chunk that was freed since the owner was last covered, because the chunk's remainders could be
  /// shared.
  [[nodiscard]] std::optional<std::uint64_t> allocate_from_cached(sizes size, owner_id owner,
                                                                  bool will_be_trimmed = false) {
    cache_lists& lists = *cached_[owner];
    if (!will_be_trimmed) {
      if (auto const base = allocate_from(*lists.recent, size)) return base;
    }
    return allocate_from(*lists.covered, size);
  }
  /// The same from the chunks that are in no quick list: from those of the owner or the common
  /// chunks, whichever fit tighter. Throws std::bad_alloc.
  [[nodiscard]] std::optional<std::uint64_t> allocate_tightest(sizes size, owner_id owner) {
    reserve();
    chunk_id const own = free_[owner].find(chunks_, size.granted);
    chunk_id const common = free_[many_owners::common].find(chunks_, size.granted);
    if (common != no_chunk && (own == no_chunk || chunks_[common].size() < chunks_[own].size()))
      return cut_found(common, size, many_owners::common);
    if (own == no_chunk) return std::nullopt;
    return cut_found(own, size, owner);
  }

  /// Covers the chunks that the owner freed until now: from now on `share` takes them. Merges the
  /// chunks that the previous call covered and that no request took again. O(merged chunks).
  void cover(owner_id owner) {
    cache_lists& lists = *cached_[owner];
    if (lists.recent->count() == 0) return;
    merge_cached(owner);
    std::swap(lists.recent, lists.covered);
  }
  /// Whether the owner still has a chunk that it freed since it was last covered.
  [[nodiscard]] bool has_recent(owner_id owner) const {
    return cached_[owner]->recent->count() != 0;
  }
  /// Merges the chunks that the owner cached before it was last covered. Returns true if there were
  /// such chunks: then a larger request may fit.
  bool merge_cached(owner_id owner) {
    quick_lists& covered = *cached_[owner]->covered;
    if (covered.count() == 0) return false;
    free_cached(covered, owner);
    return true;
  }
  /// Makes the owner's free chunks common, except the chunks that it freed since it was last
  /// covered. O(the owner's chunks).
  void share(owner_id owner) {
    merge_cached(owner);
    segregated_fit const& lists = free_[owner];
    for (chunk_id id = lists.any(); id != no_chunk; id = lists.any()) {
      remove_free(id);
      insert_merged(id, many_owners::common);
    }
  }
  /// Whether the owner has any free chunk.
  [[nodiscard]] bool has_any(owner_id owner) const {
    cache_lists const& lists = *cached_[owner];
    return lists.recent->count() + lists.covered->count() != 0 || free_[owner].any() != no_chunk;
  }

  template <std::invocable OnLabelled>
  sizes deallocate(std::uint64_t base, OnLabelled const& on_labelled, owner_id owner) {
    auto const found = find_allocated(base);
    if (found.id == no_chunk) return {};
    chunk& chunk = chunks_[found.id];
    if (chunk.is_labelled()) [[unlikely]]
      on_labelled();
    chunk.set_owner(owner);
    return cache(*cached_[owner]->recent, chunk, found, chunk.get());
  }
  sizes deallocate(std::uint64_t base, owner_id owner) {
    return deallocate(base, [] {}, owner);
  }

  template <class ReturnBlock>
  void release(ReturnBlock const& return_block, bytes min_reserved = 0) {
    core::release(return_block, min_reserved, [this] {
      cover(many_owners::common);
      merge_cached(many_owners::common);
    });
  }

  [[nodiscard]] std::size_t allocated() const { return core::allocated() - cached_count(); }
  [[nodiscard]] bytes footprint() const {
    return core::footprint() + cached_.size() * sizeof(cache_lists);
  }
  [[nodiscard]] std::vector<std::string> audit() const { return core::audit(cached_count()); }

 private:
  struct cache_lists {
    explicit cache_lists(std::uint32_t unit_shift)
        : lists{quick_lists{unit_shift}, quick_lists{unit_shift}} {}
    cache_lists(cache_lists&&) = delete;
    quick_lists lists[2];
    // of chunks freed since the owner was last covered, and before that
    quick_lists *recent = &lists[0], *covered = &lists[1];
  };

  // Not inlined: both quick lists share the code.
  [[nodiscard, gnu::noinline]] std::optional<std::uint64_t> allocate_from(quick_lists& cached,
                                                                          sizes size) {
    return reuse(cached, size);
  }
  void add_cache() { cached_.push_back(std::make_unique<cache_lists>(unit_shift())); }
  [[nodiscard]] std::size_t cached_count() const {
    std::size_t sum = 0;
    for (auto const& lists : cached_) sum += lists->covered->count() + lists->recent->count();
    return sum;
  }

  std::vector<std::unique_ptr<cache_lists>> cached_;
};

}  // namespace quarry::inline QUARRY_ABI::detail
