// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/simt/host_lane.hpp"

#include <cstring>
#include <type_traits>

namespace quarry::inline QUARRY_ABI::simt {

/// Lanes of one warp that execute an operation together.
///
/// All members must call every operation except `size`, `rank`, `leader` and `is_leader`; the
/// operation waits for them. Only `sync` orders memory. On CUDA a group is a mask and its
/// operations are warp intrinsics. In fibers the lanes exchange values through their warp. On
/// threads a group is one lane. Values are trivially copyable, at most 8 bytes.
class lane_group {
 public:
  /// Returns the lanes of this warp that reached this call together. `Site` distinguishes this call
  /// from other calls. It never waits for a lane that is elsewhere.
  template <class Site>
  [[nodiscard]] QUARRY_HD static lane_group coalesced() {
#ifdef __CUDA_ARCH__
    return lane_group{active_lanes()};
#else
    static char const site{};
    return lane_group{current_lane != nullptr ? current_lane->coalesce(&site) : lane_mask{1}};
#endif
  }

  /// This lane without others.
  [[nodiscard]] QUARRY_HD static lane_group alone() {
    return lane_group{lane_mask{1} << own_lane()};
  }

  [[nodiscard]] QUARRY_HD lane_mask members() const { return members_; }
  [[nodiscard]] QUARRY_HD std::uint32_t size() const { return count_ones(members_); }

  /// The number of members with a lower lane number.
  [[nodiscard]] QUARRY_HD std::uint32_t rank() const { return count_ones(members_ & low_lanes()); }

  /// The number of lanes in `lanes` that are lower than this lane.
  [[nodiscard]] QUARRY_HD std::uint32_t rank_among(lane_mask lanes) const {
    return count_ones(lanes & low_lanes());
  }

  /// The lane (not the rank) of the member with rank 0.
  [[nodiscard]] QUARRY_HD std::uint32_t leader() const { return lowest_one(members_); }
  [[nodiscard]] QUARRY_HD bool is_leader() const { return (members_ & low_lanes()) == 0; }

  /// Waits for all members. Afterwards each member sees all members' earlier writes.
  QUARRY_HD void sync() const {
#ifdef __CUDA_ARCH__
    __syncwarp(members_);
#else
    (void)exchange(0, "sync");
#endif
  }

  /// The leader's value.
  template <class T>
  [[nodiscard]] QUARRY_HD T broadcast(T value) const {
    return broadcast(value, leader());
  }

  /// The value of the member at `lane`.
  template <class T>
  [[nodiscard]] QUARRY_HD T broadcast(T value, std::uint32_t lane) const {
#ifdef __CUDA_ARCH__
    if (is_alone()) return value;
    return from_bits<T>(__shfl_sync(members_, to_bits(value), static_cast<int>(lane)));
#else
    return from_bits<T>(
        static_cast<carrier<T>>(exchange(to_bits(value), "broadcast")[lane % warp_size]));
#endif
  }

  /// Bit i is the predicate of lane i, or zero if lane i is not a member.
  [[nodiscard]] QUARRY_HD lane_mask ballot(bool predicate) const {
#ifdef __CUDA_ARCH__
    return __ballot_sync(members_, predicate);
#else
    auto const& values = exchange(predicate ? 1 : 0, "ballot");
    lane_mask result = 0;
    for (std::uint32_t lane = 0; lane < warp_size; ++lane) {
      if ((members_ >> lane & 1) != 0 && values[lane] != 0) result |= lane_mask{1} << lane;
    }
    return result;
#endif
  }

  /// The members whose `key` equals this lane's.
  template <class T>
  [[nodiscard]] QUARRY_HD lane_group match(T key) const {
#ifdef __CUDA_ARCH__
    return lane_group{__match_any_sync(members_, to_bits(key))};
#else
    std::uint64_t const own = to_bits(key);
    auto const& values = exchange(own, "match");
    lane_mask result = 0;
    for (std::uint32_t lane = 0; lane < warp_size; ++lane) {
      if ((members_ >> lane & 1) != 0 && values[lane] == own) result |= lane_mask{1} << lane;
    }
    return lane_group{result};
#endif
  }

  /// The members whose `owner` and `key` both equal this lane's. In the usual case of one owner it
  /// costs little more than a match of the key.
  template <class Key>
  [[nodiscard]] QUARRY_HD lane_group match(void const* owner, Key key) const {
    auto const address = reinterpret_cast<std::uint64_t>(owner);
    bool const has_one_owner = all_equal(address);
    lane_group const same_key = match(key);
    return has_one_owner ? same_key : same_key.match(address);
  }

  /// The members whose `object` has the same bytes as this lane's. `object` is a handle, such as a
  /// heap_ref. Its address does not identify it, because each lane may have a copy. In the usual
  /// case of equal objects it costs one `all_equal` per 8 bytes. Copies with different padding
  /// bytes count as different objects.
  template <class T>
  [[nodiscard]] QUARRY_HD lane_group match_bytes(T const& object) const {
    static_assert(std::is_trivially_copyable_v<T>, "pass a handle to the heap, not the heap");
    lane_group matching = *this;
    if constexpr (!std::is_empty_v<T>) {
      std::uint64_t words[(sizeof(T) + 7) / 8] = {};
      std::memcpy(words, &object, sizeof(T));
      for (std::uint64_t const word : words) {
        if (!matching.all_equal(word)) matching = matching.match(word);
      }
    }
    return matching;
  }

  /// Whether the keys of all members are equal.
  template <class T>
  [[nodiscard]] QUARRY_HD bool all_equal(T key) const {
#ifdef __CUDA_ARCH__
    int result;
    (void)__match_all_sync(members_, to_bits(key), &result);
    return result != 0;
#else
    std::uint64_t const own = to_bits(key);
    auto const& values = exchange(own, "all_equal");
    for (std::uint32_t lane = 0; lane < warp_size; ++lane) {
      if ((members_ >> lane & 1) != 0 && values[lane] != own) return false;
    }
    return true;
#endif
  }

  /// Bitwise or over the members' values.
  [[nodiscard]] QUARRY_HD word or_reduce(word value) const {
#ifdef __CUDA_ARCH__
    if (is_alone()) return value;
    std::uint32_t const low = __reduce_or_sync(members_, static_cast<std::uint32_t>(value));
    std::uint32_t const high = __reduce_or_sync(members_, static_cast<std::uint32_t>(value >> 32));
    return word{high} << 32 | low;
#else
    auto const& values = exchange(value, "or_reduce");
    word result = 0;
    for (std::uint32_t lane = 0; lane < warp_size; ++lane) {
      if ((members_ >> lane & 1) != 0) result |= values[lane];
    }
    return result;
#endif
  }

  /// The largest of the members' values.
  [[nodiscard]] QUARRY_HD std::uint32_t max_reduce(std::uint32_t value) const {
#ifdef __CUDA_ARCH__
    return is_alone() ? value : __reduce_max_sync(members_, value);
#else
    auto const& values = exchange(value, "max_reduce");
    std::uint32_t result = 0;
    for (std::uint32_t lane = 0; lane < warp_size; ++lane) {
      if ((members_ >> lane & 1) != 0 && values[lane] > result)
        result = static_cast<std::uint32_t>(values[lane]);
    }
    return result;
#endif
  }

  /// The sum of the integer values of the members with a lower lane. O(log size) steps: each lane
  /// adds the sum of the member that it points to, then points to that member's target.
  template <class T>
  [[nodiscard]] QUARRY_HD T exclusive_sum(T value) const {
    static_assert(std::is_integral_v<T>);
#ifdef __CUDA_ARCH__
    lane_mask const lower = members_ & low_lanes();
    std::uint32_t const own = own_lane();
    std::uint32_t target =
        lower == 0 ? own : 31 - static_cast<std::uint32_t>(__clz(static_cast<int>(lower)));
    bool is_whole = lower == 0;  // the sum includes all lower members
    T sum = value;
    QUARRY_NO_UNROLL
    for (std::uint32_t reach = 1; reach < size(); reach *= 2) {
      T const target_sum = __shfl_sync(members_, sum, static_cast<int>(target));
      std::uint32_t const next_target =
          __shfl_sync(members_, target | (is_whole ? warp_size : 0), static_cast<int>(target));
      if (!is_whole) {
        sum += target_sum;
        target = next_target % warp_size;
        is_whole = next_target >= warp_size;
      }
    }
    return sum - value;
#else
    auto const& values = exchange(to_bits(value), "exclusive_sum");
    T sum{};
    for (std::uint32_t lane = 0; lane < own_lane(); ++lane) {
      if ((members_ >> lane & 1) != 0)
        sum = static_cast<T>(sum + from_bits<T>(static_cast<carrier<T>>(values[lane])));
    }
    return sum;
#endif
  }

  /// This lane's position in its warp.
  [[nodiscard]] QUARRY_HD static std::uint32_t own_lane() {
#ifdef __CUDA_ARCH__
    std::uint32_t lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
#else
    return current_lane != nullptr ? current_lane->lane() : 0;
#endif
  }

 private:
  QUARRY_HD explicit lane_group(lane_mask members) : members_{members} {}

#ifdef __CUDA_ARCH__
  /// The lanes that execute this call together.
  ///
  /// Each lane has its own mask. PTX defines every operation by the mask of the executing lane. The
  /// lane waits for the lanes of that mask, whatever other lanes of the warp execute at the same
  /// time. But ptxas 13.0 assumes that lanes that execute an instruction together have the same
  /// result of `activemask`. If lanes of two groups execute an operation together, it tests the
  /// mask of one lane, and lanes of the other group do not wait for their members. Adding the
  /// lane's own bit, which the mask already contains, changes nothing. But the value now depends on
  /// the lane, so ptxas tests the masks of all lanes. tests/lint/group_masks_test.py checks this in
  /// the generated code. Rejected: reading the mask back from a volatile local variable (ptxas
  /// still knows its source, and the kernel needs a larger stack).
  [[nodiscard]] QUARRY_HD static lane_mask active_lanes() {
    lane_mask own;
    asm("mov.u32 %0, %%lanemask_eq;" : "=r"(own));
    return __activemask() | own;
  }
#endif

  /// If several groups of a warp call an operation, CUDA serves one group after another. A group of
  /// one lane skips the operation, so that it need not queue.
  [[nodiscard]] QUARRY_HD bool is_alone() const { return (members_ & (members_ - 1)) == 0; }

  [[nodiscard]] QUARRY_HD static lane_mask low_lanes() {
#ifdef __CUDA_ARCH__
    lane_mask lower;
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(lower));
    return lower;
#else
    return static_cast<lane_mask>(low_bits(own_lane()));
#endif
  }

#ifndef __CUDA_ARCH__
  [[nodiscard]] std::array<std::uint64_t, warp_size> const& exchange(std::uint64_t value,
                                                                     char const* operation) const {
    if (current_lane != nullptr) return current_lane->exchange(members_, value, operation);
    thread_local std::array<std::uint64_t, warp_size> values{};
    values[0] = value;
    return values;
  }
#endif

  /// A value in the form that the intrinsics accept.
  template <class T>
  using carrier = std::conditional_t<sizeof(T) <= 4, std::uint32_t, std::uint64_t>;

  template <class T>
  [[nodiscard]] QUARRY_HD static carrier<T> to_bits(T value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
    carrier<T> result = 0;
    std::memcpy(&result, &value, sizeof(T));
    return result;
  }
  template <class T>
  [[nodiscard]] QUARRY_HD static T from_bits(carrier<T> value) {
    T result;
    std::memcpy(&result, &value, sizeof(T));
    return result;
  }

  lane_mask members_;
};

}  // namespace quarry::inline QUARRY_ABI::simt
