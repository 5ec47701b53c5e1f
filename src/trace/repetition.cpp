// SPDX-License-Identifier: Apache-2.0
#include "trace/repetition.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>
#include <utility>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

/// Allocations that are hashed together. Loops within a step, such as layers, repeat short
/// sequences; only longer ones tell the step.
constexpr std::array<std::uint32_t, 4> windows{8, 64, 512, 4096};
constexpr std::size_t max_candidates = 12;  // of each window
/// A key that differs belongs to a part if this number of keys after it are equal.
constexpr std::uint32_t equal_after_difference = 8;

using key_span = std::span<std::uint64_t const>;

/// Calls `visit(i, hash)` for each window of `width` keys that ends at allocation i.
template <class Visit>
void for_each_window(std::span<std::uint64_t const> keys, std::uint32_t width, Visit&& visit) {
  constexpr std::uint64_t factor = 0x9e3779b97f4a7c15;
  auto const mixed = [&](std::uint32_t i) {
    std::uint64_t const key = (keys[i] + 1) * 0xbf58476d1ce4e5b9;
    return (key ^ (key >> 31)) * 0x94d049bb133111eb;
  };
  std::uint64_t hash = 0, oldest_factor = 1;
  for (std::uint32_t i = 0; i < width; ++i) oldest_factor *= factor;
  for (std::uint32_t i = 0; i < keys.size(); ++i) {
    hash = hash * factor + mixed(i);
    if (i >= width) hash -= oldest_factor * mixed(i - width);
    if (i + 1 >= width) visit(i, hash);
  }
}

/// Lengths at which windows of keys recur: the most frequent ones of each width.
[[nodiscard]] std::vector<std::uint32_t> candidates(key_span keys) {
  std::vector<std::uint32_t> result;
  for (std::uint32_t const width : windows) {
    if (keys.size() < 3 * std::size_t{width}) break;
    std::unordered_map<std::uint64_t, std::uint32_t> latest;
    std::unordered_map<std::uint32_t, std::uint32_t> counts;
    for_each_window(keys, width, [&](std::uint32_t i, std::uint64_t hash) {
      auto const [found, is_new] = latest.try_emplace(hash, i);
      if (is_new) return;
      ++counts[i - found->second];
      found->second = i;
    });
    std::vector<std::pair<std::uint32_t, std::uint32_t>> sorted(counts.begin(), counts.end());
    std::ranges::sort(sorted, [](auto const& a, auto const& b) {
      return a.second != b.second ? a.second > b.second : a.first < b.first;
    });
    sorted.resize(std::min(sorted.size(), max_candidates));
    for (auto const& each : sorted) result.push_back(each.first);
  }
  std::ranges::sort(result);
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

/// The allocations [begin, end) repeat a sequence.
struct part {
  std::uint32_t begin, end;
};

/// The parts that repeat sequences of this length three times at least.
[[nodiscard]] std::vector<part> parts_of(key_span keys, std::uint32_t length) {
  std::vector<part> result;
  if (keys.size() < 3 * std::size_t{length}) return result;
  auto const pairs = static_cast<std::uint32_t>(keys.size()) - length;
  auto const is_equal = [&](std::uint32_t i) { return keys[i] == keys[i + length]; };
  std::uint32_t begin = 0, differences = 0;
  auto const end_part = [&](std::uint32_t end) {
    if (end - begin >= 2 * length && differences <= (end - begin) / 4)
      result.push_back({result.empty() ? begin : std::max(begin, result.back().end), end + length});
  };
  std::uint32_t equal = 0;  // equal pairs in a row, from i on: counted at most once for each i
  for (std::uint32_t i = 0; i < pairs; ++i) {
    if (equal > 0) {
      --equal;
      continue;
    }
    while (i + equal < pairs && is_equal(i + equal)) ++equal;
    if (equal > 0) {
      --equal;
      continue;
    }
    std::uint32_t after = 0;
    while (after < equal_after_difference && i + 1 + after < pairs && is_equal(i + 1 + after))
      ++after;
    if (after == equal_after_difference && i > begin) {
      ++differences;
      continue;
    }
    end_part(i);
    begin = i + 1;
    differences = 0;
  }
  end_part(pairs);
  return result;
}

[[nodiscard]] std::uint32_t duration_of(std::span<lifetime const> all, std::uint32_t i) {
  return all[i].end == not_freed ? not_freed : all[i].end - i;
}

/// Allocations of the parts that are freed before the sequence begins again: those that a plan of
/// one repetition can place.
[[nodiscard]] std::uint64_t placeable(std::span<lifetime const> all, std::vector<part> const& parts,
                                      std::uint32_t length) {
  std::uint64_t result = 0;
  for (part const& each : parts) {
    for (std::uint32_t i = each.begin; i < each.end; ++i) result += duration_of(all, i) <= length;
  }
  return result;
}

/// Finds the position in the sequence at which another part begins: by a window of keys that the
/// sequence has once. Long windows are tried first, because short ones may be those of another
/// loop; short windows lie between keys that differ.
class sequence_positions {
 public:
  explicit sequence_positions(key_span sequence)
      : length_{static_cast<std::uint32_t>(sequence.size())} {
    for (std::uint32_t const width : {64u, 16u, 4u}) {
      windows_.push_back({std::min(length_, width), {}});
      auto& [used, positions] = windows_.back();
      std::vector<std::uint64_t> twice(sequence.begin(), sequence.end());
      twice.insert(twice.end(), sequence.begin(), sequence.begin() + (used - 1));
      for_each_window(twice, used, [&, first = 0u](std::uint32_t, std::uint64_t hash) mutable {
        auto const [found, is_new] = positions.try_emplace(hash, first++);
        if (!is_new) found->second = ambiguous;
      });
    }
  }
  [[nodiscard]] std::optional<std::uint32_t> find(key_span part) const {
    for (auto const& [width, positions] : windows_) {
      std::optional<std::uint32_t> result;
      auto const searched = part.first(std::min<std::size_t>(part.size(), length_ + width));
      for_each_window(searched, width, [&, first = 0u](std::uint32_t, std::uint64_t hash) mutable {
        auto const found = positions.find(hash);
        std::uint32_t const offset = first++ % length_;
        if (result || found == positions.end() || found->second == ambiguous) return;
        result = (found->second + length_ - offset) % length_;
      });
      if (result) return result;
    }
    return std::nullopt;
  }

 private:
  static constexpr std::uint32_t ambiguous = ~std::uint32_t{0};
  struct window_positions {
    std::uint32_t width;
    std::unordered_map<std::uint64_t, std::uint32_t> positions;  // by the hashes of windows
  };
  std::uint32_t length_;
  std::vector<window_positions> windows_;
};

/// A part, the first allocation of which has this position in the sequence.
struct placed_part {
  part place;
  std::uint32_t position;
};

/// The value that nine of ten do not exceed. Sorts the values, of which there is one at least.
template <class Value>
[[nodiscard]] Value most_of(std::vector<Value>& values) {
  std::ranges::sort(values);
  return values[(9 * values.size() + 9) / 10 - 1];
}

/// Finds the sizes and the lifetime of each position of the sequence.
class sequence_statistics {
 public:
  sequence_statistics(std::span<lifetime const> all, std::vector<placed_part> const& parts,
                      std::uint32_t length)
      : all_{all}, parts_{parts}, length_{length} {}

  [[nodiscard]] repetition::allocation at(std::uint32_t position) {
    sizes_.clear();
    durations_.clear();
    for_each(position, [&](std::uint32_t i, part const&) { sizes_.push_back(all_[i].size); });
    if (sizes_.empty()) return {};
    repetition::allocation result{.size = most_of(sizes_)};
    bool const varies = sizes_[sizes_.size() / 10] != result.size;
    if (varies) result.min_size = sizes_.front();
    std::size_t long_lived = 0;
    for_each(position, [&](std::uint32_t i, part const& its_part) {
      if (!serves(result, all_[i].size)) return;
      std::uint32_t const duration = duration_of(all_, i);
      if (duration > length_) {
        // what follows a part may keep its allocations
        long_lived += i + length_ < its_part.end ? 1 : 0;
      } else if (i + duration <= its_part.end) {
        durations_.push_back(duration);
      }
    });
    if (durations_.empty() || durations_.size() < long_lived) return result;
    result.duration = most_of(durations_);
    return result;
  }
  /// The bytes of a position's allocations that one repetition has places for.
  [[nodiscard]] bytes served_bytes(std::uint32_t position, repetition::allocation const& found) {
    bytes result = 0;
    if (found.duration == 0) return 0;
    for_each(position, [&](std::uint32_t i, part const&) {
      if (serves(found, all_[i].size)) result += all_[i].size;
    });
    return result;
  }

 private:
  [[nodiscard]] static bool serves(repetition::allocation const& found, bytes size) {
    return size == found.size ||
           (found.min_size != 0 && size >= found.min_size && size < found.size);
  }
  template <class Visit>
  void for_each(std::uint32_t position, Visit const& visit) {
    for (auto const& [place, first] : parts_) {
      std::uint32_t const offset = (position + length_ - first) % length_;
      for (std::uint32_t i = place.begin + offset; i < place.end; i += length_) visit(i, place);
    }
  }

  std::span<lifetime const> all_;
  std::vector<placed_part> const& parts_;
  std::uint32_t length_;
  std::vector<bytes> sizes_;
  std::vector<std::uint32_t> durations_;
};

}  // namespace

repetition find_repetition(std::span<lifetime const> all, key_span keys) {
  std::vector<part> parts;
  std::uint32_t length = 0;
  std::uint64_t most = 0;
  for (std::uint32_t const candidate : candidates(keys)) {
    auto found = parts_of(keys, candidate);
    std::uint64_t const count = placeable(all, found, candidate);
    if (count <= most) continue;
    std::uint64_t covered = 0;
    for (part const& each : found) covered += each.end - each.begin;
    if (2 * covered < all.size()) continue;
    most = count;
    length = candidate;
    parts = std::move(found);
  }
  if (parts.empty()) return {};

  // A plan has all that comes before the repetition, and the sequence once. So it begins with a
  // long part: short ones before it are better planned as they are.
  std::uint32_t longest = 0;
  for (part const& each : parts) longest = std::max(longest, each.end - each.begin);
  std::uint32_t const begin = std::ranges::find_if(parts, [&](part const& each) {
                                return each.end - each.begin >= longest / 2;
                              })->begin;
  sequence_positions const positions{keys.subspan(begin, length)};
  std::vector<placed_part> placed;
  std::uint64_t covered = 0;
  for (part const& each : parts) {
    auto const position = each.begin == begin
                              ? std::optional<std::uint32_t>{0}
                              : positions.find(keys.subspan(each.begin, each.end - each.begin));
    if (!position) continue;
    placed.push_back({each, *position});
    covered += each.end - each.begin;
  }
  repetition result{begin, static_cast<double>(covered) / length, {}};
  sequence_statistics statistics{all, placed, length};
  bytes served = 0, total = 0;
  for (lifetime const& each : all) total += each.size;
  for (std::uint32_t position = 0; position < length; ++position) {
    result.sequence.push_back(statistics.at(position));
    served += statistics.served_bytes(position, result.sequence.back());
  }
  // If the large allocations do not repeat, a plan of one repetition would not help.
  return 2 * served < total ? repetition{} : result;
}

}  // namespace quarry::inline QUARRY_ABI::trace
