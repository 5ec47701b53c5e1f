// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/detail/quick_lists.hpp"
#include "quarry/host/detail/tiled_blocks.hpp"
#include "quarry/host/pools/free_chunks.hpp"

#include <bit>
#include <concepts>
#include <optional>

namespace quarry::inline QUARRY_ABI {

/// Cuts blocks into chunks: `Index` picks the free chunk for a request, the remainder is split off,
/// and free neighbours of one owner are merged.
///
/// `Owners` is one_owner or many_owners. Functions with a parameter `owner` use the free chunks of
/// that owner; the default is the only owner, or the owner of the common chunks.
///
/// Works with addresses and never touches memory, so a live pool, a replay and a fuzzer run the
/// same code. Not thread-safe, like its pool. Sizes are multiples of the pool's alignment.
/// Invariants, checked by `audit`: those of tiled_blocks.
///
/// caching_arena and owned_arena add quick lists. They are arenas with a few functions replaced,
/// and are not used through a reference to this class.
template <class Index, class Owners = detail::one_owner>
class chunk_arena : public detail::tiled_blocks<Index, Owners> {
  using tiles = detail::tiled_blocks<Index, Owners>;

 public:
  using chunk_id = detail::chunk_id;
  using chunk_table = detail::chunk_table;
  static constexpr chunk_id no_chunk = detail::no_chunk;
  using owner_id = typename Owners::id;
  using sizes = chunk_sizes;
  using tiles::reserve;

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
    return cut_found(id, size, owner);
  }

  /// The same from a block in which nothing is allocated; an index may have missed that block.
  /// Requires room (`reserve`). O(blocks).
  [[nodiscard]] std::optional<std::uint64_t> allocate_from_empty_block(sizes size) {
    for (chunk_id const id : blocks_) {
      if (!this->is_releasable(id) || chunks_[id].size() < size.granted) continue;
      return cut_found(id, size, {});
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
    std::uint64_t const base =
        cut_found(id, {detail::chunk::no_request, size + alignment - minimum}, {});
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
    bytes const granted = size_of_cut(size.granted);
    chunk_id const back = chunks_[id].size() > granted ? chunks_.split(id, granted) : no_chunk;
    this->set_in_use(id, size.requested);
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
  [[nodiscard]] std::uint64_t allocate_in(upstream_block const& fresh, sizes size,
                                          owner_id owner = {}) {
    return cut(this->add_block(fresh), size, owner);
  }
  /// Frees an allocation and gives its chunk to `owner`. Returns the sizes of the allocation.
  /// Returns empty sizes and changes nothing if `base` is not the base address of an allocation.
  /// Calls `on_labelled()` if the allocation had a label.
  template <std::invocable OnLabelled>
  sizes deallocate(std::uint64_t base, OnLabelled const& on_labelled, owner_id owner = {}) {
    auto const found = find_allocated(base);
    if (found.id == no_chunk) return {};
    if (chunks_[found.id].is_labelled()) on_labelled();
    sizes const size = this->sizes_of(found.id);
    in_use_ -= size.granted;
    free_now(found, owner);
    return size;
  }
  sizes deallocate(std::uint64_t base, owner_id owner = {}) {
    return deallocate(base, [] {}, owner);
  }

 protected:
  using tiles::blocks_;
  using tiles::chunks_;
  using tiles::find_allocated;
  using tiles::free_;
  using tiles::free_now;
  using tiles::in_use_;
  using tiles::insert_merged;
  using tiles::remove_free;

  /// `cuts_whole`: chunks are cut for quick lists.
  chunk_arena(bytes alignment, bool cuts_whole)
      : unit_shift_{static_cast<std::uint32_t>(std::countr_zero(alignment))},
        cuts_whole_{cuts_whole} {}

  [[nodiscard]] std::uint32_t unit_shift() const { return unit_shift_; }
  void cut_exactly() { cuts_whole_ = false; }

  /// Allocates a chunk of a quick list, at a multiple of `alignment`; nullopt if the list has no
  /// such chunk. Always inlined, since most allocations need no other step.
  [[nodiscard, gnu::always_inline]] std::optional<std::uint64_t> reuse(detail::quick_lists& cached,
                                                                       sizes size,
                                                                       bytes alignment = 1) {
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
  [[nodiscard]] std::uint64_t cut_found(chunk_id id, sizes size, owner_id owner) {
    remove_free(id);
    return cut(id, size, owner);
  }

 private:
  /// Allocates the first part of a chunk that no index has; the remainder becomes `owner`'s.
  [[nodiscard]] std::uint64_t cut(chunk_id id, sizes size, owner_id owner) {
    bytes const granted = size_of_cut(size.granted);
    if (chunks_[id].size() > granted) this->insert_free(chunks_.split(id, granted), owner);
    this->set_in_use(id, size.requested);
    return chunks_[id].base;
  }

  std::uint32_t unit_shift_;
  bool cuts_whole_;
};

}  // namespace quarry::inline QUARRY_ABI
