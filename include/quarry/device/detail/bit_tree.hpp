// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/device/detail/orders.hpp"
#include "quarry/simt/indirect_call.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// A set of numbers below `size` that all lanes share. It is a van Emde Boas tree with nodes of 64
/// bits and no minimum or maximum (after Gallatin, "Van Emde Boas Tree"). Level 0 has a bit for
/// each number. A bit of level k+1 says that a word of level k may be non-zero.
///
/// This is a trivially copyable view of zeroed words that the heap owns. Every operation is
/// lock-free and costs O(log_64 size), except where noted.
///
/// Invariant, while no operation is in progress: a bit above level 0 is one if the word that it
/// stands for is non-zero. (The converse may be false: a search that meets an empty word continues
/// and repairs the word's parent.)
///
/// Problem. The object of a number passes from the lane that inserts it to the lane that claims it.
/// A bit above a non-zero word must end as one.
/// Race. (U) of a lane that made a word non-zero meets (D) of a lane that made the word zero.
/// Re-check. (V) reads the word after (D), and sets the bit again if the word is non-zero. If (U)
/// comes first, (D) acquires it, and (V) sees the word. If (D) comes first, the bit ends as one.
/// Price. Two accesses for each level at which a word becomes zero. Rejected: clearing the bit by a
/// compare-and-swap that includes the word's value, since it would have to cover two words.
///
///   label  statement                       partner  guarantee
///   (I)    sets a number's bit, release    (J)      the inserter's accesses to the object happen
///   (J)    clears it, acquire              (I)      before the claimer's: only RMWs in between
///   (U)    sets a parent's bit, acq_rel    (D)      RMWs of one word: the later one sees what the
///   (D)    clears it, acq_rel              (U)      earlier one released
///   (V)    reads the word again, acquire   (U)      the bit ends as one if the word is non-zero
///   (L)    picks a candidate for (J)                none
class bit_tree {
 public:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  struct range {
    std::uint32_t first;
    std::uint32_t count;  // 0: nothing was claimed
  };

  bit_tree() = default;
  QUARRY_HD bit_tree(word* words, std::uint32_t size) : bit_tree{words, size, words_for(size)} {}
  /// Does not compute the number of words. Requires that `count` is `words_for(size)`.
  QUARRY_HD bit_tree(word* words, std::uint32_t size, std::uint32_t count)
      : words_{words}, size_{size}, count_{count} {}

  /// The number of words for a set of numbers below `size`.
  [[nodiscard]] QUARRY_HD static constexpr std::uint32_t words_for(std::uint32_t size) {
    std::uint32_t sum = 0;
    QUARRY_NO_UNROLL
    for (std::uint32_t level = 1;; ++level) {
      std::uint32_t const words = width_of(size, level);
      sum += words;
      if (words <= 1) return sum;
    }
  }

  [[nodiscard]] QUARRY_HD std::uint32_t size() const { return size_; }

  /// Adds `number`. Returns false and changes nothing if the set contains `number`.
  QUARRY_HD bool insert(std::uint32_t number) const {
    return insert_bits(number / bits_per_word, word{1} << number % bits_per_word) == 0;
  }

  /// Adds [first, first + count). Requires that the set contains none of these numbers.
  QUARRY_HD void insert_range(std::uint32_t first, std::uint32_t count) const {
    QUARRY_NO_UNROLL
    while (count != 0) {
      std::uint32_t const bit = first % bits_per_word;
      std::uint32_t const in_word = count < bits_per_word - bit ? count : bits_per_word - bit;
      insert_bits(first / bits_per_word, low_bits(in_word) << bit);
      first += in_word;
      count -= in_word;
    }
  }

  /// Removes `number`. Returns false if the set does not contain `number`: another lane claimed it.
  QUARRY_HD bool claim(std::uint32_t number) const {
    return claim_bits(number / bits_per_word, word{1} << number % bits_per_word) != 0;
  }

  [[nodiscard]] QUARRY_HD bool contains(std::uint32_t number) const {
    return (leaf(number / bits_per_word) >> number % bits_per_word & 1) != 0;
  }

  /// Whether the set looks empty. Constant time: reads the root.
  [[nodiscard]] QUARRY_HD bool empty() const {
    return ref(count_ - 1).load(simt::relaxed) == 0;  // (L) a hint
  }

  /// The number of ones of the root, at most 64: a rough measure of how many numbers the set has.
  /// Constant time.
  [[nodiscard]] QUARRY_HD std::uint32_t breadth() const {
    return count_ones(ref(count_ - 1).load(simt::relaxed));  // (L) a hint
  }

  /// The smallest number not below `start`, or `none`. May miss a number that another lane inserts
  /// concurrently, and a number whose upper levels another lane repairs concurrently.
  [[nodiscard]] QUARRY_HD std::uint32_t successor(std::uint32_t start) const {
    return simt::indirect_call([tree = *this, start]() -> std::uint32_t {
      std::uint32_t level = 0;
      if (start == 0) {  // from the root: most numbers may be absent
        QUARRY_NO_UNROLL
        while (tree.width_of(level) > bits_per_word) ++level;
      }
      std::uint32_t position = start;  // a bit of `level`
      bool descended = false;  // a bit of the parent led here and says that the word is non-zero
      QUARRY_NO_UNROLL
      while (position < tree.width_of(level)) {
        std::uint32_t const index = position / bits_per_word;
        word const bits = tree.ref(tree.base_of(level) + index).load(simt::relaxed);  // (L)
        word const ones = bits & ~low_bits(position % bits_per_word);
        if (ones != 0) {
          position = index * bits_per_word + lowest_one(ones);
          if (level == 0) return position;
          --level;
          position *= bits_per_word;
          descended = true;
          continue;
        }
        if (tree.width_of(level) <= bits_per_word) return none;
        ++level;
        if (descended) tree.repair(level, index);
        descended = false;
        position = index + 1;
      }
      return none;
    });
  }

  /// The smallest number not below `start`; if there is no such number, the smallest number; or
  /// `none`.
  [[nodiscard]] QUARRY_HD std::uint32_t successor_round(std::uint32_t start) const {
    std::uint32_t const found = successor(start);
    return found != none || start == 0 ? found : successor(0);
  }

  /// A pseudo-random number of the set, chosen by `random`, or `none` if the set is empty. In each
  /// word on the path from the root, all ones are equally likely.
  [[nodiscard]] QUARRY_HD std::uint32_t random_member(std::uint32_t random) const {
    return simt::indirect_call([tree = *this, random]() mutable -> std::uint32_t {
      descent const end = tree.descend(random);
      if (end.word_is_empty) {
        tree.repair(end.level + 1, end.position);
        return tree.successor_round(end.position << 6 * (end.level + 1));
      }
      return end.position;
    });
  }

  /// Does the same in less code: returns `none` also if the path from the root leads to an empty
  /// word, and repairs nothing.
  [[nodiscard]] QUARRY_HD std::uint32_t guess_member(std::uint32_t random) const {
    descent const end = descend(random);
    return end.word_is_empty ? none : end.position;
  }

  /// Removes up to `maximum` consecutive numbers. Considers `words_compared` words at most, from
  /// that of the smallest number not below `start` on; if there is no such number, from that of the
  /// smallest number. Takes the first range of at least half of `maximum` numbers, or else the
  /// longest range, where a range that a word ends counts as two. So a class of slices needs few
  /// runs also when most free ranges are short.
  [[nodiscard]] QUARRY_HD range claim_range(std::uint32_t maximum, std::uint32_t start = 0) const {
    return simt::indirect_call([tree = *this, maximum, start]() -> range {
      QUARRY_NO_UNROLL
      for (std::uint32_t first = tree.successor_round(start); first != none;
           first = tree.successor_round(first)) {
        if (maximum > 1) first = simt::indirect_call(&start_of_range, tree, first, maximum);
        std::uint32_t const count = simt::indirect_call(&claim_consecutive, tree, first, maximum);
        if (count != 0) return {first, count};  // otherwise other lanes claimed it: search again
      }
      return {0, 0};
    });
  }
  static constexpr std::uint32_t words_compared = 8;

  /// Removes the last `count` consecutive numbers of the set (first fit from the far end). Returns
  /// the first of these numbers, or `none`. O(size / 64). Claims from high to low, word by word,
  /// and inserts the claimed numbers again if a word lacks a number. If the ranges of several lanes
  /// overlap, the lane whose claims reach lowest succeeds.
  [[nodiscard]] QUARRY_HD std::uint32_t claim_back(std::uint32_t count) const {
    return simt::indirect_call([tree = *this, count]() -> std::uint32_t {
      std::uint32_t end = tree.size_;
      QUARRY_NO_UNROLL
      while (end >= count) {
        std::uint32_t const first = tree.last_range_before(end, count);
        if (first == none) return none;
        std::uint32_t const missing = tree.claim_all(first, count);
        if (missing == none) return first;
        end = first + count;  // search the same range again, because it has changed
      }
      return none;
    });
  }

  /// The number of members. O(size / 64). Exact while no operation is in progress.
  [[nodiscard]] QUARRY_HD std::uint32_t count() const {
    return simt::indirect_call([tree = *this]() -> std::uint32_t {
      std::uint32_t sum = 0;
      QUARRY_NO_UNROLL
      for (std::uint32_t i = 0; i < words_of(tree.size_); ++i) sum += count_ones(tree.leaf(i));
      return sum;
    });
  }

  /// Checks the invariant. Requires that no operation is in progress.
  [[nodiscard]] bool audit() const {
    for (std::uint32_t level = 0; width_of(level) > bits_per_word; ++level) {
      for (std::uint32_t i = 0; i < words_of(width_of(level)); ++i) {
        bool const is_marked =
            (words_[base_of(level + 1) + i / bits_per_word] >> i % bits_per_word & 1) != 0;
        if (words_[base_of(level) + i] != 0 && !is_marked) return false;
      }
    }
    return true;
  }

 private:
  [[nodiscard]] QUARRY_HD static constexpr std::uint32_t words_of(std::uint32_t bits) {
    return (bits + bits_per_word - 1) / bits_per_word;
  }

  /// The number of bits of a level of a set of numbers below `size`: size / 64^level, rounded up.
  [[nodiscard]] QUARRY_HD static constexpr std::uint32_t width_of(std::uint32_t size,
                                                                  std::uint32_t level) {
    return (size + (1u << 6 * level) - 1) >> 6 * level;
  }
  [[nodiscard]] QUARRY_HD constexpr std::uint32_t width_of(std::uint32_t level) const {
    return width_of(size_, level);
  }

  /// The index of a level's first word.
  [[nodiscard]] QUARRY_HD constexpr std::uint32_t base_of(std::uint32_t level) const {
    std::uint32_t base = 0;
    QUARRY_NO_UNROLL  // short code: instructions of slow paths are seldom in the nearest cache
        for (std::uint32_t i = 1; i <= level; ++i) base += width_of(i);
    return base;
  }

  /// The end of a random path from the root: a number, or an empty word of `level`.
  struct descent {
    std::uint32_t position;  // the number, or the index of the word in its level
    std::uint32_t level;
    bool word_is_empty;
  };
  [[nodiscard]] QUARRY_HD descent descend(std::uint32_t random) const {
    std::uint32_t level = 0;
    while (width_of(level) > bits_per_word) ++level;
    std::uint32_t index = 0;
    QUARRY_NO_UNROLL
    for (;; --level) {
      word const ones = ref(base_of(level) + index).load(simt::relaxed);  // (L)
      if (ones == 0) return {index, level, true};
      index = index * bits_per_word + random_one(ones, random);
      if (level == 0) return {index, 0, false};
      random = mix(random);
    }
  }

  [[nodiscard]] QUARRY_HD simt::atomic_ref<word> ref(std::uint32_t index) const {
    return simt::atomic_ref{words_[index]};
  }

  [[nodiscard]] QUARRY_HD word leaf(std::uint32_t index) const {
    return ref(index).load(simt::relaxed);  // (L) selects a candidate; (J) decides
  }

  /// Sets bits of leaf word `index`. Returns the bits that were set before.
  QUARRY_HD word insert_bits(std::uint32_t index, word bits) const {
    return simt::indirect_call([tree = *this, index, bits]() -> word {
      word const previous = tree.ref(index).fetch_or(bits, tree_insert_order);  // (I)
      if (previous == 0) tree.raise(0, index);
      return previous & bits;
    });
  }

  /// Clears bits of leaf word `index`. Returns the bits that this call cleared.
  QUARRY_HD word claim_bits(std::uint32_t index, word bits) const {
    return simt::indirect_call([tree = *this, index, bits]() -> word {
      word const previous = tree.ref(index).fetch_and(~bits, tree_claim_order);  // (J)
      if (previous != 0 && (previous & ~bits) == 0) tree.repair(1, index);
      return previous & bits;
    });
  }

  /// Records in the upper levels that word `index` of `level` became non-zero. Stops at the first
  /// parent that was already non-zero.
  QUARRY_HD void raise(std::uint32_t level, std::uint32_t index) const {
    return simt::indirect_call([tree = *this, level, index]() mutable {
      QUARRY_NO_UNROLL
      while (tree.width_of(level) > bits_per_word) {
        ++level;
        word const bit = word{1} << index % bits_per_word;
        index /= bits_per_word;
        simt::atomic_ref<word> const parent = tree.ref(tree.base_of(level) + index);
        if (parent.fetch_or(bit, simt::acq_rel) != 0) return;  // (U)
      }
    });
  }

  /// Repairs bit `bit` of `level` (above 0), which may stand for an empty word: clears the bit if
  /// the word is empty, then reads the word again.
  QUARRY_HD void repair(std::uint32_t level, std::uint32_t bit) const {
    return simt::indirect_call([tree = *this, level, bit]() mutable {
      QUARRY_NO_UNROLL
      while (level > 0 && tree.width_of(level - 1) > bits_per_word) {
        std::uint32_t const child = tree.base_of(level - 1) + bit;
        if (tree.ref(child).load(simt::relaxed) != 0) return;  // (L) early out; (V) decides
        word const mask = word{1} << bit % bits_per_word;
        word const previous = tree.ref(tree.base_of(level) + bit / bits_per_word)
                                  .fetch_and(~mask, simt::acq_rel);  // (D)
        if (tree.ref(child).load(simt::acquire) != 0) {              // (V)
          tree.raise(level - 1, bit);
          return;
        }
        if (previous == 0 || (previous & ~mask) != 0) return;
        bit /= bits_per_word;
        ++level;
      }
    });
  }

  /// The last position before `end` at which `count` consecutive ones seem to be.
  [[nodiscard]] QUARRY_HD std::uint32_t last_range_before(std::uint32_t end,
                                                          std::uint32_t count) const {
    return simt::indirect_call([tree = *this, end, count]() -> std::uint32_t {
      std::uint32_t lower_run = 0;  // consecutive ones from the lowest bit of the word above
      QUARRY_NO_UNROLL
      for (std::uint32_t index = words_of(end); index-- > 0;) {
        word ones = tree.leaf(index);
        if (index == end / bits_per_word) ones &= low_bits(end % bits_per_word);
        // the number of ones at the upper end
        std::uint32_t const upper_run = ones == ~word{0} ? bits_per_word : 63 - highest_one(~ones);
        if (lower_run != 0 && lower_run + upper_run >= count)
          return (index + 1) * bits_per_word - (count - lower_run);
        if (count <= bits_per_word) {
          word const starts = starts_of_runs(ones, count);
          if (starts != 0) return index * bits_per_word + highest_one(starts);
        }
        lower_run = ones == ~word{0} ? lower_run + bits_per_word : lowest_one(~ones);
      }
      return none;
    });
  }

  /// Claims all numbers of [first, first + count), from high to low, and returns `none`. If a
  /// number is missing, claims nothing and returns the lowest number of the range in whose word it
  /// was missing.
  [[nodiscard]] QUARRY_HD std::uint32_t claim_all(std::uint32_t first, std::uint32_t count) const {
    return simt::indirect_call([tree = *this, first, count]() -> std::uint32_t {
      std::uint32_t end = first + count;
      QUARRY_NO_UNROLL
      while (end > first) {
        std::uint32_t const index = (end - 1) / bits_per_word;
        std::uint32_t const low = index * bits_per_word > first ? index * bits_per_word : first;
        word const wanted = low_bits(end - low) << low % bits_per_word;
        word const claimed = tree.claim_bits(index, wanted);
        if (claimed != wanted) {
          if (claimed != 0) tree.insert_bits(index, claimed);
          tree.insert_range(end, first + count - end);
          return low;
        }
        end = low;
      }
      return none;
    });
  }

  /// Where `claim_range` should claim. Several loads are in flight together.
  QUARRY_SLOW static std::uint32_t start_of_range(bit_tree tree, std::uint32_t first,
                                                  std::uint32_t maximum) {
    std::uint32_t const enough =
        maximum / 2 < bits_per_word / 2 ? (maximum + 1) / 2 : bits_per_word / 2;
    std::uint32_t const words = words_of(tree.size_) - first / bits_per_word;
    std::uint32_t const end = words < words_compared ? words : words_compared;
    std::uint32_t longest = 0;
    std::uint32_t best = first;
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < end && longest < enough; i += 4) {
      word loaded[4];
      QUARRY_UNROLL_4
      for (std::uint32_t j = 0; j < 4; ++j)
        loaded[j] = i + j < end ? tree.leaf(first / bits_per_word + i + j) : 0;
      if (i == 0) loaded[0] &= ~low_bits(first % bits_per_word);
      QUARRY_UNROLL_4
      for (std::uint32_t j = 0; j < 4; ++j) {
        word starts = longest < enough ? loaded[j] : 0;
        std::uint32_t length = 0;
        QUARRY_NO_UNROLL
        for (word ones = starts; ones != 0 && length < enough; ones &= ones >> 1) {
          starts = ones;
          ++length;
        }
        if (length > longest) {
          longest = length;
          best = (first / bits_per_word + i + j) * bits_per_word + lowest_one(starts);
        }
      }
    }
    return best;
  }

  /// Removes up to `maximum` consecutive numbers that begin with `first`. Returns their count.
  QUARRY_SLOW static std::uint32_t claim_consecutive(bit_tree tree, std::uint32_t first,
                                                     std::uint32_t maximum) {
    std::uint32_t const end = maximum < tree.size_ - first ? first + maximum : tree.size_;
    std::uint32_t next = first;
    QUARRY_NO_UNROLL
    while (next < end) {
      std::uint32_t const claimed = simt::indirect_call(&claim_in_word, tree, next, end - next);
      next += claimed;
      if (claimed == 0 || next % bits_per_word != 0) break;
    }
    return next - first;
  }

  /// Does the same for the numbers in the word that contains `first`.
  QUARRY_SLOW static std::uint32_t claim_in_word(bit_tree tree, std::uint32_t first,
                                                 std::uint32_t maximum) {
    std::uint32_t const index = first / bits_per_word;
    std::uint32_t const bit = first % bits_per_word;
    std::uint32_t const length = lowest_one(~(tree.leaf(index) >> bit));
    if (length == 0) return 0;
    word const claimed =
        tree.claim_bits(index, low_bits(length < maximum ? length : maximum) << bit);
    // the number of claimed bits before the first gap
    std::uint32_t const count = lowest_one(~(claimed >> bit));
    word const surplus = claimed & ~(low_bits(count) << bit);
    if (surplus != 0) tree.insert_bits(index, surplus);
    return count;
  }

  word* words_ = nullptr;
  std::uint32_t size_ = 0;
  std::uint32_t count_ = 0;  // words
};

}  // namespace quarry::inline QUARRY_ABI::detail
