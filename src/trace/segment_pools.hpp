// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/abi.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <vector>

namespace quarry::inline QUARRY_ABI::trace {

/// The pair by which PyTorch names a pool of segments. The pool (0, 0) is the default; graphs and
/// `MemPool` have private pools.
struct pool_id {
  std::int64_t first = 0, second = 0;
  [[nodiscard]] bool is_private() const { return first != 0 || second != 0; }
  friend bool operator==(pool_id const&, pool_id const&) = default;
};

/// The pools of one device's segments while its history is read.
///
/// Older versions of PyTorch state a pool only of the segments that the snapshot has at its end,
/// and not in the history. So the history is read twice: `add_final` learns the pools, and after
/// `restart`, `pool_of` knows them from the segment's first event on. A segment that was returned
/// before the end, and whose entries state no pool, counts as one of the default pool.
///
/// O(log n) for each call, with n ranges that are reserved at that moment. Its memory grows with
/// the number of reserves, by 16 bytes each.
class segment_pools {
 public:
  /// A range is reserved. `stated` is the pool that its entry names.
  void reserve(std::uint64_t base, std::uint64_t size, std::optional<pool_id> stated) {
    if (count_ == pools_.size()) pools_.emplace_back();
    if (stated) pools_[count_] = *stated;
    place(held_, base, size, count_++);
  }
  void unreserve(std::uint64_t base, std::uint64_t size) { cut(held_, base, end_of(base, size)); }
  /// An entry states the pool of an address. Tells the pools of segments that are older than the
  /// history.
  void state(std::uint64_t base, std::uint64_t size, pool_id pool) {
    if (find(held_, base) == nullptr && find(initial_, base) == nullptr && pool.is_private())
      place(initial_, base, size, pool);
  }
  /// The snapshot has this segment at its end. To be called after the first reading.
  void add_final(std::uint64_t base, std::uint64_t size, pool_id pool) {
    std::uint64_t const end = end_of(base, size);
    std::uint64_t next = base;  // what lies before it has its pool
    auto at = held_.upper_bound(base);
    if (at != held_.begin() && std::prev(at)->second.end > base) --at;
    for (; at != held_.end() && at->first < end; ++at) {
      pools_[at->second.value] = pool;
      if (at->first > next) place(initial_, next, at->first - next, pool);
      next = std::max(next, at->second.end);
    }
    if (next < end) place(initial_, next, end - next, pool);
  }
  /// Goes back to the begin of the history.
  void restart() {
    held_.clear();
    count_ = 0;
  }
  [[nodiscard]] pool_id pool_of(std::uint64_t address) const {
    if (auto const* const found = find(held_, address)) return pools_[*found];
    auto const* const found = find(initial_, address);
    return found == nullptr ? pool_id{} : *found;
  }

 private:
  template <class T>
  struct range {
    std::uint64_t end;
    T value;
  };
  template <class T>
  using ranges = std::map<std::uint64_t, range<T>>;  // by base; disjoint

  [[nodiscard]] static std::uint64_t end_of(std::uint64_t base, std::uint64_t size) {
    return base + std::min(size, ~base);
  }
  template <class T>
  [[nodiscard]] static T const* find(ranges<T> const& all, std::uint64_t address) {
    auto const at = all.upper_bound(address);
    if (at == all.begin() || std::prev(at)->second.end <= address) return nullptr;
    return &std::prev(at)->second.value;
  }
  template <class T>
  static void cut(ranges<T>& all, std::uint64_t base, std::uint64_t end) {
    auto at = all.upper_bound(base);
    if (at != all.begin() && std::prev(at)->second.end > base) --at;
    while (at != all.end() && at->first < end) {
      auto const [found, whole] = *at;
      at = all.erase(at);
      if (found < base) all.emplace(found, range<T>{base, whole.value});
      if (whole.end > end) all.emplace(end, range<T>{whole.end, whole.value});
    }
  }
  template <class T>
  static void place(ranges<T>& all, std::uint64_t base, std::uint64_t size, T value) {
    std::uint64_t const end = end_of(base, size);
    if (base == end) return;
    cut(all, base, end);
    all.insert_or_assign(base, range<T>{end, value});
  }

  ranges<std::size_t> held_;  // the values are indices of `pools_`
  ranges<pool_id> initial_;   // older than the history
  std::vector<pool_id> pools_;
  std::size_t count_ = 0;  // reserves until now
};

}  // namespace quarry::inline QUARRY_ABI::trace
