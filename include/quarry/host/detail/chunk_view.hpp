// SPDX-License-Identifier: Apache-2.0
// The readers' view of a pool's chunks, for any thread.
#pragma once

#include "quarry/host/detail/base_table.hpp"
#include "quarry/host/detail/chunk.hpp"
#include "quarry/host/detail/object_starts.hpp"
#include "quarry/host/detail/single_writer.hpp"
#include "quarry/host/detail/slice_block.hpp"

#include <cstdint>

namespace quarry::inline QUARRY_ABI::detail {

/// The chunks of a table by number, including removed chunks.
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
  [[nodiscard]] static chunk_record read(chunk const& source) {
    chunk_copy const found = look(source);
    bool const is_allocation =
        found.is_in_use && found.requested <= found.state >> chunk::size_shift;
    return {is_allocation ? found.base : 0, found.requested,
            (found.state & chunk::labelled_flag) != 0};
  }
  /// The address of a chunk that is a slice block; 0 if the chunk is no slice block.
  [[nodiscard]] static std::uint64_t base_of_slices(chunk const& source) {
    chunk_copy const found = look(source);
    return found.is_in_use && found.requested == chunk::no_request ? found.base : 0;
  }

 private:
  struct chunk_copy {
    std::uint64_t base, state;
    bytes requested;
    bool is_in_use;
  };
  [[nodiscard]] static chunk_copy look(chunk const& source) {
    std::uint64_t const state = source.size_.load_acquire();
    bytes const requested =
        bytes{source.link_next_.load_acquire()} << 32 | source.link_prev_.load_acquire();
    std::uint64_t const base = source.base.load_acquire();
    // A removed chunk is neither free nor cached, and its size is 0. Both of its links may be
    // no_chunk, which reads as no_request.
    bool const is_in_use = state >> chunk::size_shift != 0 &&
                           (state & (chunk::free_flag | chunk::cached_flag)) == 0 &&
                           ((source.size_ ^ state) & ~chunk::labelled_flag) == 0;  // (V)
    return {base, state, requested, is_in_use};
  }
};

/// The part of a chunk_table that other threads read.
///
/// A lookup that finds an allocation is lock-free. A lookup that finds none waits while the table
/// moves, so signal handlers must not look up addresses.
///
/// Three things do not change while a chunk is allocated: the chunk except for its label, its word
/// in the hash table, and its start bit. The word has most sizes itself. So an allocation that is
/// found is correct, whatever else happens. An allocation that is not found may have been moving in
/// the hash table. That result counts only if `version` did not change; the writer raises it before
/// and after each move. Between the two it writes by release stores (W), and readers read by
/// acquire loads (S). A reader that saw any of these writes also sees the version from before them
/// (Boehm, "Can seqlocks get along with programming language memory models?", 2012). So the second
/// load of `version`, or of a chunk's state, may be relaxed (V): it comes after acquire loads. A
/// table that was outgrown reads as zeros, as an empty one does.
struct chunk_view {
  single_writer<std::uint64_t> version;
  single_writer<chunk_array*> chunks;
  single_writer<base_table*> slots;
  single_writer<std::uint64_t> slots_life;  // of the table in `slots`, or of the one before it
  single_writer<object_starts*> starts;
  single_writer<slice_map*> slices;  // of the chunks that are slice blocks
  // chosen by the table's user; the registry, which otherwise only reads, adds a bit
  mutable single_writer<std::uint64_t> owner;

  /// The allocation that contains `address`, which may be an interior pointer. If the allocation is
  /// freed during the call, returns no allocation, the allocation before the free, or the
  /// allocation after it.
  [[nodiscard]] chunk_record find(std::uint64_t address) const {
    if (slice_block const* const block = slice_block_of(address)) return block->find(address);
    chunk_record const found = find_base(address);
    return found ? found : find_midst(address);
  }

  /// The slice block that has `address`, which is below 2^48; nullptr if none has. If the map page
  /// is lent, the borrower's block.
  [[nodiscard]] slice_block* slice_block_of(std::uint64_t address) const {
    slice_block* const block = own_slice_block_of(address);
    return block == nullptr ? nullptr : block->for_readers();
  }
  /// The same, but the lender's block if the map page is lent.
  [[nodiscard]] slice_block* own_slice_block_of(std::uint64_t address) const {
    slice_map const* const loaded = slices.load_acquire();
    return loaded == nullptr ? nullptr : loaded->look(address);
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
        return;  // the array was outgrown, and may belong to another pool
      if (found) visit(found);
      if (map_page == 0 || map_page >= object_starts::end) continue;
      if (slice_block* const block = loaded->look(map_page)) block->for_readers()->for_each(visit);
    }
  }

 private:
  /// `find_base` tries once to find the allocation whose base address is `address`. `find_small`
  /// tries once to find the allocation smaller than a map page that contains `address`. Most
  /// lookups end here.
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
      std::uint64_t const old_version = version.load_acquire();
      if (chunk_record const found = find_base(address)) return found;
      if (chunk_record const found = find_small(address)) return found;
      object_starts const* const loaded = starts.load_acquire();
      chunk_array const* const array = chunks.load_acquire();
      if (loaded == nullptr || array == nullptr) return {};
      auto const is_below = [&](chunk_id id) {
        chunk const* const each = array->at(id);  // once: it may become null meanwhile
        return each != nullptr && each->base.load_acquire() <= address;
      };
      std::uint32_t const number = loaded->last_large(address, is_below);
      if (chunk const* const source = number == 0 ? nullptr : array->at(number - 1)) {
        chunk_record const found = chunk_array::read(*source);
        if (found.has(address) && chunks.load_acquire() == array) return found;
      }
      if (old_version % 2 == 0 && version == old_version) return {};  // (V)
    }
  }
  [[nodiscard, gnu::noinline]] chunk_record ask(chunk_id id) const {
    chunk_array const* const array = chunks.load_acquire();
    chunk const* const source = array == nullptr ? nullptr : array->at(id);
    chunk_record const found = source == nullptr ? chunk_record{} : chunk_array::read(*source);
    // otherwise the array was outgrown, and may belong to another pool
    return chunks.load_acquire() == array ? found : chunk_record{};
  }
  [[nodiscard, gnu::always_inline]] chunk_record find_start(std::uint64_t base) const {
    base_table const* const table = slots.load_acquire();
    if (table == nullptr) return {};
    return table->look(base, slots_life.load_acquire(), [this](chunk_id id) { return ask(id); });
  }
};

}  // namespace quarry::inline QUARRY_ABI::detail
