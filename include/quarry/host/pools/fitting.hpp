// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/pools/free_chunks.hpp"
#include "quarry/host/pools/quick_lists.hpp"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// The strategy of pools that cut blocks into chunks: `Index` picks the free chunk, the rest is
/// split off, and free neighbours are merged.
///
/// With `Caches`, chunks that are freed are cached whole, for the next request that they
/// fit with at most an eighth of waste. They are freed in earnest before a block is asked for or
/// given up; until then they count as in use where blocks are counted. So most requests neither
/// split nor merge. Where sizes do not come back, that saves little and scatters what is free.
/// So if setting aside did not pay (quick_lists), nothing is cached during the next 128 frees
/// for each chunk that nobody had taken again, 32,768 at most.
///
/// Deals in addresses and never touches memory, so that a live pool, a replay and a fuzzer run the
/// same code. Not thread-safe: its pool locks. Sizes are multiples of the pool's alignment.
/// Invariants, checked by `audit`: those of chunk_table; and (4) the index has exactly the free
/// chunks; (5) the counts of bytes and of releasable blocks are right.
template <class Index, bool Caches = false>
class fitting {
 public:
  /// `alignment`: a power of two, of which all sizes are multiples.
  explicit fitting(bytes alignment = 16)
      : quick_{static_cast<std::uint32_t>(std::countr_zero(alignment))} {}

  struct block {
    std::uint64_t base;
    bytes size;
  };
  static constexpr bool caches = Caches;

  /// From now on nothing is cached: for who looks at the counts of blocks after each free.
  void disable_caching() {
    caches_ = cuts_whole_ = false;
    frees_to_rest_ = 0;
  }

  /// What a user may use of a chunk, and what the chunk holds.
  struct sizes {
    bytes requested = 0;
    bytes granted = 0;  // never 0 but for none
    explicit operator bool() const { return granted != 0; }
  };

  /// Where a chunk begins that was cached and serves `size`, at a multiple of `alignment`;
  /// nothing if none is found.
  [[nodiscard]] std::optional<std::uint64_t> allocate_from_cached(sizes size, bytes alignment = 1) {
    if constexpr (!Caches) return std::nullopt;
    chunk_id const id = quick_.take(chunks_, size.granted, alignment);
    if (id == no_chunk) return std::nullopt;
    auto const again = chunks_.set_in_use_again(id, size.requested);
    in_use_ += again.size;
    return again.base;
  }

  /// A chunk of `size.granted` bytes, or nothing: then a block is needed. Throws std::bad_alloc if
  /// there is no memory for bookkeeping.
  [[nodiscard]] std::optional<std::uint64_t> allocate(sizes size) {
    if (auto const base = allocate_from_cached(size)) return base;
    return allocate_from_free(size);
  }
  /// The same, for who has asked for what was cached.
  [[nodiscard]] std::optional<std::uint64_t> allocate_from_free(sizes size) {
    reserve();
    chunk_id id = index_.find(chunks_, size.granted);
    if (id == no_chunk && quick_.count() != 0) {
      free_cached();
      id = index_.find(chunks_, size.granted);
    }
    if (id == no_chunk) return std::nullopt;
    remove_free(id);
    return take(id, size);
  }

  /// The same out of a block in which nothing is in use, though an index may have missed it.
  /// Requires room (`reserve`). O(blocks).
  [[nodiscard]] std::optional<std::uint64_t> allocate_from_empty_block(sizes size) {
    for (chunk_id const id : blocks_) {
      if (!chunks_[id].is_free() || !chunks_.is_whole_block(id) ||
          chunks_[id].size() < size.granted)
        continue;
      remove_free(id);
      return take(id, size);
    }
    return std::nullopt;
  }

  /// A chunk of exactly `size` bytes at a multiple of `alignment`, which is more than that of all
  /// chunks, `minimum`, out of what is free in earnest; or nothing. It is no allocation for those
  /// who look (chunk::by_no_user). Throws std::bad_alloc.
  [[nodiscard]] std::optional<std::uint64_t> allocate_for_slices(bytes size, bytes alignment,
                                                                 bytes minimum) {
    reserve();
    chunk_id const id = index_.find(chunks_, size + alignment - minimum);
    if (id == no_chunk) return std::nullopt;
    remove_free(id);
    std::uint64_t const base = take(id, {chunk::by_no_user, size + alignment - minimum});
    try {
      reserve();
    } catch (...) {
      (void)deallocate(base);
      throw;
    }
    return trim(base, {chunk::by_no_user, size}, alignment);
  }

  /// Keeps of a chunk in use, which `allocate` gave for more than `size`, what lies behind the
  /// first multiple of `alignment` and serves `size`: where that begins. The rest is free. Requires
  /// room (`reserve`), and that nobody took label of the chunk.
  [[nodiscard]] std::uint64_t trim(std::uint64_t base, sizes size, bytes alignment) {
    auto const found = chunks_.find(base);
    chunk_id id = found.id;
    in_use_ -= chunks_[id].size();
    chunks_.set_free(found);
    bytes const before = ((base + alignment - 1) & ~(alignment - 1)) - base;
    chunk_id const front = id;
    if (before != 0) id = chunks_.split(front, before);
    bytes const cut = size_of_cut(size.granted);
    chunk_id const behind = chunks_[id].size() > cut ? chunks_.split(id, cut) : no_chunk;
    chunks_.set_in_use(id, size.requested);
    in_use_ += chunks_[id].size();
    if (before != 0) insert_merged(front);
    if (behind != no_chunk) insert_merged(behind);
    return chunks_[id].base;
  }

  /// The size of the chunk that is cut for `granted` bytes where there is room: cached, it is
  /// found again for them.
  [[nodiscard]] bytes size_of_cut(bytes granted) const {
    return Caches && cuts_whole_ ? quick_.whole(granted) : granted;
  }

  /// Takes over a block that is large enough, and allocates a chunk of it. Requires room
  /// (`reserve`).
  [[nodiscard]] std::uint64_t allocate_in(block const& fresh, sizes size) {
    chunk_id const id = chunks_.add(fresh.base, fresh.size, no_chunk, no_chunk);
    blocks_.push_back(id);
    reserved_ += fresh.size;
    return take(id, size);
  }
  /// Makes room for three blocks and for an allocation. Throws std::bad_alloc, and has changed
  /// nothing then.
  void reserve() {
    chunks_.reserve();
    // what is in use may become free, and a fresh block's rest
    index_.reserve(chunks_.in_use() + 4);
    if (blocks_.size() + 3 > blocks_.capacity()) blocks_.reserve(blocks_.size() * 2 + 8);
  }

  /// Sets aside what `allocate` gave. What was asked for; or nothing, and nothing is changed, if it
  /// takes more than that: `deallocate`, then.
  [[nodiscard]] std::optional<bytes> deallocate_to_cache(std::uint64_t base) {
    if (!Caches || !caches_) return std::nullopt;
    auto const found = chunks_.find(base);
    if (found.id == no_chunk) return std::nullopt;
    auto& chunk = chunks_[found.id];
    auto const state = chunk.get();
    if (state.has_flags()) return std::nullopt;
    return put_in_quick_list(chunk, found, state).requested;
  }
  /// Frees what `allocate` gave. Its size; or none, and nothing is changed, if `base` is not
  /// in use. Calls `on_labelled()` if it had a label.
  template <class OnNoted>
  sizes deallocate(std::uint64_t base, OnNoted const& on_labelled) {
    auto const found = chunks_.find(base);
    if (found.id == no_chunk) return {};
    auto& chunk = chunks_[found.id];
    auto const state = chunk.get();
    if (state.is_cached()) return {};
    if (state.is_labelled()) on_labelled();
    if (Caches && caches_) return put_in_quick_list(chunk, found, state);
    sizes const size{chunk.requested(), state.size()};
    in_use_ -= size.granted;
    free_in_earnest(found);
    if (frees_to_rest_ != 0 && --frees_to_rest_ == 0) caches_ = true;
    return size;
  }
  sizes deallocate(std::uint64_t base) {
    return deallocate(base, [] {});
  }

  /// Gives up the blocks in which nothing is in use, as long as `min_held` bytes are held without
  /// them: calls `give_back(block)` for each, oldest first. It may call this strategy again.
  template <class GiveBack>
  void release(GiveBack const& give_back, bytes min_held = 0) {
    constexpr std::size_t max_at_once = 64;
    block gone[max_at_once];
    std::size_t count = 0;
    do {
      free_cached();
      count = 0;
      std::erase_if(blocks_, [&](chunk_id id) {
        if (count == max_at_once || !chunks_[id].is_free() || !chunks_.is_whole_block(id) ||
            reserved_ - chunks_[id].size() < min_held)
          return false;
        gone[count++] = {chunks_[id].base, chunks_[id].size()};
        reserved_ -= chunks_[id].size();
        remove_free(id);
        chunks_.remove(id);
        return true;
      });
      for (std::size_t i = 0; i < count; ++i) give_back(gone[i]);
    } while (count == max_at_once);
  }

  /// Cuts whole pages of `page` bytes out of free chunks, `maximum` bytes at most, and calls
  /// `each(base, size)` for what came out of one chunk: the strategy has it no more, and what lay
  /// beside it are blocks of their own. If `each` throws, that chunk stays. Throws std::bad_alloc.
  /// O(chunks).
  template <class Each>
  void carve(bytes page, bytes maximum, Each const& each) {
    free_cached();
    maximum &= ~(page - 1);
    struct tidy {
      std::vector<chunk_id>& blocks;
      ~tidy() { std::erase(blocks, no_chunk); }
    } const at_the_end{blocks_};
    for (std::size_t i = 0; i < blocks_.size() && maximum != 0; ++i) {
      for (chunk_id id = blocks_[i]; id != no_chunk; id = chunks_[id].next) {
        if (!chunks_[id].is_free()) continue;
        std::uint64_t const base = (chunks_[id].base + page - 1) & ~(page - 1);
        std::uint64_t const end = (chunks_[id].base + chunks_[id].size()) & ~(page - 1);
        if (end <= base) continue;
        reserve();
        bytes const size = std::min(end - base, maximum);
        cut_out(i, id, base, size);
        try {
          each(base, size);
        } catch (...) {
          (void)deallocate(allocate_in({base, size}, {size, size}));
          throw;
        }
        maximum -= size;
        break;  // the rest of the block is a block further on
      }
    }
  }

  /// Bytes of the blocks; of what is in use, rounded up; of blocks in which nothing is in use.
  [[nodiscard]] bytes reserved() const { return reserved_; }
  [[nodiscard]] bytes in_use() const { return in_use_; }
  [[nodiscard]] bytes releasable() const { return releasable_; }
  [[nodiscard]] std::uint32_t releasable_blocks() const { return releasable_blocks_; }
  [[nodiscard]] std::size_t blocks() const { return blocks_.size(); }
  [[nodiscard]] std::size_t free_chunks() const { return free_chunks_; }
  [[nodiscard]] std::size_t allocated() const { return chunks_.in_use() - quick_.count(); }
  [[nodiscard]] bytes largest_free() const { return index_.largest(chunks_); }
  [[nodiscard]] bytes footprint() const {
    return chunks_.footprint() + index_.footprint() + blocks_.capacity() * sizeof(chunk_id) +
           sizeof(*this);
  }

  /// The size of the chunk in use that begins at `base`, or nothing.
  [[nodiscard]] std::optional<sizes> size_of(std::uint64_t base) const {
    chunk_id const id = chunks_.find(base).id;
    if (id == no_chunk || chunks_[id].is_cached()) return std::nullopt;
    return sizes_of(id);
  }

  /// Marks a chunk as one that has a label, until it is freed. False if `base` is not in use.
  bool set_labelled(std::uint64_t base) {
    auto const found = chunks_.find(base);
    if (found.id == no_chunk || chunks_[found.id].is_cached()) return false;
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

  /// Calls `visit(base, size, is_free)` for each chunk of each block in order.
  template <class Visit>
  void for_each(Visit const& visit) const {
    for (chunk_id const first : blocks_) {
      for (chunk_id id = first; id != no_chunk; id = chunks_[id].next)
        visit(chunks_[id].base, chunks_[id].size(),
              chunks_[id].is_free() || chunks_[id].is_cached());
    }
  }

  /// What is wrong; empty if nothing is.
  [[nodiscard]] std::vector<std::string> audit() const {
    std::vector<std::string> problems;
    auto const expect = [&](bool holds, char const* otherwise, std::uint64_t at) {
      if (!holds) problems.push_back(std::string{otherwise} + " at " + std::to_string(at));
    };
    bytes reserved = 0, in_use = 0, releasable = 0;
    std::size_t allocated = 0, free = 0, aside = 0;
    std::uint32_t whole = 0;
    for (chunk_id const first : blocks_) {
      expect(chunks_[first].prev == no_chunk, "a block does not begin with its first piece",
             chunks_[first].base);
      for (chunk_id id = first; id != no_chunk; id = chunks_[id].next) {
        auto const& chunk = chunks_[id];
        reserved += chunk.size();
        if (chunk.next != no_chunk) {
          auto const& next = chunks_[chunk.next];
          expect(chunk.base + chunk.size() == next.base && next.prev == id,
                 "neighbours do not touch", chunk.base);
          expect(!chunk.is_free() || !next.is_free(), "neighbours are both free", chunk.base);
        }
        if (!chunk.is_free()) {
          if (chunk.is_cached()) {
            ++aside;
          } else {
            ++allocated;
            in_use += chunk.size();
          }
          expect(chunks_.find(chunk.base).id == id, "a piece in use is not found", chunk.base);
        } else {
          ++free;
          expect(chunks_.find(chunk.base).id == no_chunk, "a free piece is found", chunk.base);
          if (chunks_.is_whole_block(id)) ++whole, releasable += chunk.size();
          expect(index_.contains(chunks_, id), "a free piece is not in the index", chunk.base);
        }
      }
    }
    expect(reserved == reserved_ && in_use == in_use_ &&
               allocated + quick_.count() == chunks_.in_use(),
           "sums of bytes are wrong", reserved);
    expect(aside == quick_.count(), "pieces that are set aside are counted wrongly", aside);
    expect(index_.count(chunks_) == free, "the index has what is not free", index_.count(chunks_));
    expect(free == free_chunks_, "free pieces are counted wrongly", free);
    expect(whole == releasable_blocks_ && releasable == releasable_,
           "releasable blocks are counted wrongly", releasable);
    return problems;
  }

 private:
  [[nodiscard]] sizes sizes_of(chunk_id id) const {
    return {chunks_[id].requested(), chunks_[id].size()};
  }

  /// The first part of a chunk that is not in the index goes into use; the rest into the index.
  [[nodiscard]] std::uint64_t take(chunk_id id, sizes size) {
    bytes const cut = size_of_cut(size.granted);
    if (chunks_[id].size() > cut) insert_free(chunks_.split(id, cut));
    chunks_.set_in_use(id, size.requested);
    in_use_ += chunks_[id].size();
    return chunks_[id].base;
  }

  /// Takes [begin, begin + size) out of a free chunk of block number `number`. Its neighbours are
  /// in use, so that what is left of it is free by itself. Requires room for a block and a chunk.
  void cut_out(std::size_t number, chunk_id id, std::uint64_t base, bytes size) {
    remove_free(id);
    reserved_ -= size;
    bytes const before = base - chunks_[id].base;
    bytes const after = chunks_[id].size() - before - size;
    chunk_id const prev = chunks_[id].prev;
    chunk_id next = chunks_[id].next;
    if (next != no_chunk) chunks_[next].prev = no_chunk;
    if (after != 0) {
      next = chunks_.add(base + size, after, no_chunk, next);
      if (chunks_[next].next != no_chunk) chunks_[chunks_[next].next].prev = next;
      insert_free(next);
    }
    if (next != no_chunk) blocks_.push_back(next);
    if (before != 0) {
      chunks_.cut_short(id, before);
      insert_free(id);
      return;
    }
    if (prev != no_chunk) {
      chunks_[prev].next = no_chunk;
    } else {
      blocks_[number] = no_chunk;
    }
    chunks_.remove(id);
  }

  sizes put_in_quick_list(chunk_table::chunk& chunk, chunk_table::found found,
                          chunk_table::chunk::state state) {
    sizes const size{chunk.requested(), state.size()};
    in_use_ -= size.granted;
    chunks_.set_cached(found, state);
    quick_.put(chunk, found.id, size.granted);
    return size;
  }
  void free_in_earnest(chunk_table::found found) {
    chunks_.set_free(found);
    insert_merged(found.id);
  }
  /// Puts a free chunk into the index, with the neighbours that are free.
  void insert_merged(chunk_id id) {
    chunk_id const before = chunks_[id].prev;
    chunk_id const after = chunks_[id].next;
    if (after != no_chunk && chunks_[after].is_free()) {
      remove_free(after);
      chunks_.merge_with_next(id);
    }
    if (before != no_chunk && chunks_[before].is_free()) {
      remove_free(before);
      chunks_.merge_with_next(before);
      id = before;
    }
    insert_free(id);
  }

  void free_cached() {
    if (!quick_.pays()) {
      frees_to_rest_ = std::min(quick_.count(), most_of_rest) * rest;
      caches_ = false;
    }
    quick_.take_all(chunks_,
                    [this](chunk_id id) { free_in_earnest(chunks_.find(chunks_[id].base)); });
  }

  void insert_free(chunk_id id) {
    index_.insert(chunks_, id);
    ++free_chunks_;
    if (!chunks_.is_whole_block(id)) return;
    ++releasable_blocks_;
    releasable_ += chunks_[id].size();
  }
  void remove_free(chunk_id id) {
    index_.remove(chunks_, id);
    --free_chunks_;
    if (!chunks_.is_whole_block(id)) return;
    --releasable_blocks_;
    releasable_ -= chunks_[id].size();
  }

  static constexpr std::size_t rest = 128;          // frees for each chunk that nobody took again
  static constexpr std::size_t most_of_rest = 256;  // such chunks

  chunk_table chunks_;
  Index index_;
  std::vector<chunk_id> blocks_;  // the first chunk of each
  bytes reserved_ = 0;
  bytes in_use_ = 0;
  bytes releasable_ = 0;
  std::uint32_t releasable_blocks_ = 0;
  std::size_t free_chunks_ = 0;
  quick_lists quick_;
  bool caches_ = Caches;           // now
  bool cuts_whole_ = Caches;       // whether anything is ever cached
  std::size_t frees_to_rest_ = 0;  // before anything is cached again
};

/// The pool's strategy if none is named.
using fast_fit = fitting<segregated_fit, true>;

}  // namespace quarry::inline QUARRY_ABI
