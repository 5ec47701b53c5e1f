// SPDX-License-Identifier: Apache-2.0
// What all threads may read of a pool's chunks.
#pragma once

#include "quarry/host/registry/base_table.hpp"
#include "quarry/host/registry/object_starts.hpp"
#include "quarry/host/registry/single_writer.hpp"
#include "quarry/host/registry/slice_block.hpp"

#include <cstdint>

namespace quarry::inline QUARRY_ABI {

/// Which chunk: a number that stays the same while the chunk lives.
using chunk_id = std::uint32_t;
inline constexpr chunk_id no_chunk = ~chunk_id{0};

/// Owners of chunks that a strategy may tell apart.
inline constexpr std::uint32_t chunk_owners = 1 << 13;

/// A part of a block: where it lies, its neighbours, and what it is used for.
class chunk {
  static constexpr std::uint64_t free_flag = 1, cached_flag = 2, labelled_flag = 4;
  static constexpr std::uint32_t flag_bits = 3, size_shift = 16;

 public:
  single_writer<std::uint64_t> base;
  chunk_id prev, next;  // neighbours in the block
  // lists' of chunks that are free or cached; of one in use what was asked for
  single_writer<chunk_id> link_prev, link_next;

  [[nodiscard]] bytes size() const { return size_ >> size_shift; }
  [[nodiscard]] bool is_free() const { return (size_ & free_flag) != 0; }
  /// Not free, and not a user's: kept whole for the next request of about its size.
  [[nodiscard]] bool is_cached() const { return (size_ & cached_flag) != 0; }
  /// The registration has a label of it.
  [[nodiscard]] bool is_labelled() const { return (size_ & labelled_flag) != 0; }
  /// Who may have it, of a chunk that is not in use, for strategies with several owners.
  [[nodiscard]] std::uint32_t owner() const {
    return static_cast<std::uint32_t>(size_ >> flag_bits) & (chunk_owners - 1);
  }
  /// All of these at once, for who reads and writes several.
  class state {
   public:
    explicit state(std::uint64_t bits) : bits_{bits} {}
    [[nodiscard]] bytes size() const { return bits_ >> size_shift; }
    [[nodiscard]] bool is_cached() const { return (bits_ & cached_flag) != 0; }
    [[nodiscard]] bool is_labelled() const { return (bits_ & labelled_flag) != 0; }
    [[nodiscard]] bool has_flags() const {
      return (bits_ & (free_flag | cached_flag | labelled_flag)) != 0;
    }
    [[nodiscard]] state set_cached() const { return state{(bits_ | cached_flag) & ~labelled_flag}; }
    [[nodiscard]] state not_cached() const { return state{bits_ & ~cached_flag}; }

   private:
    friend class chunk;
    std::uint64_t bits_;
  };
  [[nodiscard]] state get() const { return state{size_}; }
  void set(state all) { size_ = all.bits_; }
  void set_size(bytes size) {
    size_ = size << size_shift | (size_ & ((std::uint64_t{1} << size_shift) - 1));
  }
  void set_free() { change(cached_flag | labelled_flag, free_flag); }
  void set_in_use() { change(free_flag, 0); }
  void set_labelled() { change(0, labelled_flag); }
  void set_owner(std::uint32_t owner) {
    change(std::uint64_t{chunk_owners - 1} << flag_bits, std::uint64_t{owner} << flag_bits);
  }

  /// What was asked for. A slice block's chunk has `by_no_user`: only its slices are somebody's.
  static constexpr bytes by_no_user = ~bytes{0};
  [[nodiscard]] bytes requested() const { return bytes{link_next} << 32 | link_prev; }
  void set_requested(bytes count) {
    link_prev = static_cast<chunk_id>(count);
    link_next = static_cast<chunk_id>(count >> 32);
  }

 private:
  friend struct chunk_array;
  friend class chunk_table;
  void change(std::uint64_t which, std::uint64_t to) { size_ = (size_ & ~which) | to; }

  single_writer<std::uint64_t> size_;
};
static_assert(sizeof(chunk) == 32);

/// All chunks that there ever were, by number.
struct chunk_array {
  single_writer<std::uint64_t> capacity;
  std::uint64_t unused[3];
  [[nodiscard]] chunk* begin() { return reinterpret_cast<chunk*>(this + 1); }
  [[nodiscard]] chunk const* begin() const { return reinterpret_cast<chunk const*>(this + 1); }

  // For those who look, and may have an old number: nullptr if it is too large; what is in use
  // there.
  [[nodiscard]] chunk const* at(chunk_id id) const {
    return id < capacity.load_acquire() ? begin() + id : nullptr;
  }
  [[nodiscard]] static chunk_record read(chunk const& one) {
    seen_chunk const found = look(one);
    bool const is_users = found.is_in_use && found.requested <= found.state >> chunk::size_shift;
    return {is_users ? found.base : 0, found.requested, (found.state & chunk::labelled_flag) != 0};
  }
  /// Where a chunk begins that is a slice block; 0 if it is none.
  [[nodiscard]] static std::uint64_t base_of_slices(chunk const& one) {
    seen_chunk const found = look(one);
    return found.is_in_use && found.requested == chunk::by_no_user ? found.base : 0;
  }

 private:
  struct seen_chunk {
    std::uint64_t base, state;
    bytes requested;
    bool is_in_use;
  };
  [[nodiscard]] static seen_chunk look(chunk const& one) {
    std::uint64_t const state = one.size_.load_acquire();
    bytes const requested =
        bytes{one.link_next.load_acquire()} << 32 | one.link_prev.load_acquire();
    std::uint64_t const at = one.base.load_acquire();
    // What was removed is neither free nor cached, and has no size. Its links may say no_chunk
    // twice, which is by_no_user.
    bool const is_in_use = state >> chunk::size_shift != 0 &&
                           (state & (chunk::free_flag | chunk::cached_flag)) == 0 &&
                           ((one.size_ ^ state) & ~chunk::labelled_flag) == 0;  // (V)
    return {at, state, requested, is_in_use};
  }
};

/// What other threads read of a table.
///
/// Lock-free, but for what is not there, which waits while a table is moved (so it is nothing for
/// signal handlers). A chunk in use does not change, but for its label, nor do its word in the
/// hash table, which tells most sizes by itself, and the start bit that leads to it; so what is
/// found of it is right whatever else happens. What is not found may have been on the move in the
/// hash table: that counts if `version` stood still, which goes up before and after each move.
/// What is written between is written by release stores (W), and looked at by acquire loads (S):
/// who saw any of it sees the version before it, too (Boehm, "Can seqlocks get along with
/// programming language memory models?", 2012). So the second look at `version`, or at a chunk's
/// state, may be relaxed (V): it comes after loads that acquire. A table that was outgrown reads
/// as zeros, as if it were empty.
struct chunk_view {
  single_writer<std::uint64_t> version;
  single_writer<chunk_array*> chunks;
  single_writer<base_table*> slots;
  single_writer<std::uint64_t> slots_life;  // of the table there, or that was there just now
  single_writer<object_starts*> starts;
  single_writer<slice_map*> slices;  // of chunks that are slice blocks
  // what its user wants to know of it; the registry adds a bit while it only looks
  mutable single_writer<std::uint64_t> owner;

  /// What is in use at `address`, which may be inside it. For an address whose owner
  /// gives it back at this moment, nothing, or what was or will be there.
  [[nodiscard]] chunk_record find(std::uint64_t address) const {
    if (slice_map const* const all = slices.load_acquire()) {
      if (slice_block const* const its = all->look(address)) return its->find(address);
    }
    chunk_record const found = find_base(address);
    return found ? found : find_midst(address);
  }

  /// Calls `visit(record)` for what is in use: of a slice block for its slices. What changes
  /// meanwhile may be missed.
  template <class Visit>
  void for_each(Visit const& visit) const {
    slice_map const* const all = slices.load_acquire();
    chunk_array const* const array = chunks.load_acquire();
    std::uint64_t const count = array == nullptr ? 0 : array->capacity.load_acquire();
    for (chunk_id id = 0; id < count; ++id) {
      chunk_record const found = chunk_array::read(array->begin()[id]);
      std::uint64_t const map_page =
          all == nullptr ? 0 : chunk_array::base_of_slices(array->begin()[id]);
      if (chunks.load_acquire() != array)
        return;  // it is outgrown, and may be another pool's by now
      if (found) visit(found);
      if (map_page == 0 || map_page >= object_starts::end) continue;
      slice_block const* const its = all->look(map_page);
      if (its != nullptr) its->for_each(visit);
    }
  }

 private:
  /// One try for what begins there, and one for what is smaller than a map page: most are.
  [[nodiscard, gnu::always_inline]] chunk_record find_base(std::uint64_t address) const {
    return address % base_table::unit == 0 ? find_start(address) : chunk_record{};
  }
  [[nodiscard]] chunk_record find_small(std::uint64_t address) const {
    object_starts const* const all = starts.load_acquire();
    std::uint64_t const base = all == nullptr ? 0 : all->last_small(address);
    if (base == 0) return {};
    chunk_record const found = find_start(base);
    return found.has(address) ? found : chunk_record{};
  }
  [[nodiscard, gnu::noinline]] chunk_record find_midst(std::uint64_t address) const {
    chunk_record const found = find_small(address);
    return found ? found : find_any(address);
  }
  [[nodiscard, gnu::noinline]] chunk_record find_any(std::uint64_t address) const {
    for (;;) {
      std::uint64_t const before = version.load_acquire();
      if (chunk_record const found = find_base(address)) return found;
      if (chunk_record const found = find_small(address)) return found;
      object_starts const* const all = starts.load_acquire();
      chunk_array const* const array = chunks.load_acquire();
      if (all == nullptr || array == nullptr) return {};
      auto const is_below = [&](chunk_id id) {
        return array->at(id) != nullptr && array->at(id)->base.load_acquire() <= address;
      };
      std::uint32_t const number = all->last_large(address, is_below);
      if (chunk const* const one = number == 0 ? nullptr : array->at(number - 1)) {
        chunk_record const found = chunk_array::read(*one);
        if (found.has(address) && chunks.load_acquire() == array) return found;
      }
      if (before % 2 == 0 && version == before) return {};  // (V)
    }
  }
  [[nodiscard, gnu::noinline]] chunk_record ask(chunk_id id) const {
    chunk_array const* const array = chunks.load_acquire();
    chunk const* const one = array == nullptr ? nullptr : array->at(id);
    chunk_record const found = one == nullptr ? chunk_record{} : chunk_array::read(*one);
    // or it is outgrown, and may be another pool's
    return chunks.load_acquire() == array ? found : chunk_record{};
  }
  [[nodiscard, gnu::always_inline]] chunk_record find_start(std::uint64_t base) const {
    base_table const* const table = slots.load_acquire();
    if (table == nullptr) return {};
    return table->look(base, slots_life.load_acquire(), [this](chunk_id id) { return ask(id); });
  }
};

}  // namespace quarry::inline QUARRY_ABI
