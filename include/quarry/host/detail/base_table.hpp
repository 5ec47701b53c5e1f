// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/host/detail/process_state.hpp"
#include "quarry/host/detail/single_writer.hpp"
#include "quarry/host/detail/type_stable_memory.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace quarry::inline QUARRY_ABI::detail {

/// An allocation: its base address and size. `base` 0 means no allocation. Fits two registers.
struct chunk_record {
  std::uint64_t base = 0;
  bytes size : 63 = 0;  // requested
  bytes is_labelled : 1 = 0;

  chunk_record() = default;
  chunk_record(std::uint64_t address, bytes requested, bool has_label)
      : base{address}, size{requested & ~(bytes{1} << 63)}, is_labelled{has_label} {}
  explicit operator bool() const { return base != 0; }
  [[nodiscard]] bool has(std::uint64_t address) const {
    return base != 0 && address - base < std::max<bytes>(size, 1);
  }
};

/// Maps the base address of a chunk to the chunk's number and requested size. A hash table with
/// linear probing.
///
/// A slot is one word. Most sizes lie in that word, so a reader need not load the chunk. From the
/// top, the word holds:
///   the remainder of the hash;
///   the distance of the word from its home slot (5 bits);
///   a code;
///   the chunk's number + 1.
/// A word of 0 is an empty slot. Base addresses are multiples of 16 below 2^48, and the hash is one
/// to one on these. Its upper part is the home slot, so home and remainder together identify the
/// base address (quotienting; Knuth, "The Art of Computer Programming", 6.4, exercise 13). A larger
/// table needs fewer bits for the remainder and more bits for numbers. The code has 10 to 16 bits,
/// and is one of:
///   the requested size + 2;
///   `unallocated`: the chunk is not allocated;
///   `needs_chunk`: the reader must load the chunk. This code is used if the size is too large for
///     the code, if the chunk has a label, if the word is `max_distance` from its home, or if the
///     table has had a base address beyond 2^48.
///
/// The table lies in type-stable memory. Zeros are a table without slots. One thread writes while
/// others read. A slot changes in one store. A reader may miss a word that `erase` moves.
class base_table {
 public:
  static constexpr std::uint64_t end = std::uint64_t{1} << 48;
  static constexpr std::uint64_t unit = 16;
  static constexpr std::uint64_t max_slots = ~std::uint32_t{0};
  static constexpr std::uint32_t no_number = ~std::uint32_t{0};

  [[nodiscard]] static bytes bytes_of(std::uint64_t slots) {
    return sizeof(base_table) + slots * sizeof(entry);
  }
  /// The number of slots of a table that needs at least `minimum`. A small table uses all of its
  /// memory.
  [[nodiscard]] static std::uint64_t slots_for(std::uint64_t minimum) {
    bytes const room = type_stable_size(bytes_of(minimum));
    return room <= 4096 ? (room - sizeof(base_table)) / sizeof(entry)
                        : std::max<std::uint64_t>(minimum, 64);
  }
  /// The minimum number of slots for chunk numbers up to `numbers`. With fewer slots no bits are
  /// left for a code.
  [[nodiscard]] static std::uint64_t min_slots(std::uint64_t numbers) { return numbers / 8; }

  /// Makes a table in zeroed memory. Requires `slots >= min_slots(numbers)`.
  void lay_out(std::uint64_t slots, std::uint64_t numbers) {
    std::uint32_t const remainder_bits =
        std::min(hash_bits, hash_bits - 32 + highest_one((~std::uint32_t{0} / slots) | 1) + 1);
    number_bits_ = highest_one(numbers | 1) + 1;
    number_mask_ = low_bits(number_bits_);
    remainder_shift_ = hash_bits - remainder_bits;
    distance_step_ = word{1} << (bits_per_word - remainder_bits - 5);
    tag_mask_ = ~(distance_step_ - 1);
    code_mask_ = ~tag_mask_ & ~number_mask_;
    coded_sizes_ = (code_mask_ >> number_bits_) - sizes + 1;
    slots_ = slots;
    life_ = process_wide.lives.fetch_add(1, std::memory_order_relaxed) + 1;  // atomicity suffices
  }
  [[nodiscard]] std::uint64_t slots() const { return slots_; }
  /// The slot of `base` in an otherwise empty table.
  [[nodiscard]] static std::uint64_t home(std::uint64_t base, std::uint64_t slots) {
    return home_of(hash_of(base), slots);
  }
  /// The sum of the words' distances from their homes. A distance counts as 31 at most. O(slots).
  [[nodiscard]] std::uint64_t total_displacement() const {
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < slots_; ++i)
      sum += (entries()[i] & distance_mask()) / distance_step_;
    return sum;
  }
  /// Whether a word has enough bits for `number + 1`.
  [[nodiscard]] bool has_bits_for(std::uint64_t number) const { return number + 1 <= number_mask_; }

  /// A chunk's number and slot. `number` is `no_number` if the table does not have the chunk.
  struct location {
    std::uint32_t number;
    std::uint64_t slot;
  };
  /// The location of the chunk whose base address is `base`. `base_of(number)` returns the base
  /// address of a chunk. O(1) expected.
  template <class BaseOf>
  [[nodiscard, gnu::always_inline]] location find(std::uint64_t base, BaseOf const& base_of) const {
    std::uint64_t const slots = slots_;
    word const tags = tag_mask_, step = distance_step_;
    std::uint64_t const hash = hash_of(base);
    std::uint64_t slot = home_of(hash, slots);
    word tag = tag_at_home(hash);
    for (;;) {
      word const value = entries()[slot];
      if (value == 0) return {no_number, 0};
      if (((value ^ tag) & tags) == 0) {
        std::uint32_t const number = number_of(value, number_mask_);
        if (base_of(number) == base) return {number, slot};
      }
      if (++slot == slots) slot = 0;
      if ((tag & max_distance * step) != max_distance * step) tag += step;
    }
  }
  /// Adds a chunk. Requires an empty slot, and that the table has no chunk at `base`.
  /// `stores_size`: the slot holds `size`, if it fits, so that readers need not load the chunk.
  void insert(std::uint64_t base, std::uint32_t number, bytes size, bool stores_size) {
    if (base >= end) coded_sizes_ = 0;  // another base address has the same hash
    std::uint64_t const hash = hash_of(base);
    std::uint64_t slot = home_of(hash, slots_);
    word tag = tag_at_home(hash);
    for (; entries()[slot] != 0; tag = next_tag(tag)) {
      if (++slot == slots_) slot = 0;
    }
    entries()[slot] = (tag & tag_mask_) |
                      (stores_size ? code_for(tag, size) : word{needs_chunk}) << number_bits_ |
                      (number + 1);
  }
  /// Set what readers find in this slot from now on: no allocation; `size`; or that they must load
  /// the chunk.
  void set_unallocated(std::uint64_t slot) { set_code(slot, unallocated); }
  void set_size(std::uint64_t slot, bytes size) {
    auto& value = entries()[slot];
    word const old_value = value;
    value = (old_value & ~code_mask_) | code_for(old_value, size) << number_bits_;
  }
  void set_needs_chunk(std::uint64_t slot) { set_code(slot, needs_chunk); }

  /// Empties a slot. Later words of its cluster move up, so no tombstone is left. Calls
  /// `on_move(number, slot)` for each moved chunk that is not allocated.
  template <class BaseOf, class OnMove>
  void erase(std::uint64_t hole, BaseOf const& base_of, OnMove const& on_move) {
    for (std::uint64_t slot = hole;;) {
      if (++slot == slots_) slot = 0;
      word const value = entries()[slot];
      if (value == 0) break;
      std::uint64_t home_distance = (value & distance_mask()) / distance_step_;
      if (home_distance == max_distance)
        home_distance =
            distance(home_of(hash_of(base_of(number_of(value, number_mask_))), slots_), slot);
      std::uint64_t const hole_distance = distance(hole, slot);
      if (home_distance < hole_distance) continue;  // the hole is before the word's home
      entries()[hole] =
          (value & ~distance_mask()) |
          std::min<word>(max_distance, home_distance - hole_distance) * distance_step_;
      if ((value & code_mask_) == 0) on_move(number_of(value, number_mask_), hole);
      hole = slot;
    }
    entries()[hole] = 0;
  }

  /// The number of this layout, unique in the process. 0 means no layout.
  [[nodiscard]] std::uint64_t life() const { return life_; }

  /// For other threads: the allocation at `base`, a multiple of 16. Returns no allocation if the
  /// table's life is not `life`. `ask(number)` reads the chunk of a number, which may be stale.
  ///
  /// An outgrown table becomes zeros. Later its memory may become a table of this pool or of
  /// another pool. So a result is valid only if the life is unchanged after all other reads. Those
  /// are acquire loads (S), so the last load of the life (V) cannot be reordered before them.
  template <class Ask>
  [[nodiscard]] chunk_record look(std::uint64_t base, std::uint64_t life, Ask const& ask) const {
    if (life_.load_acquire() != life) return {};
    std::uint64_t const slots = slots_.load_acquire();
    std::uint64_t const tags = tag_mask_.load_acquire(), code_bits = code_mask_.load_acquire();
    std::uint64_t const hash = hash_of(base);
    std::uint64_t slot = home_of(hash, slots);
    word tag = hash << remainder_shift_.load_acquire();
    word const step = distance_step_.load_acquire();
    for (std::uint64_t remaining = slots; remaining != 0; --remaining) {
      word const value = entries()[slot].load_acquire();
      if (value == 0) break;
      if (((value ^ tag) & tags) == 0) {
        word const code = (value & code_bits) >> number_bits_.load_acquire();
        if (code >= sizes && base < end)
          return life_ == life ? chunk_record{base, code - sizes, false} : chunk_record{};  // (V)
        if (code == needs_chunk) {
          chunk_record const found = ask(number_of(value, number_mask_.load_acquire()));
          if (found.base == base) return life_ == life ? found : chunk_record{};  // (V)
        }
      }
      if (++slot == slots) slot = 0;
      if ((tag & max_distance * step) != max_distance * step) tag += step;
    }
    return {};
  }

 private:
  using entry = single_writer<word>;
  enum codes : word { unallocated, needs_chunk, sizes };
  static constexpr std::uint32_t hash_bits = 44;
  static constexpr word max_distance = 31;  // 31 slots or more

  // The top 44 bits are the hash of base / 16: the number is folded, then multiplied by an odd
  // number (Knuth, 6.4). Both steps are one to one. A product alone maps even steps to even steps,
  // which collide for one chunk size in twenty. Of 10^5 random multipliers, this one gives the
  // smallest displacement for base addresses 16 bytes to 64 KiB apart, in powers of two.
  [[nodiscard]] static std::uint64_t hash_of(std::uint64_t base) {
    std::uint64_t const number = base / unit;
    return (number ^ number >> 16) * (std::uint64_t{0x289e2be381f} << (bits_per_word - hash_bits));
  }
  [[nodiscard]] static std::uint64_t home_of(std::uint64_t hash, std::uint64_t slots) {
    return (hash >> 32) * slots >> 32;
  }
  /// The remainder of the hash, with zeros below it.
  [[nodiscard]] word tag_at_home(std::uint64_t hash) const { return hash << remainder_shift_; }
  [[nodiscard]] word distance_mask() const { return max_distance * distance_step_; }
  [[nodiscard]] word next_tag(word tag) const {
    return (tag & distance_mask()) == distance_mask() ? tag : tag + distance_step_;
  }
  [[nodiscard]] static std::uint32_t number_of(word value, word numbers) {
    return static_cast<std::uint32_t>(value & numbers) - 1;
  }
  [[nodiscard]] std::uint64_t distance(std::uint64_t first, std::uint64_t last) const {
    return last - first + (last < first ? std::uint64_t{slots_} : 0);
  }
  [[nodiscard]] word code_for(word tag, bytes size) const {
    return size < coded_sizes_ && (~tag & distance_mask()) != 0 ? size + sizes : word{needs_chunk};
  }
  void set_code(std::uint64_t slot, word code) {
    auto& value = entries()[slot];
    value = (value & ~code_mask_) | code << number_bits_;
  }
  [[nodiscard]] entry* entries() { return reinterpret_cast<entry*>(this + 1); }
  [[nodiscard]] entry const* entries() const { return reinterpret_cast<entry const*>(this + 1); }

  // The layout of words. Written once per life.
  single_writer<std::uint32_t> remainder_shift_, number_bits_;
  single_writer<word> tag_mask_, code_mask_, number_mask_;
  single_writer<word> distance_step_;  // one slot of distance
  bytes coded_sizes_ = 0;  // sizes below this have a code; 0 once a chunk is beyond `end`
  single_writer<std::uint64_t> slots_;
  single_writer<std::uint64_t> life_;
};

}  // namespace quarry::inline QUARRY_ABI::detail
