// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/detail/chunk_owners.hpp"
#include "quarry/host/pools/placement.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI::detail {

/// Blocks of addresses, each tiled by chunks. Each owner's free chunks are in an index, and free
/// neighbours of one owner are merged. chunk_arena, which derives from this class, decides which
/// chunk serves which request.
///
/// Invariants, checked by `audit`: those of chunk_table, with (2) for neighbours of one owner. (4)
/// Each owner's index has exactly the owner's free chunks. (5) The counts of bytes and of
/// releasable blocks are right.
template <class Index, class Owners>
class tiled_blocks {
 public:
  using owner_id = typename Owners::id;

  /// Makes room for three blocks and for an allocation. If it throws std::bad_alloc, nothing has
  /// changed.
  void reserve() {
    chunks_.reserve();
    // allocated chunks may become free, and so may a new block's remainder
    free_.reserve(chunks_.in_use() + 4);
    if (blocks_.size() + 3 > blocks_.capacity()) blocks_.reserve(blocks_.size() * 2 + 8);
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
  [[nodiscard]] std::optional<chunk_sizes> size_of(std::uint64_t base) const {
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
      visit(upstream_block{chunks_[first].base, size});
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

  /// Removes blocks that are one free common chunk, oldest first, as long as at least
  /// `min_reserved` bytes remain reserved. Calls `return_block(block)` for each removed block; the
  /// callback may call this arena. Calls `prepare()` before it looks for blocks.
  template <class ReturnBlock, class Prepare>
  void release(ReturnBlock const& return_block, bytes min_reserved, Prepare const& prepare) {
    constexpr std::size_t max_at_once = 64;
    upstream_block removed[max_at_once];
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

  /// Describes each violated invariant, given that the quick lists have `cached` chunks.
  [[nodiscard]] std::vector<std::string> audit(std::size_t cached = 0) const {
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

 protected:
  [[nodiscard]] chunk_sizes sizes_of(chunk_id id) const {
    return {chunks_[id].requested(), chunks_[id].size()};
  }
  /// Adds a block as one free chunk that is in no index yet, and returns the chunk.
  [[nodiscard]] chunk_id add_block(upstream_block const& fresh) {
    chunk_id const id = chunks_.add(fresh.base, fresh.size, no_chunk, no_chunk);
    blocks_.push_back(id);
    reserved_ += fresh.size;
    return id;
  }

  /// Whether the chunk is free, common, and a whole block.
  [[nodiscard]] bool is_releasable(chunk_id id) const {
    return chunks_[id].is_free() && Owners::is_owner(chunks_[id], {}) && chunks_.is_whole_block(id);
  }
  [[nodiscard]] bool can_release(chunk_id id, bytes min_reserved) const {
    return is_releasable(id) && reserved_ - chunks_[id].size() >= min_reserved;
  }
  /// The allocation at `base`; `id` is `no_chunk` if there is none.
  [[nodiscard]] chunk_table::found find_allocated(std::uint64_t base) const {
    auto const found = chunks_.find(base);
    if (found.id == no_chunk || chunks_[found.id].is_cached()) return {no_chunk, 0};
    return found;
  }

  /// Makes a chunk that is not free and in no index an allocation of `requested` bytes.
  void set_in_use(chunk_id id, bytes requested) {
    chunks_.set_in_use(id, requested);
    in_use_ += chunks_[id].size();
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

  void insert_free(chunk_id id, owner_id owner) {
    Owners::set(chunks_[id], owner);
    free_[owner].insert(chunks_, id);
    if (!Owners::counts_releasable) return;
    ++free_chunks_;
    if (!chunks_.is_whole_block(id)) return;
    ++releasable_blocks_;
    releasable_ += chunks_[id].size();
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

  chunk_table chunks_;
  typename Owners::template indices<Index> free_;
  std::vector<chunk_id> blocks_;  // the first chunk of each block
  bytes reserved_ = 0;
  bytes in_use_ = 0;

 private:
  bytes releasable_ = 0;
  std::uint32_t releasable_blocks_ = 0;
  std::size_t free_chunks_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI::detail
