// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/pools/fitting.hpp"

#include <memory>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// A strategy whose free chunks have owners: what one frees only that one gets again, at once
/// and without a word to the others, until it is made common. For streams: what is common is what
/// all may have, once they have waited.
///
/// Owner 0 is what is common. Each owner has segregated lists, and lists of what is cached (see
/// fitting): one for what it freed since it was last `covered`, which is not made common, and
/// one for what it had cached before. Free neighbours of one owner are merged. Deals in
/// addresses and never touches memory; not thread-safe. Invariants, checked by `audit`: those of
/// chunk_table, with (2) of neighbours of one owner; the lists have exactly the owner's free
/// chunks; the sums are right.
class owned_fitting {
 public:
  using block = fitting<segregated_fit>::block;
  using sizes = fitting<segregated_fit>::sizes;

  explicit owned_fitting(bytes alignment = 16)
      : unit_shift_{static_cast<std::uint32_t>(std::countr_zero(alignment))} {
    (void)add_owner();
  }

  /// One more owner: its number. Throws std::bad_alloc; gives nothing when there are 8192.
  [[nodiscard]] std::optional<std::uint32_t> add_owner() {
    if (owners_.size() == chunk_table::owners) return std::nullopt;
    owners_.push_back(std::make_unique<owner>(unit_shift_));
    return static_cast<std::uint32_t>(owners_.size() - 1);
  }

  /// A chunk of what the owner has; 0 if nothing of that fits. Throws std::bad_alloc if there is no
  /// memory for bookkeeping. O(1). For who will `trim` the chunk, nothing that was freed since
  /// it was last covered will do: its parts could be made common.
  [[nodiscard]] std::uint64_t allocate(std::uint32_t whose, sizes size,
                                       bool will_be_trimmed = false) {
    owner& mine = *owners_[whose];
    chunk_id id = will_be_trimmed ? no_chunk : mine.recent->take(chunks_, size.granted);
    if (id == no_chunk) id = mine.aside->take(chunks_, size.granted);
    if (id != no_chunk) {
      auto const again = chunks_.set_in_use_again(id, size.requested);
      in_use_ += again.size;
      return again.base;
    }
    reserve();
    id = mine.free.find(chunks_, size.granted);
    if (id == no_chunk) return 0;
    remove_free(id);
    return take(whose, id, size);
  }
  /// As fitting's, of a chunk that `allocate` gave to `whose` to be trimmed: the rest is that
  /// owner's, as what is covered.
  [[nodiscard]] std::uint64_t trim(std::uint32_t whose, std::uint64_t base, sizes size,
                                   bytes alignment) {
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
    if (before != 0) insert_merged(whose, front);
    if (behind != no_chunk) insert_merged(whose, behind);
    return chunks_[id].base;
  }
  /// From now on what the owner freed may be made common. What was cached before the last
  /// such moment, and nobody wanted since, is merged. O(such chunks).
  void cover(std::uint32_t whose) {
    owner& mine = *owners_[whose];
    if (mine.recent->count() == 0) return;
    merge_cached(whose);
    std::swap(mine.recent, mine.aside);
  }
  /// Whether it freed anything since it was covered, and has it still.
  [[nodiscard]] bool has_recent(std::uint32_t whose) const {
    return owners_[whose]->recent->count() != 0;
  }

  /// Merges what the owner had cached before it was last covered. True if there was any: then
  /// something larger may fit.
  bool merge_cached(std::uint32_t whose) {
    owner& mine = *owners_[whose];
    if (mine.aside->count() == 0) return false;
    mine.aside->take_all(
        chunks_, [&](chunk_id id) { free_in_earnest(whose, chunks_.find(chunks_[id].base)); });
    return true;
  }
  /// Makes common what the owner has, but for what it freed since it was last covered. O(its
  /// chunks).
  void share(std::uint32_t whose) {
    merge_cached(whose);
    owner& mine = *owners_[whose];
    for (chunk_id id = mine.free.any(); id != no_chunk; id = mine.free.any()) {
      remove_free(id);
      insert_merged(0, id);
    }
  }
  /// Whether it has anything that is free.
  [[nodiscard]] bool has_any(std::uint32_t whose) const {
    owner const& mine = *owners_[whose];
    return mine.recent->count() + mine.aside->count() != 0 || mine.free.any() != no_chunk;
  }

  /// As fitting's.
  [[nodiscard]] bytes size_of_cut(bytes granted) const { return owners_[0]->aside->whole(granted); }

  /// Takes over a block that is large enough, and allocates a chunk of it; the rest is the owner's.
  /// Requires room (`reserve`).
  [[nodiscard]] std::uint64_t allocate_in(std::uint32_t whose, block const& fresh, sizes size) {
    chunk_id const id = chunks_.add(fresh.base, fresh.size, no_chunk, no_chunk);
    blocks_.push_back(id);
    reserved_ += fresh.size;
    return take(whose, id, size);
  }
  /// Makes room for a block and for an allocation. Throws std::bad_alloc, and has changed nothing
  /// then.
  void reserve() {
    chunks_.reserve();
    if (blocks_.size() == blocks_.capacity()) blocks_.reserve(blocks_.size() * 2 + 8);
  }

  /// Frees what `allocate` gave, to `whose`. Its size; or none, and nothing is changed, if
  /// `base` is not in use. Calls `on_labelled()` if it had a label.
  template <class OnNoted>
  sizes deallocate(std::uint32_t whose, std::uint64_t base, OnNoted const& on_labelled) {
    auto const found = chunks_.find(base);
    if (found.id == no_chunk || chunks_[found.id].is_cached()) return {};
    auto& chunk = chunks_[found.id];
    sizes const size{chunk.requested(), chunk.size()};
    in_use_ -= size.granted;
    if (chunk.is_labelled()) [[unlikely]]
      on_labelled();
    chunk.set_owner(whose);
    chunks_.set_cached(found, chunk.get());
    owners_[whose]->recent->put(chunk, found.id, size.granted);
    return size;
  }
  sizes deallocate(std::uint32_t whose, std::uint64_t base) {
    return deallocate(whose, base, [] {});
  }

  /// Gives up the blocks in which nothing is in use and all is common: calls `give_back(block)` for
  /// each, which may call this strategy again.
  template <class GiveBack>
  void release(GiveBack const& give_back) {
    cover(0);
    merge_cached(0);
    constexpr std::size_t max_at_once = 64;
    block gone[max_at_once];
    std::size_t count = 0;
    do {
      count = 0;
      std::erase_if(blocks_, [&](chunk_id id) {
        if (count == max_at_once || !chunks_[id].is_free() || chunks_[id].owner() != 0 ||
            !chunks_.is_whole_block(id))
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

  [[nodiscard]] bytes reserved() const { return reserved_; }
  [[nodiscard]] bytes in_use() const { return in_use_; }
  [[nodiscard]] std::size_t blocks() const { return blocks_.size(); }
  [[nodiscard]] std::size_t allocated() const { return chunks_.in_use() - cached_count(); }
  [[nodiscard]] bytes footprint() const {
    return chunks_.footprint() + owners_.size() * sizeof(owner) +
           blocks_.capacity() * sizeof(chunk_id) + sizeof(*this);
  }
  [[nodiscard]] chunk_table& chunks() { return chunks_; }
  [[nodiscard]] std::optional<sizes> size_of(std::uint64_t base) const {
    chunk_id const id = chunks_.find(base).id;
    if (id == no_chunk || chunks_[id].is_cached()) return std::nullopt;
    return sizes{chunks_[id].requested(), chunks_[id].size()};
  }
  /// As fitting's.
  bool set_labelled(std::uint64_t base) {
    auto const found = chunks_.find(base);
    if (found.id == no_chunk || chunks_[found.id].is_cached()) return false;
    chunks_.set_labelled(found);
    return true;
  }
  template <class Visit>
  void for_each_block(Visit const& visit) const {
    for (chunk_id const first : blocks_) {
      bytes size = 0;
      for (chunk_id id = first; id != no_chunk; id = chunks_[id].next) size += chunks_[id].size();
      visit(block{chunks_[first].base, size});
    }
  }

  [[nodiscard]] std::vector<std::string> audit() const {
    std::vector<std::string> problems;
    auto const expect = [&](bool holds, char const* otherwise, std::uint64_t at) {
      if (!holds) problems.push_back(std::string{otherwise} + " at " + std::to_string(at));
    };
    bytes reserved = 0, in_use = 0;
    std::size_t allocated = 0, aside = 0;
    std::vector<std::size_t> free(owners_.size());
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
          expect(!chunk.is_free() || !next.is_free() || chunk.owner() != next.owner(),
                 "neighbours of one owner are both free", chunk.base);
        }
        expect((chunks_.find(chunk.base).id == id) != chunk.is_free(),
               "the table has what is free, or has not what is in use", chunk.base);
        if (chunk.is_free()) {
          expect(chunk.owner() < owners_.size(), "a free piece has no owner", chunk.base);
          expect(owners_[chunk.owner()]->free.contains(chunks_, id),
                 "a free piece is not in its owner's lists", chunk.base);
          ++free[chunk.owner()];
        } else if (chunk.is_cached()) {
          ++aside;
        } else {
          ++allocated;
          in_use += chunk.size();
        }
      }
    }
    std::size_t set_cached = 0;
    for (std::size_t i = 0; i < owners_.size(); ++i) {
      expect(owners_[i]->free.count(chunks_) == free[i],
             "an owner's lists have what is not free, or not its", i);
      set_cached += owners_[i]->aside->count() + owners_[i]->recent->count();
    }
    expect(reserved == reserved_ && in_use == in_use_ && allocated + aside == chunks_.in_use(),
           "sums of bytes are wrong", reserved);
    expect(aside == set_cached, "pieces that are set aside are counted wrongly", aside);
    return problems;
  }

 private:
  struct owner {
    explicit owner(std::uint32_t unit_shift)
        : lists{quick_lists{unit_shift}, quick_lists{unit_shift}} {}
    owner(owner&&) = delete;
    segregated_fit free;
    quick_lists lists[2];
    quick_lists *recent = &lists[0], *aside = &lists[1];  // since it was last covered, and before
  };

  [[nodiscard]] std::size_t cached_count() const {
    std::size_t sum = 0;
    for (auto const& each : owners_) sum += each->aside->count() + each->recent->count();
    return sum;
  }

  [[nodiscard]] std::uint64_t take(std::uint32_t whose, chunk_id id, sizes size) {
    bytes const cut = size_of_cut(size.granted);
    if (chunks_[id].size() > cut) insert_free(whose, chunks_.split(id, cut));
    chunks_.set_in_use(id, size.requested);
    in_use_ += chunks_[id].size();
    return chunks_[id].base;
  }
  void free_in_earnest(std::uint32_t whose, chunk_table::found found) {
    chunks_.set_free(found);
    insert_merged(whose, found.id);
  }
  /// Puts a free chunk, which no list has, into the owner's lists, with the neighbours that are its
  /// and free.
  void insert_merged(std::uint32_t whose, chunk_id id) {
    auto const is_mine = [&](chunk_id other) {
      return other != no_chunk && chunks_[other].is_free() && chunks_[other].owner() == whose;
    };
    chunk_id const before = chunks_[id].prev;
    chunk_id const after = chunks_[id].next;
    if (is_mine(after)) {
      remove_free(after);
      chunks_.merge_with_next(id);
    }
    if (is_mine(before)) {
      remove_free(before);
      chunks_.merge_with_next(before);
      id = before;
    }
    insert_free(whose, id);
  }
  void insert_free(std::uint32_t whose, chunk_id id) {
    chunks_[id].set_owner(whose);
    owners_[whose]->free.insert(chunks_, id);
  }
  void remove_free(chunk_id id) { owners_[chunks_[id].owner()]->free.remove(chunks_, id); }

  chunk_table chunks_;
  std::vector<std::unique_ptr<owner>> owners_;
  std::vector<chunk_id> blocks_;  // the first chunk of each
  bytes reserved_ = 0, in_use_ = 0;
  std::uint32_t unit_shift_;
};

}  // namespace quarry::inline QUARRY_ABI
