// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/detail/chunk_owners.hpp"
#include "quarry/host/detail/quick_lists.hpp"
#include "quarry/host/pools/free_chunks.hpp"
#include "quarry/host/pools/placement.hpp"

#include <algorithm>
#include <bit>
#include <concepts>
#include <optional>
#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// Cuts blocks into chunks: `Index` picks the free chunk for a request, the remainder is split off,
/// and free neighbours of one owner are merged.
///
/// `Owners` is one_owner or many_owners. Functions with a parameter `owner` use the free chunks of
/// that owner; the default is the only owner, or the owner of the common chunks.
///
/// Works with addresses and never touches memory, so a live pool, a replay and a fuzzer run the
/// same code. Not thread-safe, like its pool. Sizes are multiples of the pool's alignment.
/// Invariants, checked by `audit`: those of chunk_table, with (2) for neighbours of one owner; (4)
/// each owner's index has exactly the owner's free chunks; (5) the counts of bytes and of
/// releasable blocks are right.
///
/// caching_arena and owned_arena add quick lists. They are arenas with a few functions replaced,
/// and are not used through a reference to this class.
template <class Index, class Owners = detail::one_owner>
class chunk_arena {
 public:
  using chunk_id = detail::chunk_id;
  using chunk_table = detail::chunk_table;
  static constexpr chunk_id no_chunk = detail::no_chunk;
  using owner_id = typename Owners::id;
  using sizes = chunk_sizes;
  using block = upstream_block;

  /// `alignment`: a power of two; all sizes are multiples of it.
  explicit chunk_arena(bytes alignment = 16) : chunk_arena{alignment, false} {}

  /// @name Quick lists, for pools: an arena without them never finds a cached chunk.
  /// @{
  static constexpr bool caches = false;
  void disable_caching() {}
  [[nodiscard]] std::optional<std::uint64_t> allocate_from_cached(sizes, bytes = 1) {
    return std::nullopt;
  }
  [[nodiscard]] std::optional<bytes> deallocate_to_cache(std::uint64_t) { return std::nullopt; }
  /// @}

  /// The address of a chunk of `size.granted` bytes; nullopt if no free chunk fits, so that a block
  /// is needed. Throws std::bad_alloc if there is no memory for bookkeeping.
  [[nodiscard]] std::optional<std::uint64_t> allocate(sizes size, owner_id owner = {}) {
    return allocate_from_free(size, owner);
  }
  [[nodiscard]] std::optional<std::uint64_t> allocate_from_free(sizes size, owner_id owner = {}) {
    reserve();
    chunk_id const id = free_[owner].find(chunks_, size.granted);
    if (id == no_chunk) return std::nullopt;
    return allocate_found(id, size, owner);
  }

  /// The same from a block in which nothing is allocated; an index may have missed that block.
  /// Requires room (`reserve`). O(blocks).
  [[nodiscard]] std::optional<std::uint64_t> allocate_from_empty_block(sizes size) {
    for (chunk_id const id : blocks_) {
      if (!is_releasable(id) || chunks_[id].size() < size.granted) continue;
      return allocate_found(id, size, {});
    }
    return std::nullopt;
  }

  /// Allocates a chunk of exactly `size` bytes at a multiple of `alignment`, cut from a free chunk;
  /// nullopt if no free chunk fits. `alignment` exceeds `minimum`, the alignment of all chunks.
  /// Lookups do not take the chunk for an allocation (detail::chunk::no_request). Throws
  /// std::bad_alloc.
  [[nodiscard]] std::optional<std::uint64_t> allocate_for_slices(bytes size, bytes alignment,
                                                                 bytes minimum) {
    reserve();
    chunk_id const id = free_[{}].find(chunks_, size + alignment - minimum);
    if (id == no_chunk) return std::nullopt;
    remove_free(id);
    std::uint64_t const base =
        allocate_chunk(id, {detail::chunk::no_request, size + alignment - minimum}, {});
    return trim(base, {detail::chunk::no_request, size}, alignment);
  }

  /// Shrinks an allocated chunk to `size`, from the first multiple of `alignment` on, and returns
  /// the new address. The chunk must be large enough for that, have no label, and have been
  /// allocated for `owner`, which gets the remainders. If it throws std::bad_alloc, the chunk is
  /// free.
  [[nodiscard]] std::uint64_t trim(std::uint64_t base, sizes size, bytes alignment,
                                   owner_id owner = {}) {
    try {
      reserve();
    } catch (...) {
      (void)deallocate(base, owner);
      throw;
    }
    auto const found = chunks_.find(base);
    chunk_id id = found.id;
    in_use_ -= chunks_[id].size();
    chunks_.set_free(found);
    bytes const front_bytes = ((base + alignment - 1) & ~(alignment - 1)) - base;
    chunk_id const front = id;
    if (front_bytes != 0) id = chunks_.split(front, front_bytes);
    bytes const cut = size_of_cut(size.granted);
    chunk_id const back = chunks_[id].size() > cut ? chunks_.split(id, cut) : no_chunk;
    chunks_.set_in_use(id, size.requested);
    in_use_ += chunks_[id].size();
    if (front_bytes != 0) insert_merged(front, owner);
    if (back != no_chunk) insert_merged(back, owner);
    return chunks_[id].base;
  }

  /// The size of the chunk that is cut for `granted` bytes where there is room. With quick lists it
  /// may be larger, so that the quick lists find the chunk again for the same request.
  [[nodiscard]] bytes size_of_cut(bytes granted) const {
    return cuts_whole_ ? detail::quick_lists::whole(granted, unit_shift_) : granted;
  }

  /// Adds a block that is large enough, and allocates a chunk of it; `owner` gets the remainder.
  /// Requires room (`reserve`).
  [[nodiscard]] std::uint64_t allocate_in(block const& fresh, sizes size, owner_id owner = {}) {
    return allocate_chunk(add_block(fresh), size, owner);
  }
  /// Makes room for three blocks and for an allocation. If it throws std::bad_alloc, nothing has
  /// changed.
  void reserve() {
    chunks_.reserve();
    // allocated chunks may become free, and so may a new block's remainder
    free_.reserve(chunks_.in_use() + 4);
    if (blocks_.size() + 3 > blocks_.capacity()) blocks_.reserve(blocks_.size() * 2 + 8);
  }

  /// Frees an allocation and gives its chunk to `owner`. Returns the sizes of the allocation.
  /// Returns empty sizes and changes nothing if `base` is not the base address of an allocation.
  /// Calls `on_labelled()` if the allocation had a label.
  template <std::invocable OnLabelled>
  sizes deallocate(std::uint64_t base, OnLabelled const& on_labelled, owner_id owner = {}) {
    auto const found = find_allocated(base);
    if (found.id == no_chunk) return {};
    if (chunks_[found.id].is_labelled()) on_labelled();
    sizes const size = sizes_of(found.id);
    in_use_ -= size.granted;
    free_now(found, owner);
    return size;
  }
  sizes deallocate(std::uint64_t base, owner_id owner = {}) {
    return deallocate(base, [] {}, owner);
  }

  /// Removes blocks that are one free common chunk, oldest first, as long as at least
  /// `min_reserved` bytes remain reserved. Calls `return_block(block)` for each removed block; the
  /// callback may call this arena. Calls `prepare()` before it looks for blocks.
  template <class ReturnBlock, class Prepare>
  void release(ReturnBlock const& return_block, bytes min_reserved, Prepare const& prepare) {
    constexpr std::size_t max_at_once = 64;
    block removed[max_at_once];
    std::size_t count = 0;
    do {
      prepare();
      count = 0;
      std::erase_if(blocks_, [&](chunk_id id) {
        if (count == max_at_once || !can_release(id, min_reserved)) return false;
        removed[count++] = {chunks_[id].base, chunks_[id].size()};
        reserved_ -= chunks_[id].size();
        remove_free(id);
        chunks_.remove(id);
        return true;
      });
      for (std::size_t i = 0; i < count; ++i) return_block(removed[i]);
    } while (count == max_at_once);
  }
  template <class ReturnBlock>
  void release(ReturnBlock const& return_block, bytes min_reserved = 0) {
    release(return_block, min_reserved, [] {});
  }

  /// Whether `release` would remove a block now. O(blocks).
  [[nodiscard]] bool can_release(bytes min_reserved) const {
    return std::any_of(blocks_.begin(), blocks_.end(),
                       [&](chunk_id id) { return can_release(id, min_reserved); });
  }

  /// Cuts whole pages of `page` bytes out of free chunks, at most `maximum` bytes. Calls
  /// `visit(base, size)` for every range removed. The range leaves the arena; the remainders on
  /// either side become blocks of their own. If `visit` throws, the range stays in the arena.
  /// Throws std::bad_alloc. O(chunks).
  template <class Visit>
  void carve(bytes page, bytes maximum, Visit const& visit) {
    maximum &= ~(page - 1);
    struct tidy {
      std::vector<chunk_id>& blocks;
      ~tidy() { std::erase(blocks, no_chunk); }
    } const cleanup{blocks_};
    for (std::size_t i = 0; i < blocks_.size() && maximum != 0; ++i) {
      for (chunk_id id = blocks_[i]; id != no_chunk; id = chunks_[id].next) {
        if (!chunks_[id].is_free()) continue;
        std::uint64_t const base = (chunks_[id].base + page - 1) & ~(page - 1);
        std::uint64_t const end = (chunks_[id].base + chunks_[id].size()) & ~(page - 1);
        if (end <= base) continue;
        reserve();
        bytes const size = std::min(end - base, maximum);
        owner_id const owner = Owners::owner_of(chunks_[id]);
        cut_out(i, id, base, size);
        try {
          visit(base, size);
        } catch (...) {
          insert_free(add_block({base, size}), owner);
          throw;
        }
        maximum -= size;
        break;  // the remainder behind the range is a new block, which the loop reaches later
      }
    }
  }

  /// Bytes of all blocks.
  [[nodiscard]] bytes reserved() const { return reserved_; }
  /// Bytes of the allocated chunks.
  [[nodiscard]] bytes in_use() const { return in_use_; }
  [[nodiscard]] std::size_t blocks() const { return blocks_.size(); }
  /// Bytes and number of the blocks that are free as a whole; number of free chunks. For
  /// heuristics; with many_owners they stay 0.
  [[nodiscard]] bytes releasable() const { return releasable_; }
  [[nodiscard]] std::uint32_t releasable_blocks() const { return releasable_blocks_; }
  [[nodiscard]] std::size_t free_chunks() const { return free_chunks_; }
  /// The number of allocations in use.
  [[nodiscard]] std::size_t allocated() const { return chunks_.in_use(); }
  [[nodiscard]] bytes largest_free() const { return free_[{}].largest(chunks_); }
  /// Bytes of memory for bookkeeping beside this object.
  [[nodiscard]] bytes footprint() const {
    return chunks_.footprint() + free_.footprint() + blocks_.capacity() * sizeof(chunk_id);
  }

  /// The sizes of the allocation at `base`; nullopt if there is none.
  [[nodiscard]] std::optional<sizes> size_of(std::uint64_t base) const {
    chunk_id const id = find_allocated(base).id;
    if (id == no_chunk) return std::nullopt;
    return sizes_of(id);
  }
  /// Marks an allocation as labelled until it is freed. False if there is none at `base`.
  bool set_labelled(std::uint64_t base) {
    auto const found = find_allocated(base);
    if (found.id == no_chunk) return false;
    chunks_.set_labelled(found);
    return true;
  }
  /// For the pool's registration.
  [[nodiscard]] chunk_table& chunks() { return chunks_; }

  /// Calls `visit(block)` for each block.
  template <class Visit>
  void for_each_block(Visit const& visit) const {
    for (chunk_id const first : blocks_) {
      bytes size = 0;
      for (chunk_id id = first; id != no_chunk; id = chunks_[id].next) size += chunks_[id].size();
      visit(block{chunks_[first].base, size});
    }
  }

  /// Calls `visit(base, size, is_free)` for each chunk of each block in order. Cached chunks are
  /// free.
  template <class Visit>
  void for_each(Visit const& visit) const {
    for (chunk_id const first : blocks_) {
      for (chunk_id id = first; id != no_chunk; id = chunks_[id].next)
        visit(chunks_[id].base, chunks_[id].size(),
              chunks_[id].is_free() || chunks_[id].is_cached());
    }
  }

  /// Describes each violated invariant; empty if there is none.
  [[nodiscard]] std::vector<std::string> audit() const { return audit(0); }

 protected:
  /// `cuts_whole`: chunks are cut for quick lists.
  chunk_arena(bytes alignment, bool cuts_whole)
      : unit_shift_{static_cast<std::uint32_t>(std::countr_zero(alignment))},
        cuts_whole_{cuts_whole} {}

  [[nodiscard]] std::uint32_t unit_shift() const { return unit_shift_; }
  void cut_exactly() { cuts_whole_ = false; }

  /// Allocates a chunk of a quick list, at a multiple of `alignment`; nullopt if the list has no
  /// such chunk. Always inlined, since most allocations need no other step.
  [[nodiscard, gnu::always_inline]] std::optional<std::uint64_t> allocate_cached(
      detail::quick_lists& cached, sizes size, bytes alignment = 1) {
    chunk_id const id = cached.pop(chunks_, size.granted, alignment);
    if (id == no_chunk) return std::nullopt;
    auto const reused = chunks_.set_in_use_again(id, size.requested);
    in_use_ += reused.size;
    return reused.base;
  }
  /// Frees an allocated chunk and keeps it whole in a quick list. `state` is the present state of
  /// the chunk.
  sizes cache(detail::quick_lists& cached, detail::chunk& chunk, chunk_table::found found,
              detail::chunk::state state) {
    sizes const size{chunk.requested(), state.size()};
    in_use_ -= size.granted;
    chunks_.set_cached(found, state);
    cached.put(chunk, found.id, size.granted);
    return size;
  }
  /// Merges all chunks of the quick lists. O(chunks in the lists).
  void free_cached(detail::quick_lists& cached, owner_id owner) {
    cached.pop_all(chunks_, [&](chunk_id id) { free_now(chunks_.find(chunks_[id].base), owner); });
  }
  /// Allocates the first part of a chunk that is in the index of `owner`. Requires room
  /// (`reserve`).
  [[nodiscard]] std::uint64_t allocate_found(chunk_id id, sizes size, owner_id owner) {
    remove_free(id);
    return allocate_chunk(id, size, owner);
  }
  void free_now(chunk_table::found found, owner_id owner) {
    chunks_.set_free(found);
    insert_merged(found.id, owner);
  }
  /// Inserts a free chunk, which no index has, merged with the owner's free neighbours.
  void insert_merged(chunk_id id, owner_id owner) {
    auto const can_merge = [&](chunk_id neighbour) {
      return neighbour != no_chunk && chunks_[neighbour].is_free() &&
             Owners::is_owner(chunks_[neighbour], owner);
    };
    chunk_id const prev = chunks_[id].prev;
    chunk_id const next = chunks_[id].next;
    if (can_merge(next)) {
      remove_free(next);
      chunks_.merge_with_next(id);
    }
    if (can_merge(prev)) {
      remove_free(prev);
      chunks_.merge_with_next(prev);
      id = prev;
    }
    insert_free(id, owner);
  }
  void remove_free(chunk_id id) {
    free_[Owners::owner_of(chunks_[id])].remove(chunks_, id);
    if (!Owners::counts_releasable) return;
    --free_chunks_;
    if (!chunks_.is_whole_block(id)) return;
    --releasable_blocks_;
    releasable_ -= chunks_[id].size();
  }

  /// The allocation at `base`; `id` is `no_chunk` if there is none.
  [[nodiscard]] chunk_table::found find_allocated(std::uint64_t base) const {
    auto const found = chunks_.find(base);
    if (found.id == no_chunk || chunks_[found.id].is_cached()) return {no_chunk, 0};
    return found;
  }

  /// Describes each violated invariant, given that the quick lists have `cached` chunks.
  [[nodiscard]] std::vector<std::string> audit(std::size_t cached) const {
    std::vector<std::string> problems;
    auto const expect = [&](bool holds, char const* problem, std::uint64_t address) {
      if (!holds) problems.push_back(std::string{problem} + " at " + std::to_string(address));
    };
    bytes reserved = 0, in_use = 0, releasable = 0;
    std::size_t allocated = 0, free = 0, kept = 0;
    std::uint32_t whole = 0;
    for (chunk_id const first : blocks_) {
      expect(chunks_[first].prev == no_chunk, "a block does not begin with its first chunk",
             chunks_[first].base);
      for (chunk_id id = first; id != no_chunk; id = chunks_[id].next) {
        auto const& chunk = chunks_[id];
        reserved += chunk.size();
        if (chunk.next != no_chunk) {
          auto const& next = chunks_[chunk.next];
          expect(chunk.base + chunk.size() == next.base && next.prev == id,
                 "neighbours do not touch", chunk.base);
          expect(!chunk.is_free() || !next.is_free() ||
                     !Owners::is_owner(next, Owners::owner_of(chunk)),
                 "neighbours of one owner are both free", chunk.base);
        }
        expect((chunks_.find(chunk.base).id == id) != chunk.is_free(),
               "the table has a free chunk, or lacks another chunk", chunk.base);
        if (chunk.is_free()) {
          ++free;
          if (chunks_.is_whole_block(id)) ++whole, releasable += chunk.size();
          bool const has_owner = free_.has(Owners::owner_of(chunk));
          expect(has_owner, "a free chunk has no owner", chunk.base);
          expect(!has_owner || free_[Owners::owner_of(chunk)].contains(chunks_, id),
                 "a free chunk is not in its owner's index", chunk.base);
        } else if (chunk.is_cached()) {
          ++kept;
        } else {
          ++allocated;
          in_use += chunk.size();
        }
      }
    }
    expect(reserved == reserved_ && in_use == in_use_ && allocated + kept == chunks_.in_use(),
           "sums of bytes are wrong", reserved);
    expect(kept == cached, "cached chunks are counted wrongly", kept);
    expect(free_.count(chunks_) == free,
           "an index has a chunk that is not a free chunk of its owner", free_.count(chunks_));
    if constexpr (Owners::counts_releasable) {
      expect(free == free_chunks_, "free chunks are counted wrongly", free);
      expect(whole == releasable_blocks_ && releasable == releasable_,
             "releasable blocks are counted wrongly", releasable);
    }
    return problems;
  }

  chunk_table chunks_;
  typename Owners::template indices<Index> free_;

 private:
  [[nodiscard]] sizes sizes_of(chunk_id id) const {
    return {chunks_[id].requested(), chunks_[id].size()};
  }
  /// Whether the chunk is free, common, and a whole block.
  [[nodiscard]] bool is_releasable(chunk_id id) const {
    return chunks_[id].is_free() && Owners::is_owner(chunks_[id], {}) && chunks_.is_whole_block(id);
  }
  [[nodiscard]] bool can_release(chunk_id id, bytes min_reserved) const {
    return is_releasable(id) && reserved_ - chunks_[id].size() >= min_reserved;
  }
  /// Adds a block as one free chunk that is in no index yet, and returns the chunk.
  [[nodiscard]] chunk_id add_block(block const& fresh) {
    chunk_id const id = chunks_.add(fresh.base, fresh.size, no_chunk, no_chunk);
    blocks_.push_back(id);
    reserved_ += fresh.size;
    return id;
  }

  /// Allocates the first part of a chunk that no index has; the remainder becomes `owner`'s.
  [[nodiscard]] std::uint64_t allocate_chunk(chunk_id id, sizes size, owner_id owner) {
    bytes const cut = size_of_cut(size.granted);
    if (chunks_[id].size() > cut) insert_free(chunks_.split(id, cut), owner);
    chunks_.set_in_use(id, size.requested);
    in_use_ += chunks_[id].size();
    return chunks_[id].base;
  }

  /// Removes [base, base + size) from a free chunk of block number `number`. No neighbour of the
  /// chunk can be merged with the remainders. Requires room for a block and a chunk.
  void cut_out(std::size_t number, chunk_id id, std::uint64_t base, bytes size) {
    owner_id const owner = Owners::owner_of(chunks_[id]);
    remove_free(id);
    reserved_ -= size;
    bytes const front_bytes = base - chunks_[id].base;
    bytes const back_bytes = chunks_[id].size() - front_bytes - size;
    chunk_id const prev = chunks_[id].prev;
    chunk_id next = chunks_[id].next;
    if (next != no_chunk) chunks_[next].prev = no_chunk;
    if (back_bytes != 0) {
      next = chunks_.add(base + size, back_bytes, no_chunk, next);
      if (chunks_[next].next != no_chunk) chunks_[chunks_[next].next].prev = next;
      insert_free(next, owner);
    }
    if (next != no_chunk) blocks_.push_back(next);
    if (front_bytes != 0) {
      chunks_.cut_short(id, front_bytes);
      insert_free(id, owner);
      return;
    }
    if (prev != no_chunk) {
      chunks_[prev].next = no_chunk;
    } else {
      blocks_[number] = no_chunk;
    }
    chunks_.remove(id);
  }

  void insert_free(chunk_id id, owner_id owner) {
    Owners::set(chunks_[id], owner);
    free_[owner].insert(chunks_, id);
    if (!Owners::counts_releasable) return;
    ++free_chunks_;
    if (!chunks_.is_whole_block(id)) return;
    ++releasable_blocks_;
    releasable_ += chunks_[id].size();
  }

  std::vector<chunk_id> blocks_;  // the first chunk of each block
  bytes reserved_ = 0;
  bytes in_use_ = 0;
  bytes releasable_ = 0;
  std::uint32_t releasable_blocks_ = 0;
  std::size_t free_chunks_ = 0;
  std::uint32_t unit_shift_;
  bool cuts_whole_;
};

}  // namespace quarry::inline QUARRY_ABI
