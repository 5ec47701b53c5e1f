// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/pools/chunk_arena.hpp"

#include <algorithm>

namespace quarry::inline QUARRY_ABI {

/// A chunk_arena of one owner with deferred coalescing: quick lists keep freed chunks whole for the
/// next request that they fit with at most an eighth of waste.
///
/// Most requests then neither split nor merge. The cached chunks are merged before a block is
/// requested or released; until then their blocks count as in use. If sizes do not repeat, the
/// quick lists save little and scatter the free memory. So if the quick lists did not pay
/// (`quick_lists::pays`), the next frees cache nothing. Their number is 128 for each cached chunk
/// that no request took again, and at most 32,768.
///
/// A block that is much larger than the program needs is never full. Requests would then take its
/// unused rest while cached chunks lie idle, and the system would have to provide pages for that
/// rest. So while less than half of the reserved bytes was ever used, the arena merges its cached
/// chunks each time that the used bytes have grown by a sixteenth.
template <class Index>
class caching_arena : public chunk_arena<Index> {
  using core = chunk_arena<Index>;

 public:
  using typename core::sizes;

  /// `alignment`: a power of two; all sizes are multiples of it.
  explicit caching_arena(bytes alignment = 16)
      : core{alignment, true}, quick_{this->unit_shift()} {}

  static constexpr bool caches = true;
  /// From now on nothing is cached. For pools that read the counts of blocks after each free.
  void disable_caching() {
    caches_ = false;
    this->cut_exactly();
    frees_without_cache_ = 0;
  }

  /// The address of a cached chunk that serves `size`, at a multiple of `alignment`; nullopt if the
  /// quick lists have no such chunk.
  [[nodiscard]] std::optional<std::uint64_t> allocate_from_cached(sizes size, bytes alignment = 1) {
    return this->reuse(quick_, size, alignment);
  }
  [[nodiscard]] std::optional<std::uint64_t> allocate(sizes size) {
    if (auto const base = allocate_from_cached(size)) return base;
    return allocate_from_free(size);
  }
  /// The same, after `allocate_from_cached` found nothing.
  [[nodiscard]] std::optional<std::uint64_t> allocate_from_free(sizes size) {
    if (spreads()) free_cached();
    auto base = core::allocate_from_free(size);
    if (!base && quick_.count() != 0) {
      free_cached();
      base = core::allocate_from_free(size);
    }
    if (base) count_use(*base + size.granted, size.granted);
    return base;
  }

  /// Caches an allocation and returns the bytes requested for it. Returns nullopt and changes
  /// nothing if the free needs more steps; then call `deallocate`.
  [[nodiscard]] std::optional<bytes> deallocate_to_cache(std::uint64_t base) {
    if (!caches_) return std::nullopt;
    auto const found = this->chunks_.find(base);
    if (found.id == detail::no_chunk) return std::nullopt;
    auto& chunk = this->chunks_[found.id];
    auto const state = chunk.get();
    if (state.has_flags()) return std::nullopt;
    return this->cache(quick_, chunk, found, state).requested;
  }
  template <std::invocable OnLabelled>
  sizes deallocate(std::uint64_t base, OnLabelled const& on_labelled) {
    if (!caches_) {
      sizes const size = core::deallocate(base, on_labelled);
      if (size && frees_without_cache_ != 0 && --frees_without_cache_ == 0) caches_ = true;
      return size;
    }
    auto const found = this->find_allocated(base);
    if (found.id == detail::no_chunk) return {};
    auto& chunk = this->chunks_[found.id];
    auto const state = chunk.get();
    if (state.is_labelled()) on_labelled();
    return this->cache(quick_, chunk, found, state);
  }
  sizes deallocate(std::uint64_t base) {
    return deallocate(base, [] {});
  }

  template <class ReturnBlock>
  void release(ReturnBlock const& return_block, bytes min_reserved = 0) {
    core::release(return_block, min_reserved, [this] { free_cached(); });
    if (this->reserved() == 0) used_end_ = used_ = newly_used_ = 0;
  }
  template <class Visit>
  void carve(bytes page, bytes maximum, Visit const& visit) {
    free_cached();
    core::carve(page, maximum, visit);
  }

  [[nodiscard]] std::size_t allocated() const { return core::allocated() - quick_.count(); }
  [[nodiscard]] std::vector<std::string> audit() const { return core::audit(quick_.count()); }

 private:
  /// Counts the bytes of an allocation that no allocation had before: those beyond the highest end.
  /// A lower block that came later counts as used, which only makes merges rarer.
  void count_use(std::uint64_t end, bytes size) {
    if (end <= used_end_) return;
    bytes const first_used = std::min(size, end - used_end_);
    used_end_ = end;
    used_ += first_used;
    newly_used_ += first_used;
  }
  /// Whether requests use new memory of a large block, although chunks are cached.
  [[nodiscard]] bool spreads() const {
    return newly_used_ > used_ / 16 && quick_.count() != 0 && used_ < this->reserved() / 2;
  }
  void free_cached() {
    newly_used_ = 0;
    if (!quick_.pays()) {
      frees_without_cache_ = std::min(quick_.count(), max_unused) * uncached_frees;
      caches_ = false;
    }
    core::free_cached(quick_, {});
  }

  // frees that cache nothing, for each chunk that no request took again; the maximum of such chunks
  static constexpr std::size_t uncached_frees = 128, max_unused = 256;

  detail::quick_lists quick_;
  std::uint64_t used_end_ = 0;  // the highest end of an allocation
  bytes used_ = 0;              // bytes that allocations have covered
  bytes newly_used_ = 0;        // the same, since the lists were last empty
  bool caches_ = true;
  std::size_t frees_without_cache_ = 0;  // until chunks are cached again
};

/// The default placement of pools.
using fast_fit = caching_arena<segregated_fit>;

}  // namespace quarry::inline QUARRY_ABI
