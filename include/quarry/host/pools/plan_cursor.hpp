// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/pools/plan.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// Follows a program through its plan: finds the planned allocation of each request.
///
/// A request that the next planned allocation does not serve is unplanned, and the position does
/// not change. After two consecutive unplanned requests, the cursor searches for two consecutive
/// allocations that serve them. It searches the next `lookahead` allocations, the beginning of the
/// period, and the last `lookahead` allocations, and continues after the first pair that it finds.
/// A wrong jump is harmless, because the pool checks that each place is free. The cursor returns
/// from a wrong jump in the same way.
///
/// Rejected: an index of three consecutive sizes. In recorded programs with some requests missing,
/// added and changed, this index recognises fewer requests.
class plan_cursor {
 public:
  plan_cursor(plan const& followed, std::uint32_t lookahead)
      : period_begin_{static_cast<std::uint32_t>(followed.period_begin)}, lookahead_{lookahead} {
    sizes_.reserve(followed.allocations.size());
    for (auto const& each : followed.allocations)
      sizes_.push_back({each.min_size == 0 ? each.size : each.min_size, each.size});
  }

  /// Returns the number of the planned allocation that serves a request of `size` bytes, rounded
  /// up. Returns nullopt if the request is unplanned. O(1) if the request follows the plan,
  /// otherwise O(lookahead).
  [[nodiscard]] std::optional<std::uint32_t> next(bytes size) {
    if (position_ < sizes_.size() && sizes_[position_].contains(size)) {
      previous_ = 0;
      return advance_from(position_);
    }
    bytes const previous = previous_;
    previous_ = size;
    if (previous == 0) return std::nullopt;
    if (auto const found = find(previous, size)) {
      previous_ = 0;
      ++jumps_;
      return advance_from(*found);
    }
    return std::nullopt;
  }

  /// Continues at the beginning of the period, or of a plan without a period.
  void restart() {
    position_ = period_begin_ < sizes_.size() ? period_begin_ : 0;
    previous_ = 0;
  }

  /// The number of the next planned allocation.
  [[nodiscard]] std::uint32_t position() const { return position_; }
  /// The number of jumps to another position.
  [[nodiscard]] std::uint64_t jumps() const { return jumps_; }
  /// Bytes of bookkeeping in addition to this object.
  [[nodiscard]] bytes footprint() const { return sizes_.capacity() * sizeof(size_range); }

 private:
  struct size_range {
    bytes min, max;
    [[nodiscard]] bool contains(bytes size) const { return size >= min && size <= max; }
  };

  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(sizes_.size()); }
  /// The next allocation. The first allocation of a period follows its last allocation.
  [[nodiscard]] std::uint32_t after(std::uint32_t number) const {
    return number + 1 == count() && period_begin_ < count() ? period_begin_ : number + 1;
  }
  std::uint32_t advance_from(std::uint32_t number) {
    position_ = after(number);
    return number;
  }
  /// Returns the second of two consecutive planned allocations that serve these sizes.
  [[nodiscard]] std::optional<std::uint32_t> find(bytes first, bytes second) const {
    auto const matches = [&](std::uint32_t at) {
      return at < count() && sizes_[at].contains(first) && after(at) < count() &&
             sizes_[after(at)].contains(second);
    };
    std::uint32_t at = position_;
    for (std::uint32_t i = 0; i < lookahead_ && at < count(); ++i, at = after(at)) {
      if (matches(at)) return after(at);
    }
    if (matches(period_begin_)) return after(period_begin_);
    for (std::uint32_t i = 1; i <= lookahead_ && i <= position_; ++i) {
      if (matches(position_ - i)) return after(position_ - i);
    }
    return std::nullopt;
  }

  std::vector<size_range> sizes_;
  std::uint32_t period_begin_, lookahead_;
  std::uint32_t position_ = 0;
  bytes previous_ = 0;  // the size of the preceding request if it was unplanned, otherwise 0
  std::uint64_t jumps_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI
