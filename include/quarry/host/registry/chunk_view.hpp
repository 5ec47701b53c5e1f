// SPDX-License-Identifier: Apache-2.0
// The readers' view of a pool's chunks, for any thread.
#pragma once

#include "quarry/host/registry/base_table.hpp"
#include "quarry/host/registry/chunk.hpp"
#include "quarry/host/registry/object_starts.hpp"
#include "quarry/host/registry/single_writer.hpp"
#include "quarry/host/registry/slice_block.hpp"

#include <cstdint>

namespace quarry::inline QUARRY_ABI::detail {

/// All chunks that a table ever had, by number.
struct chunk_array {
  single_writer<std::uint64_t> capacity;
  std::uint64_t unused[3];
  [[nodiscard]] chunk* begin() { return reinterpret_cast<chunk*>(this + 1); }
  [[nodiscard]] chunk const* begin() const { return reinterpret_cast<chunk const*>(this + 1); }

  // For readers, whose number may be old. `at`: nullptr if the number is too large. `read`: the
  // allocation of a chunk; empty if it has none.
  [[nodiscard]] chunk const* at(chunk_id id) const {
    return id < capacity.load_acquire() ? begin() + id : nullptr;
  }
  [[nodiscard]] static chunk_record read(chunk const& one) {
    seen_chunk const found = look(one);
    bool const is_users = found.is_in_use && found.requested <= found.state >> chunk::size_shift;
    return {is_users ? found.base : 0, found.requested, (found.state & chunk::labelled_flag) != 0};
  }
  /// The address of a chunk that is a slice block; 0 if it is none.
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
        bytes{one.link_next_.load_acquire()} << 32 | one.link_prev_.load_acquire();
    std::uint64_t const at = one.base.load_acquire();
    // A removed chunk is neither free nor cached, and its size is 0. Both of its links may be
    // no_chunk, which reads as by_no_user.
    bool const is_in_use = state >> chunk::size_shift != 0 &&
                           (state & (chunk::free_flag | chunk::cached_flag)) == 0 &&
                           ((one.size_ ^ state) & ~chunk::labelled_flag) == 0;  // (V)
    return {at, state, requested, is_in_use};
  }
};

/// What other threads read of a chunk_table.
///
/// A lookup that finds an allocation is lock-free. A lookup that finds none waits while the table
/// moves, so signal handlers must not look up addresses.
///
/// Three things do not change while a chunk is allocated: the chunk, except for its label; its word
/// in the hash table, which holds most sizes itself; and the start bit that leads to it. So an
/// allocation that is found is right, whatever else happens. An allocation that is not found may
/// have been moving in the hash table. That result counts only if `version` did not change; the
/// writer raises it before and after each move. Between the two it writes by release stores (W),
/// and readers read by acquire loads (S). A reader that saw any of these writes also sees the
/// version from before them (Boehm, "Can seqlocks get along with programming language memory
/// models?", 2012). So the second load of `version`, or of a chunk's state, may be relaxed (V): it
/// comes after acquire loads. A table that was outgrown reads as zeros, as an empty one does.
struct chunk_view {
  single_writer<std::uint64_t> version;
  single_writer<chunk_array*> chunks;
  single_writer<base_table*> slots;
  single_writer<std::uint64_t> slots_life;  // of the table in `slots`, or of the one before it
  single_writer<object_starts*> starts;
  single_writer<slice_map*> slices;  // of the chunks that are slice blocks
  // chosen by the table's user; the registry, which otherwise only reads, adds a bit
  mutable single_writer<std::uint64_t> owner;

  /// The allocation that has `address`, which may be an interior pointer. While the allocation is
  /// being freed: nothing, or the allocation before or after the free.
  [[nodiscard]] chunk_record find(std::uint64_t address) const {
    if (slice_map const* const loaded = slices.load_acquire()) {
      if (slice_block const* const block = loaded->look(address)) return block->find(address);
    }
    chunk_record const found = find_base(address);
    return found ? found : find_midst(address);
  }

  /// Calls `visit(record)` for each allocation, slices included. May miss allocations that change
  /// meanwhile.
  template <class Visit>
  void for_each(Visit const& visit) const {
    slice_map const* const loaded = slices.load_acquire();
    chunk_array const* const array = chunks.load_acquire();
    std::uint64_t const count = array == nullptr ? 0 : array->capacity.load_acquire();
    for (chunk_id id = 0; id < count; ++id) {
      chunk_record const found = chunk_array::read(array->begin()[id]);
      std::uint64_t const map_page =
          loaded == nullptr ? 0 : chunk_array::base_of_slices(array->begin()[id]);
      if (chunks.load_acquire() != array)
        return;  // the array was outgrown, and may be another pool's by now
      if (found) visit(found);
      if (map_page == 0 || map_page >= object_starts::end) continue;
      slice_block const* const block = loaded->look(map_page);
      if (block != nullptr) block->for_each(visit);
    }
  }

 private:
  /// Tries once for an allocation at `address`; `find_small` does for one that is smaller than a
  /// map page. Most are either.
  [[nodiscard, gnu::always_inline]] chunk_record find_base(std::uint64_t address) const {
    return address % base_table::unit == 0 ? find_start(address) : chunk_record{};
  }
  [[nodiscard]] chunk_record find_small(std::uint64_t address) const {
    object_starts const* const loaded = starts.load_acquire();
    std::uint64_t const base = loaded == nullptr ? 0 : loaded->last_small(address);
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
      object_starts const* const loaded = starts.load_acquire();
      chunk_array const* const array = chunks.load_acquire();
      if (loaded == nullptr || array == nullptr) return {};
      auto const is_below = [&](chunk_id id) {
        return array->at(id) != nullptr && array->at(id)->base.load_acquire() <= address;
      };
      std::uint32_t const number = loaded->last_large(address, is_below);
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
    // else the array was outgrown, and may be another pool's
    return chunks.load_acquire() == array ? found : chunk_record{};
  }
  [[nodiscard, gnu::always_inline]] chunk_record find_start(std::uint64_t base) const {
    base_table const* const table = slots.load_acquire();
    if (table == nullptr) return {};
    return table->look(base, slots_life.load_acquire(), [this](chunk_id id) { return ask(id); });
  }
};

}  // namespace quarry::inline QUARRY_ABI::detail
