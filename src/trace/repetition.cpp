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
/// A size that differs belongs to a part if this number of sizes after it are equal.
constexpr std::uint32_t equal_after_difference = 8;

/// Calls `visit(i, hash)` for each window of `width` sizes that ends at allocation i.
template <class Visit>
void for_each_window(std::span<lifetime const> all, std::uint32_t width, Visit&& visit) {
  constexpr std::uint64_t factor = 0x9e3779b97f4a7c15;
  auto const mixed = [&](std::uint32_t i) {
    std::uint64_t const size = all[i].size * 0xbf58476d1ce4e5b9;
    return (size ^ (size >> 31)) * 0x94d049bb133111eb;
  };
  std::uint64_t hash = 0, oldest_factor = 1;
  for (std::uint32_t i = 0; i < width; ++i) oldest_factor *= factor;
  for (std::uint32_t i = 0; i < all.size(); ++i) {
    hash = hash * factor + mixed(i);
    if (i >= width) hash -= oldest_factor * mixed(i - width);
    if (i + 1 >= width) visit(i, hash);
  }
}

/// Lengths at which windows of sizes recur: the most frequent ones of each width.
[[nodiscard]] std::vector<std::uint32_t> candidates(std::span<lifetime const> all) {
  std::vector<std::uint32_t> result;
  for (std::uint32_t const width : windows) {
    if (all.size() < 3 * std::size_t{width}) break;
    std::unordered_map<std::uint64_t, std::uint32_t> latest;
    std::unordered_map<std::uint32_t, std::uint32_t> counts;
    for_each_window(all, width, [&](std::uint32_t i, std::uint64_t hash) {
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
[[nodiscard]] std::vector<part> parts_of(std::span<lifetime const> all, std::uint32_t length) {
  std::vector<part> result;
  if (all.size() < 3 * std::size_t{length}) return result;
  auto const pairs = static_cast<std::uint32_t>(all.size()) - length;
  auto const is_equal = [&](std::uint32_t i) { return all[i].size == all[i + length].size; };
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

/// Finds the position in the sequence at which another part begins: by a window of sizes that the
/// sequence has once. Long windows are tried first, because short ones may be those of another
/// loop; short windows lie between sizes that differ.
class sequence_positions {
 public:
  explicit sequence_positions(std::span<lifetime const> sequence)
      : length_{static_cast<std::uint32_t>(sequence.size())} {
    for (std::uint32_t const width : {64u, 16u, 4u}) {
      windows_.push_back({std::min(length_, width), {}});
      auto& [used, positions] = windows_.back();
      std::vector<lifetime> twice(sequence.begin(), sequence.end());
      twice.insert(twice.end(), sequence.begin(), sequence.begin() + (used - 1));
      for_each_window(twice, used, [&, first = 0u](std::uint32_t, std::uint64_t hash) mutable {
        auto const [found, is_new] = positions.try_emplace(hash, first++);
        if (!is_new) found->second = ambiguous;
      });
    }
  }
  [[nodiscard]] std::optional<std::uint32_t> find(std::span<lifetime const> part) const {
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

/// Collects the sizes and lifetimes of each position.
class sequence_statistics {
 public:
  explicit sequence_statistics(std::uint32_t length) : positions_(length) {}

  /// Adds the allocations of a part, the first of which has this position. First for the sizes, in
  /// all parts, then for the lifetimes.
  void add_sizes(std::span<lifetime const> all, part const& added, std::uint32_t position) {
    for_each(added, position, [&](std::uint32_t i, statistics& at) {
      if (at.votes == 0) at.size = all[i].size;  // the majority, if there is one
      at.votes += at.size == all[i].size ? 1 : -1;
    });
  }
  void add_lifetimes(std::span<lifetime const> all, part const& added, std::uint32_t position) {
    auto const length = static_cast<std::uint32_t>(positions_.size());
    for_each(added, position, [&](std::uint32_t i, statistics& at) {
      ++at.total;
      if (at.size != all[i].size) return;
      ++at.equal;
      std::uint32_t const duration = duration_of(all, i);
      if (duration > length) {
        at.long_lived += i + length < added.end;  // what follows a part may keep its allocations
      } else if (i + duration <= added.end) {
        at.longest = std::max(at.longest, duration);
        ++at.short_lived;
      }
    });
  }
  /// The bytes of a part for which one repetition has places.
  [[nodiscard]] bytes served_bytes(std::span<lifetime const> all, part const& served,
                                   std::uint32_t position) {
    bytes result = 0;
    for_each(served, position, [&](std::uint32_t i, statistics const& at) {
      if (has_place(at) && at.size == all[i].size) result += at.size;
    });
    return result;
  }
  [[nodiscard]] std::vector<repetition::allocation> result() const {
    std::vector<repetition::allocation> sequence;
    for (statistics const& each : positions_)
      sequence.push_back({each.size, has_place(each) ? each.longest : 0});
    return sequence;
  }

 private:
  struct statistics {
    bytes size = 0;
    std::int64_t votes = 0;
    std::uint32_t total = 0, equal = 0, short_lived = 0, long_lived = 0, longest = 0;
  };

  [[nodiscard]] static bool has_place(statistics const& at) {
    return 2 * at.equal > at.total && at.short_lived >= at.long_lived;
  }

  template <class Visit>
  void for_each(part const& visited, std::uint32_t position, Visit const& visit) {
    for (std::uint32_t i = visited.begin; i < visited.end; ++i) {
      visit(i, positions_[position]);
      position = position + 1 == positions_.size() ? 0 : position + 1;
    }
  }

  std::vector<statistics> positions_;
};

}  // namespace

repetition find_repetition(std::span<lifetime const> all) {
  std::vector<part> parts;
  std::uint32_t length = 0;
  std::uint64_t most = 0;
  for (std::uint32_t const candidate : candidates(all)) {
    auto found = parts_of(all, candidate);
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

  std::uint32_t const begin = parts.front().begin;
  sequence_positions const positions{all.subspan(begin, length)};
  sequence_statistics statistics{length};
  std::uint64_t covered = 0;
  std::vector<std::pair<part, std::uint32_t>> found;
  for (part const& each : parts) {
    auto const position = each.begin == begin
                              ? std::optional<std::uint32_t>{0}
                              : positions.find(all.subspan(each.begin, each.end - each.begin));
    if (!position) continue;
    found.emplace_back(each, *position);
    covered += each.end - each.begin;
  }
  for (auto const& [each, position] : found) statistics.add_sizes(all, each, position);
  for (auto const& [each, position] : found) statistics.add_lifetimes(all, each, position);
  bytes served = 0, total = 0;
  for (lifetime const& each : all) total += each.size;
  for (auto const& [each, position] : found) served += statistics.served_bytes(all, each, position);
  if (2 * served < total)
    return {};  // the large allocations do not repeat: a plan of a period would not help
  return {begin, static_cast<double>(covered) / length, statistics.result()};
}

}  // namespace quarry::inline QUARRY_ABI::trace
