// SPDX-License-Identifier: Apache-2.0
// The owners of free chunks: the second template parameter of chunk_arena.
#pragma once

#include "quarry/host/detail/chunk_table.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace quarry::inline QUARRY_ABI::detail {

/// Owners of a chunk_arena that has one owner: each free chunk serves every request. Costs nothing.
struct one_owner {
  struct id {};
  static constexpr bool counts_releasable = true;

  /// The owner's index of free chunks.
  template <class Index>
  class indices {
   public:
    [[nodiscard]] Index& operator[](id) { return index_; }
    [[nodiscard]] Index const& operator[](id) const { return index_; }
    void reserve(std::size_t chunks) { index_.reserve(chunks); }
    [[nodiscard]] std::size_t count(chunk_table const& chunks) const {
      return index_.count(chunks);
    }
    [[nodiscard]] bool has(id) const { return true; }
    [[nodiscard]] bytes footprint() const { return index_.footprint(); }

   private:
    Index index_;
  };

  [[nodiscard]] static id owner_of(chunk const&) { return {}; }
  static void set(chunk&, id) {}
  [[nodiscard]] static bool is_owner(chunk const&, id) { return true; }
};

/// Owners of a chunk_arena that tells up to 8192 owners apart: a free chunk serves the requests of
/// its owner only. The chunks of owner 0 are common: they serve every owner, once it has
/// synchronised (stream_owners).
struct many_owners {
  using id = std::uint32_t;
  static constexpr id common = 0;
  static constexpr bool counts_releasable = false;  // no heuristic reads the counts

  /// An index of free chunks for each owner. Adding an owner is the only call that needs memory.
  template <class Index>
  class indices {
    static_assert(!Index::needs_room, "frees could need memory: any owner may get a chunk");

   public:
    indices() { add(); }
    /// Adds an owner. Throws std::bad_alloc.
    void add() { owners_.push_back(std::make_unique<Index>()); }
    [[nodiscard]] Index& operator[](id owner) { return *owners_[owner]; }
    [[nodiscard]] Index const& operator[](id owner) const { return *owners_[owner]; }
    void reserve(std::size_t) {}
    [[nodiscard]] std::size_t count(chunk_table const& chunks) const {
      std::size_t sum = 0;
      for (auto const& index : owners_) sum += index->count(chunks);
      return sum;
    }
    [[nodiscard]] bool has(id owner) const { return owner < owners_.size(); }
    [[nodiscard]] bytes footprint() const { return owners_.size() * sizeof(Index); }

   private:
    std::vector<std::unique_ptr<Index>> owners_;
  };

  [[nodiscard]] static id owner_of(chunk const& chunk) { return chunk.owner(); }
  static void set(chunk& chunk, id owner) { chunk.set_owner(owner); }
  [[nodiscard]] static bool is_owner(chunk const& chunk, id owner) {
    return chunk.owner() == owner;
  }
};

}  // namespace quarry::inline QUARRY_ABI::detail
