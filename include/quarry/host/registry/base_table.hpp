// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/host/registry/process_state.hpp"
#include "quarry/host/registry/single_writer.hpp"
#include "quarry/host/registry/type_stable_memory.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace quarry::inline QUARRY_ABI {

/// What is allocated somewhere; `base` 0 is nothing. Fits two registers.
struct chunk_record {
  std::uint64_t base = 0;
  bytes size : 63 = 0;  // as asked for
  bytes is_labelled : 1 = 0;

  chunk_record() = default;
  chunk_record(std::uint64_t at, bytes requested, bool has_label)
      : base{at}, size{requested & low_bits(63)}, is_labelled{has_label} {}
  explicit operator bool() const { return base != 0; }
  [[nodiscard]] bool has(std::uint64_t address) const {
    return base != 0 && address - base < std::max<bytes>(size, 1);
  }
};

/// From where a chunk begins to its number, and to the size that was asked for: a hash table with
/// linear probing.
///
/// A slot is one word, and who looks for a size needs no second one, the chunk's. From the top: the
/// rest of the hash, how far the word is from its home (5 bits), a code, and the chunk's number +
/// 1; a word of 0 is an empty slot. Begins are multiples of 16 below 2^48, and the hash is one to
/// one on these: its upper part is the home, so home and rest together are the begin itself
/// (quotienting; Knuth, "The Art of Computer Programming", 6.4, exercise 13). A larger table needs
/// fewer bits for the rest and more for numbers: 10 to 16 bits are left for the code.
///
/// A code is the size + 2; or that the chunk has no user now; or that the chunk must be asked: if
/// the size is too large or it has a label, and always `far` from home or beyond 2^48.
///
/// It lies in lasting memory; zeros are a table without slots. One thread writes, others may look:
/// a slot changes at once. What moves in `erase` may be missed meanwhile.
class base_table {
 public:
  static constexpr std::uint64_t end = std::uint64_t{1} << 48;
  static constexpr std::uint64_t unit = 16;
  static constexpr std::uint64_t max_slots = ~std::uint32_t{0};
  static constexpr std::uint32_t no_number = ~std::uint32_t{0};

  [[nodiscard]] static bytes bytes_of(std::uint64_t slots) {
    return sizeof(base_table) + slots * sizeof(entry);
  }
  /// At least `minimum`: as many as a small table has room for anyway.
  [[nodiscard]] static std::uint64_t slots_for(std::uint64_t minimum) {
    bytes const room = type_stable_size(bytes_of(minimum));
    return room <= 4096 ? (room - sizeof(base_table)) / sizeof(entry)
                        : std::max<std::uint64_t>(minimum, 64);
  }
  /// Fewer slots have no bits left for a code where numbers go up to `numbers`.
  [[nodiscard]] static std::uint64_t min_slots(std::uint64_t numbers) { return numbers / 8; }

  /// Makes a table of memory of zeros. Requires min_slots.
  void lay_out(std::uint64_t slots, std::uint64_t numbers) {
    std::uint32_t const rest_bits =
        std::min(hash_bits, hash_bits - 32 + highest_one((~std::uint32_t{0} / slots) | 1) + 1);
    number_bits_ = highest_one(numbers | 1) + 1;
    number_mask_ = low_bits(number_bits_);
    rest_shift_ = hash_bits - rest_bits;
    further_ = word{1} << (bits_per_word - rest_bits - 5);
    tag_mask_ = ~(further_ - 1);
    code_mask_ = ~tag_mask_ & ~number_mask_;
    told_sizes_ = (code_mask_ >> number_bits_) - sizes + 1;
    slots_ = slots;
    life_ =
        process_wide.lives.fetch_add(1, std::memory_order_relaxed) + 1;  // only the number counts
  }
  [[nodiscard]] std::uint64_t slots() const { return slots_; }
  /// The slot where `base` would be if there were nothing else.
  [[nodiscard]] static std::uint64_t home(std::uint64_t base, std::uint64_t slots) {
    return home_of(hash_of(base), slots);
  }
  /// The sum of how far words are from their homes, none counted for more than 31. O(slots).
  [[nodiscard]] std::uint64_t total_displacement() const {
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < slots_; ++i) sum += (slots_begin()[i] & far_mask()) / further_;
    return sum;
  }
  /// Whether it has bits for this number + 1.
  [[nodiscard]] bool has_bits_for(std::uint64_t number) const { return number + 1 <= number_mask_; }

  /// Where a chunk is; `number` is `no_number` if it is not.
  struct location {
    std::uint32_t number;
    std::uint64_t slot;
  };
  /// The place of what begins at `base`. `base_of(number)` knows where a chunk begins. O(1)
  /// expected.
  template <class BeginOf>
  [[nodiscard, gnu::always_inline]] location find(std::uint64_t base,
                                                  BeginOf const& base_of) const {
    std::uint64_t const slots = slots_;
    word const tags = tag_mask_, further = further_;
    std::uint64_t const hash = hash_of(base);
    std::uint64_t at = home_of(hash, slots);
    word tag = tag_at_home(hash);
    for (;;) {
      word const here = slots_begin()[at];
      if (here == 0) return {no_number, 0};
      if (((here ^ tag) & tags) == 0) {
        std::uint32_t const number = number_of(here, number_mask_);
        if (base_of(number) == base) return {number, at};
      }
      if (++at == slots) at = 0;
      if ((tag & far * further) != far * further) tag += further;
    }
  }
  /// Requires an empty slot, and that nothing begins there. `is_told`: who looks finds `size` here,
  /// if it fits, and not at the chunk.
  void insert(std::uint64_t base, std::uint32_t number, bytes size, bool is_told) {
    if (base >= end) told_sizes_ = 0;  // its hash is another's, too
    std::uint64_t const hash = hash_of(base);
    std::uint64_t at = home_of(hash, slots_);
    word tag = tag_at_home(hash);
    for (; slots_begin()[at] != 0; tag = one_further(tag)) {
      if (++at == slots_) at = 0;
    }
    slots_begin()[at] = (tag & tag_mask_) |
                        (is_told ? code_for(tag, size) : word{asks}) << number_bits_ | (number + 1);
  }
  /// From now on who looks finds nothing in this slot; or `size`; or asks the chunk.
  void set_nobodys(std::uint64_t slot) { set_code(slot, nobodys); }
  void set_size(std::uint64_t slot, bytes size) {
    auto& here = slots_begin()[slot];
    word const before = here;
    here = (before & ~code_mask_) | code_for(before, size) << number_bits_;
  }
  void set_asks(std::uint64_t slot) { set_code(slot, asks); }

  /// Empties a slot. Later words of its cluster move up, so that no mark is left behind: calls
  /// `on_move(number, slot)` for those that have no user.
  template <class BeginOf, class OnMove>
  void erase(std::uint64_t hole, BeginOf const& base_of, OnMove const& on_move) {
    for (std::uint64_t at = hole;;) {
      if (++at == slots_) at = 0;
      word const here = slots_begin()[at];
      if (here == 0) break;
      std::uint64_t from_home = (here & far_mask()) / further_;
      if (from_home == far)
        from_home = distance(home_of(hash_of(base_of(number_of(here, number_mask_))), slots_), at);
      std::uint64_t const way = distance(hole, at);
      if (from_home < way) continue;  // it would come before its home
      slots_begin()[hole] = (here & ~far_mask()) | std::min<word>(far, from_home - way) * further_;
      if ((here & code_mask_) == 0) on_move(number_of(here, number_mask_), hole);
      hole = at;
    }
    slots_begin()[hole] = 0;
  }

  /// The number of this layout: of all in the process no other has it. 0 while there is none.
  [[nodiscard]] std::uint64_t life() const { return life_; }

  /// For other threads: what is in use at `base`, a multiple of 16, as long as the table is the
  /// one of that `life`. `ask(number)` reads the chunk of a number, which may be an old one.
  ///
  /// A table that is outgrown becomes zeros, and another pool's table or this one's later. So what
  /// was found counts only if the life is the same after all was read, by acquire loads (S), which
  /// this last one (V) cannot overtake.
  template <class Ask>
  [[nodiscard]] chunk_record look(std::uint64_t base, std::uint64_t life, Ask const& ask) const {
    if (life_.load_acquire() != life) return {};
    std::uint64_t const slots = slots_.load_acquire();
    std::uint64_t const tags = tag_mask_.load_acquire(), code_bits = code_mask_.load_acquire();
    std::uint64_t const hash = hash_of(base);
    std::uint64_t at = home_of(hash, slots);
    word tag = hash << rest_shift_.load_acquire();
    word const further = further_.load_acquire();
    for (std::uint64_t left = slots; left != 0; --left) {
      word const here = slots_begin()[at].load_acquire();
      if (here == 0) break;
      if (((here ^ tag) & tags) == 0) {
        word const code = (here & code_bits) >> number_bits_.load_acquire();
        if (code >= sizes && base < end)
          return life_ == life ? chunk_record{base, code - sizes, false} : chunk_record{};  // (V)
        if (code == asks) {
          chunk_record const found = ask(number_of(here, number_mask_.load_acquire()));
          if (found.base == base) return life_ == life ? found : chunk_record{};  // (V)
        }
      }
      if (++at == slots) at = 0;
      if ((tag & far * further) != far * further) tag += further;
    }
    return {};
  }

 private:
  using entry = single_writer<word>;
  enum codes : word { nobodys, asks, sizes };
  static constexpr std::uint32_t hash_bits = 44;
  static constexpr word far = 31;  // from home, or farther

  // The top 44 bits are the hash of begin / 16: folded, and times an odd number (Knuth, 6.4), each
  // of which is one to one. A product alone maps even steps to even steps, which pile up for one
  // size of chunks in twenty. Of 10^5 numbers at random this one displaces least where begins lie
  // 16 bytes to 64 KiB apart, by powers of two.
  [[nodiscard]] static std::uint64_t hash_of(std::uint64_t base) {
    std::uint64_t const number = base / unit;
    return (number ^ number >> 16) * (std::uint64_t{0x289e2be381f} << (bits_per_word - hash_bits));
  }
  [[nodiscard]] static std::uint64_t home_of(std::uint64_t hash, std::uint64_t slots) {
    return (hash >> 32) * slots >> 32;
  }
  /// The rest of the hash, and zeros below it.
  [[nodiscard]] word tag_at_home(std::uint64_t hash) const { return hash << rest_shift_; }
  [[nodiscard]] word far_mask() const { return far * further_; }
  [[nodiscard]] word one_further(word tag) const {
    return (tag & far_mask()) == far_mask() ? tag : tag + further_;
  }
  [[nodiscard]] bool is_of(word here, word tag) const { return ((here ^ tag) & tag_mask_) == 0; }
  [[nodiscard]] static std::uint32_t number_of(word here, word numbers) {
    return static_cast<std::uint32_t>(here & numbers) - 1;
  }
  [[nodiscard]] std::uint64_t distance(std::uint64_t from, std::uint64_t to) const {
    return to - from + (to < from ? std::uint64_t{slots_} : 0);
  }
  [[nodiscard]] word code_for(word tag, bytes size) const {
    return size < told_sizes_ && (~tag & far_mask()) != 0 ? size + sizes : word{asks};
  }
  void set_code(std::uint64_t slot, word code) {
    auto& here = slots_begin()[slot];
    here = (here & ~code_mask_) | code << number_bits_;
  }
  [[nodiscard]] entry* slots_begin() { return reinterpret_cast<entry*>(this + 1); }
  [[nodiscard]] entry const* slots_begin() const {
    return reinterpret_cast<entry const*>(this + 1);
  }

  // How words are laid out: written once in a life.
  single_writer<std::uint32_t> rest_shift_, number_bits_;
  single_writer<word> tag_mask_, code_mask_, number_mask_;
  single_writer<word> further_;  // a step from home
  bytes told_sizes_ = 0;         // that have a code; 0 once something begins beyond `end`
  single_writer<std::uint64_t> slots_;
  single_writer<std::uint64_t> life_;
};

}  // namespace quarry::inline QUARRY_ABI
