// SPDX-License-Identifier: Apache-2.0
// When a pool coalesces: when it returns the blocks without allocations and takes one block in
// their place.
#pragma once

#include "quarry/core/bytes.hpp"

#include <cstdint>
#include <memory>
#include <type_traits>

namespace quarry::inline QUARRY_ABI {

/// The state of a pool that a heuristic reads. `allocated`: requested bytes in use. `granted`:
/// bytes of the chunks that serve them.
struct pool_state {
  bytes reserved = 0;
  bytes releasable = 0;
  std::uint32_t releasable_blocks = 0;
  bytes allocated = 0, peak_allocated = 0;
  bytes granted = 0, peak_granted = 0;
  std::size_t free_chunks = 0;
  // bytes that could be released, summed over the frees since the last coalesce: bytes x frees
  double holding_cost = 0;
};

/// A user's rule. Returns the bytes that the pool should hold after coalescing; 0 means that it
/// should not coalesce. `context` is the argument of `heuristic::by_rule`.
using heuristic_function = bytes (*)(pool_state const& pool, void* context);

/// A value: heuristics with equal fields decide equally. So a heuristic can be recorded and
/// replayed, unless it calls a user's rule.
struct heuristic {
  enum class trigger : std::uint8_t { never, percent, blocks, cost, user };
  enum class target : std::uint8_t { reserved, high_water };
  enum class moment : std::uint8_t { after_free, before_growth };

  trigger condition = trigger::never;
  target size = target::reserved;
  moment checked_at = moment::after_free;
  std::uint32_t parameter = 0;        // percent of bytes, blocks, or MiB of `by_cost`
  heuristic_function rule = nullptr;  // of trigger::user
  void* context = nullptr;

  /// The pool never coalesces by itself.
  [[nodiscard]] static constexpr heuristic never() { return {}; }
  /// Coalesces when at least `percent` percent of the reserved bytes lie in empty blocks. 100: when
  /// all blocks are empty; 0, and more than 100: never.
  [[nodiscard]] static constexpr heuristic percent_releasable(std::uint32_t percent) {
    return {trigger::percent, {}, {}, percent};
  }
  /// Coalesces when at least `blocks` blocks are empty. 0: each time that the pool asks.
  [[nodiscard]] static constexpr heuristic blocks_releasable(std::uint32_t blocks) {
    return {trigger::blocks, {}, {}, blocks};
  }
  /// Coalesces when holding memory has cost as much as a coalesce. Each free adds the bytes that
  /// could be released to a sum, if these are two blocks or more. The pool coalesces when the sum
  /// reaches `price` MiB, as in the ski rental problem (Karlin, Manasse, Rudolph and Sleator,
  /// "Competitive snoopy caching", 1988).
  [[nodiscard]] static constexpr heuristic by_cost(std::uint32_t price) {
    return {trigger::cost, {}, {}, price};
  }
  /// Calls `rule` after each free, or `before_growth`. The rule may use the pool; the pool does not
  /// call it again from within the rule or from within a coalesce, but other pools do call it. An
  /// exception counts as 0. `context` must outlive the pool. A pool with a lock calls the rule
  /// while it holds the lock. The rule of a named allocator may use handles of older allocators.
  /// Through other handles, calls throw `bad_argument` and frees return false;
  /// `allocators::destroy` is refused (`any_allocator`).
  [[nodiscard]] static constexpr heuristic by_rule(heuristic_function rule,
                                                   void* context = nullptr) {
    heuristic result;
    if (rule != nullptr) result.condition = trigger::user;
    result.rule = rule;
    result.context = context;
    return result;
  }
  /// The same for an object that is called with the state: a lambda, a std::function. It must
  /// outlive the pool.
  template <class Rule>
    requires std::is_object_v<Rule> && std::is_invocable_r_v<bytes, Rule&, pool_state const&>
  [[nodiscard]] static constexpr heuristic by_rule(Rule& rule) {
    return by_rule([](pool_state const& pool,
                      void* user_rule) -> bytes { return (*static_cast<Rule*>(user_rule))(pool); },
                   const_cast<std::remove_const_t<Rule>*>(std::addressof(rule)));
  }
  template <class Rule>
    requires std::is_invocable_r_v<bytes, Rule&, pool_state const&>
  static heuristic by_rule(Rule const&& rule) = delete;  // the rule would be destroyed too early

  /// The pool coalesces to its peak use instead of its present size.
  [[nodiscard]] constexpr heuristic to_high_water() const {
    heuristic result = *this;
    result.size = target::high_water;
    return result;
  }
  /// The pool asks the heuristic only when no free chunk fits, not after each free. If the request
  /// still does not fit after the coalesce, the pool takes another block.
  [[nodiscard]] constexpr heuristic before_growth() const {
    heuristic result = *this;
    result.checked_at = moment::before_growth;
    return result;
  }

  /// Returns the bytes that the pool should hold after coalescing; 0 means that it should not
  /// coalesce. A user's rule that throws counts as 0.
  [[nodiscard]] constexpr bytes wanted(pool_state const& pool) const {
    if (condition == trigger::user) return ask_rule(pool);
    if (!fires(pool)) return 0;
    return size == target::reserved ? pool.reserved : pool.peak_granted;
  }

  friend constexpr bool operator==(heuristic const&, heuristic const&) = default;

 private:
  /// Calls the user's rule. Returns its result, or 0 if it throws.
  [[nodiscard]] bytes ask_rule(pool_state const& pool) const noexcept {
    try {
      return rule(pool, context);
    } catch (...) {  // an exception must not make a free fail
      return 0;
    }
  }
  [[nodiscard]] constexpr bool fires(pool_state const& pool) const {
    switch (condition) {
      case trigger::never:
      case trigger::user:
        return false;
      case trigger::blocks:
        return pool.releasable_blocks >= parameter;
      case trigger::cost:
        return pool.releasable_blocks >= 2 &&
               pool.holding_cost >= static_cast<double>(parameter) * 0x1p20;
      case trigger::percent:
        if (parameter == 0) return false;
        if (parameter == 100) return pool.releasable == pool.reserved;
        return pool.releasable >= static_cast<bytes>(static_cast<float>(parameter) / 100.0f *
                                                     static_cast<float>(pool.reserved));
    }
    return false;
  }
};

}  // namespace quarry::inline QUARRY_ABI
