// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/abi.hpp"

#include <algorithm>
#include <cstdint>
#include <map>

namespace quarry::inline QUARRY_ABI::trace {

/// A set of addresses, kept as disjoint ranges that do not touch. O(log n) for each range.
class range_set {
 public:
  void add(std::uint64_t base, std::uint64_t size) {
    std::uint64_t end = end_of(base, size);
    if (base == end) return;
    auto at = ends_.upper_bound(base);
    if (at != ends_.begin() && std::prev(at)->second >= base) base = (--at)->first;
    for (; at != ends_.end() && at->first <= end; at = ends_.erase(at))
      end = std::max(end, at->second);
    ends_.emplace(base, end);
  }

  /// Removes a range. Calls `missing(base, size)` for each part of it that is not in the set.
  template <class Missing>
  void remove(std::uint64_t base, std::uint64_t size, Missing const& missing) {
    std::uint64_t const end = end_of(base, size);
    auto at = ends_.upper_bound(base);
    if (at != ends_.begin() && std::prev(at)->second > base) --at;
    std::uint64_t removed = base;  // the end of what is removed
    while (at != ends_.end() && at->first < end) {
      auto const [found, found_end] = *at;
      at = ends_.erase(at);
      if (found > removed) missing(removed, found - removed);
      if (found < base) ends_.emplace(found, base);
      if (found_end > end) ends_.emplace(end, found_end);
      removed = std::min(found_end, end);
    }
    if (removed < end) missing(removed, end - removed);
  }

 private:
  [[nodiscard]] static std::uint64_t end_of(std::uint64_t base, std::uint64_t size) {
    return base + std::min(size, ~base);
  }

  std::map<std::uint64_t, std::uint64_t> ends_;  // base -> end
};

}  // namespace quarry::inline QUARRY_ABI::trace
