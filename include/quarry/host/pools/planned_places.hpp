// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/host/pools/placement.hpp"
#include "quarry/host/pools/plan.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// A set of numbers below a limit, with searches in both directions. O(log limit).
class number_set {
 public:
  explicit number_set(std::size_t limit) {
    do {
      limit = limit / bits_per_word + 1;
      levels_.emplace_back(limit);
    } while (limit > 1);
  }
  void insert(std::size_t number) {
    for (auto& level : levels_) {
      level[number / bits_per_word] |= word{1} << (number % bits_per_word);
      number /= bits_per_word;
    }
  }
  void erase(std::size_t number) {
    for (auto& level : levels_) {
      word& bits = level[number / bits_per_word];
      bits &= ~(word{1} << (number % bits_per_word));
      if (bits != 0) return;
      number /= bits_per_word;
    }
  }
  /// The smallest element that is not less than `number`.
  [[nodiscard]] std::optional<std::size_t> at_least(std::size_t number) const {
    for (std::size_t height = 0; height < levels_.size(); ++height) {
      std::size_t const index = number / bits_per_word;
      if (index >= levels_[height].size()) return std::nullopt;
      auto const count = static_cast<std::uint32_t>(number % bits_per_word);
      if (word const bits = levels_[height][index] & ~low_bits(count); bits != 0) {
        number = index * bits_per_word + lowest_one(bits);
        while (height-- != 0) number = number * bits_per_word + lowest_one(levels_[height][number]);
        return number;
      }
      number = index + 1;
    }
    return std::nullopt;
  }
  /// The largest element that is less than `number`.
  [[nodiscard]] std::optional<std::size_t> less_than(std::size_t number) const {
    for (std::size_t height = 0; height < levels_.size(); ++height) {
      std::size_t const index = number / bits_per_word;
      auto const count = static_cast<std::uint32_t>(number % bits_per_word);
      if (word const bits = levels_[height][index] & low_bits(count); bits != 0) {
        number = index * bits_per_word + highest_one(bits);
        while (height-- != 0)
          number = number * bits_per_word + highest_one(levels_[height][number]);
        return number;
      }
      number = index;
    }
    return std::nullopt;
  }
  /// The bytes of memory outside this object.
  [[nodiscard]] bytes footprint() const {
    bytes result = levels_.capacity() * sizeof(levels_[0]);
    for (auto const& level : levels_) result += level.capacity() * sizeof(word);
    return result;
  }

 private:
  std::vector<std::vector<word>> levels_;  // bit i of a level: word i of the level below is not 0
};

/// The places of a plan that are in use. Each place begins at an offset of the plan. The offsets
/// have numbers, and the set of places in use is a set of these numbers. Only the constructor
/// allocates memory.
///
/// Invariant, checked by `audit`: places in use do not overlap, and lie in the plan's range.
class planned_places {
 public:
  explicit planned_places(plan const& served)
      : offsets_{distinct_offsets(served)},
        offset_numbers_(served.allocations.size(), none),
        in_use_{offsets_.size()},
        places_(offsets_.size()) {
    for (std::size_t i = 0; i < served.allocations.size(); ++i) {
      bytes const offset = served.allocations[i].offset;
      if (offset != not_planned) offset_numbers_[i] = number_of(offset);
    }
  }

  /// Returns the offset of a planned allocation's place. Returns nullopt if the allocation has no
  /// place in the plan, or if some of its first `granted` bytes are in use. O(log n).
  [[nodiscard]] std::optional<bytes> free_offset(std::uint32_t allocation, bytes granted) const {
    std::uint32_t const number = offset_numbers_[allocation];
    if (number == none) return std::nullopt;
    bytes const offset = offsets_[number];
    auto const next = in_use_.at_least(number);
    if (next && offsets_[*next] < offset + granted) return std::nullopt;
    auto const previous = in_use_.less_than(number);
    if (previous && offsets_[*previous] + places_[*previous].granted > offset) return std::nullopt;
    return offset;
  }
  /// Allocates the place that `free_offset` found, for a request of `requested` bytes. O(log n).
  void allocate(std::uint32_t allocation, bytes granted, bytes requested) {
    std::uint32_t const number = offset_numbers_[allocation];
    in_use_.insert(number);
    places_[number] = {requested, granted};
    granted_ += granted;
    ++count_;
  }
  /// Frees a place and returns its sizes. Returns empty sizes and changes nothing if no place in
  /// use begins at `offset`. O(log n).
  chunk_sizes deallocate(bytes offset) noexcept {
    std::uint32_t const number = number_of(offset);
    if (!is_in_use(number, offset)) return {};
    in_use_.erase(number);
    granted_ -= places_[number].granted;
    --count_;
    return std::exchange(places_[number], {});
  }
  /// The requested bytes of the place in use that begins at `offset`.
  [[nodiscard]] std::optional<bytes> size_of(bytes offset) const noexcept {
    std::uint32_t const number = number_of(offset);
    return is_in_use(number, offset) ? std::optional{places_[number].requested} : std::nullopt;
  }
  /// Calls `visit(offset, sizes)` for each place in use, in the order of the offsets. O(n).
  template <class Visit>
  void for_each(Visit const& visit) const {
    for (std::size_t i = 0; i < offsets_.size(); ++i) {
      if (places_[i]) visit(offsets_[i], places_[i]);
    }
  }
  /// The number of places in use, and their bytes.
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] bytes granted() const { return granted_; }
  /// The bytes of bookkeeping outside this object.
  [[nodiscard]] bytes footprint() const {
    return offsets_.capacity() * sizeof(bytes) + offset_numbers_.capacity() * sizeof(none) +
           in_use_.footprint() + places_.capacity() * sizeof(chunk_sizes);
  }

  /// Describes each violated invariant. `size`: the bytes of the plan's range.
  [[nodiscard]] std::vector<std::string> audit(bytes size) const {
    std::vector<std::string> problems;
    bytes end = 0, granted = 0;
    std::size_t found = 0;
    for (std::size_t i = 0; i < offsets_.size(); ++i) {
      bool const is_taken = in_use_.at_least(i) == std::optional{i};
      if (is_taken != bool{places_[i]})
        problems.push_back("the set of places is wrong at offset " + std::to_string(offsets_[i]));
      if (!is_taken) continue;
      ++found;
      if (offsets_[i] < end)
        problems.push_back("two places overlap at offset " + std::to_string(offsets_[i]));
      end = offsets_[i] + places_[i].granted;
      granted += places_[i].granted;
    }
    if (end > size) problems.push_back("the last place exceeds the range");
    if (granted != granted_) problems.push_back("the sum of granted bytes is wrong");
    if (found != count_) problems.push_back("the count of places is wrong");
    return problems;
  }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  [[nodiscard]] static std::vector<bytes> distinct_offsets(plan const& served) {
    std::vector<bytes> result;
    for (auto const& each : served.allocations) {
      if (each.offset != not_planned) result.push_back(each.offset);
    }
    std::ranges::sort(result);
    result.erase(std::unique(result.begin(), result.end()), result.end());
    return result;
  }
  [[nodiscard]] bool is_in_use(std::uint32_t number, bytes offset) const noexcept {
    return number != offsets_.size() && offsets_[number] == offset && places_[number];
  }
  [[nodiscard]] std::uint32_t number_of(bytes offset) const noexcept {
    return static_cast<std::uint32_t>(std::ranges::lower_bound(offsets_, offset) -
                                      offsets_.begin());
  }

  std::vector<bytes> offsets_;                 // sorted
  std::vector<std::uint32_t> offset_numbers_;  // of each planned allocation, or `none`
  number_set in_use_;                          // numbers of offsets
  std::vector<chunk_sizes> places_;  // indexed by the number of the offset; empty sizes: free
  std::size_t count_ = 0;
  bytes granted_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI
