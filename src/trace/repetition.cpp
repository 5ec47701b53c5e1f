// SPDX-License-Identifier: Apache-2.0
#include "trace/repetition.hpp"

#include <algorithm>
#include <unordered_map>

namespace quarry::inline QUARRY_ABI::trace {
namespace {

constexpr std::size_t sequence = 8;  // allocations that are hashed together
constexpr std::size_t max_candidates = 16;

/// Lengths at which sequences of allocations recur, the most frequent first.
[[nodiscard]] std::vector<std::uint32_t> candidates(std::span<std::uint64_t const> hashes) {
  std::unordered_map<std::uint64_t, std::uint32_t> latest;
  std::unordered_map<std::uint32_t, std::uint32_t> counts;
  std::uint64_t hash = 0;
  constexpr std::uint64_t factor = 0x9e3779b97f4a7c15;
  std::uint64_t oldest_factor = 1;
  for (std::size_t i = 0; i < sequence; ++i) oldest_factor *= factor;
  for (std::uint32_t i = 0; i < hashes.size(); ++i) {
    hash = hash * factor + hashes[i];
    if (i >= sequence) hash -= oldest_factor * hashes[i - sequence];
    if (i + 1 < sequence) continue;
    auto const [found, is_new] = latest.try_emplace(hash, i);
    if (is_new) continue;
    ++counts[i - found->second];
    found->second = i;
  }
  std::vector<std::pair<std::uint32_t, std::uint32_t>> sorted(counts.begin(), counts.end());
  std::ranges::sort(sorted, [](auto const& a, auto const& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  std::vector<std::uint32_t> result;
  for (auto const& each : sorted) {
    if (result.size() < max_candidates) result.push_back(each.first);
  }
  return result;
}

}  // namespace

repetition find_repetition(std::span<lifetime const> allocations) {
  auto const duration = [&](std::uint32_t i) {
    auto const end = allocations[i].end;
    return end == not_freed ? end : end - i;
  };
  auto const count = static_cast<std::uint32_t>(allocations.size());
  std::vector<std::uint64_t> hashes(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    std::uint64_t const mixed = (allocations[i].size * 0xbf58476d1ce4e5b9) ^ duration(i);
    hashes[i] = (mixed ^ (mixed >> 31)) * 0x94d049bb133111eb;
  }
  repetition best;
  for (std::uint32_t const length : candidates(hashes)) {
    std::uint32_t begin = 0;
    for (std::uint32_t i = 0; i + length <= count; ++i) {
      std::uint32_t const next = i + length;
      if (next < count && allocations[i].size == allocations[next].size &&
          duration(i) == duration(next))
        continue;
      // [begin, next) repeats
      std::uint32_t const total = next - begin, best_total = best.end - best.begin;
      if (total / 3 >= length && total >= count / 2 &&
          (total > best_total || (total == best_total && length < best.length)))
        best = {begin, next, length};
      begin = i + 1;
    }
  }
  return best;
}

}  // namespace quarry::inline QUARRY_ABI::trace
