// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/detail/single_writer.hpp"
#include "quarry/host/detail/slice_block.hpp"

#include <atomic>
#include <cstdint>
#include <utility>

namespace quarry::inline QUARRY_ABI::detail {

/// Slices of a pool that any thread frees and one thread at a time takes: the owner of the pool, or
/// a thread that has its mutex (slice_table). Below, both are the owner.
///
/// Each slice has a bit in its group of 64 neighbours. A thread frees a slice by setting the bit.
/// The thread that sets the first bit of a group also adds the group to a list. The owner takes the
/// list, and then all bits of one group at a time. So a free is one atomic operation, the owner
/// needs two for up to 64 slices, and both touch few cache lines. The bits and the links lie beside
/// the block's other bookkeeping, so a free needs no memory and cannot fail for want of it.
///
/// A group is in the list exactly while it has bits, except that the thread that set the first bit
/// may have yet to add it. Such a group waits for its thread only, and the owner's other groups do
/// not wait. A block with such bits has slices in use, so the owner does not lay it out anew. If a
/// program frees a slice twice at the same time, by its owner and by another thread, the bit may be
/// set although the slice is free. Then the owner must refuse the bit, and skip the block if its
/// pool no longer has it.
///
/// Memory order. `freed` changes by read-modify-writes only. Setting a bit releases (F) what the
/// thread wrote to the slice; the owner's taking (C) acquires it, also if other threads set bits in
/// between. The owner's taking releases its read of the link, and the thread that sets the next
/// first bit acquires it (F) before it writes the link. A push releases the link (P), and the
/// owner acquires all links of the list (T), because later pushes continue the release sequence.
/// A push and `is_empty` may read an old head (H): the push then fails and tries again, and the
/// owner finds the group at a later call.
///
/// `Block` is slice_block, or a block of a test, whose addresses are multiples of 64.
template <class Block>
class returned_slices_of {
 public:
  /// For any thread: frees slice `number` of `block`, which is in use. Returns false and changes
  /// nothing if a thread has freed it already. Lock-free: a push tries again only if another thread
  /// changed the list. After the last access to this object the owner may get the slice.
  [[nodiscard]] bool add(Block& block, std::uint32_t number) noexcept {
    group_type& group = block.group_of(number);
    std::uint64_t const bit = std::uint64_t{1} << number % group_type::size;
    std::uint64_t const before = group.freed.fetch_or(bit, std::memory_order_acq_rel);  // (F)
    if (before == 0) push(group, link_to(block, number / group_type::size));
    return (before & bit) == 0;
  }
  /// For any thread: whether a thread has freed the slice and the owner has yet to take it.
  [[nodiscard]] static bool has(Block& block, std::uint32_t number) noexcept {
    std::uint64_t const freed =
        block.group_of(number).freed.load(std::memory_order_relaxed);  // (H)
    return (freed >> number % group_type::size & 1) != 0;
  }

  /// For any thread: whether there are no slices to take. May be wrong if threads free or take
  /// slices meanwhile.
  [[nodiscard]] bool is_empty() const noexcept {
    return (next_ | kept_ | head_.load(std::memory_order_relaxed)) == 0;  // (H)
  }
  /// For the owner: takes the freed slices of a group and calls `work(block, first, bits)`. Bit i
  /// stands for slice `first + i`. `work` may call this function. Returns false if there are none.
  /// Skips a block for which `owns(block)` is false.
  template <class Owns, class Work>
  bool take(Owns const& owns, Work const& work) noexcept {
    if (next_ == 0) refill();
    std::uint64_t const link = next_;
    if (link == 0) return false;
    auto& block = *reinterpret_cast<Block*>(link & ~group_mask);
    auto const first = static_cast<std::uint32_t>(link & group_mask) * group_type::size;
    group_type& group = block.group_of(first);
    next_ = group.next;
    if (!owns(block)) return true;
    std::uint64_t const bits = group.freed.exchange(0, std::memory_order_acq_rel);  // (C)
    work(block, first, bits);
    return bits != 0;
  }

 private:
  using group_type = typename Block::group_type;
  // A link is the address of a block, a multiple of 64, with the number of the group.
  static constexpr std::uint64_t group_mask = 63;
  static_assert(slice_block::size / slice_block::min_slice / slice_group::size <= group_mask + 1);
  [[nodiscard]] static std::uint64_t link_to(Block& block, std::uint32_t group) {
    return reinterpret_cast<std::uint64_t>(&block) | group;
  }

  [[gnu::noinline]] void push(group_type& group, std::uint64_t link) noexcept {
    std::uint64_t head = head_.load(std::memory_order_relaxed);  // (H)
    do {
      group.next = head;
    } while (!head_.compare_exchange_weak(head, link, std::memory_order_release,  // (P)
                                          std::memory_order_relaxed));  // (H)
  }
  /// Takes the list. Keeps its latest group for last, because other threads may still free in it.
  void refill() noexcept {
    next_ = kept_;
    kept_ = 0;
    if (next_ != 0 || head_.load(std::memory_order_relaxed) == 0) return;   // (H)
    std::uint64_t const list = head_.exchange(0, std::memory_order_acquire);  // (T)
    auto& block = *reinterpret_cast<Block*>(list & ~group_mask);
    group_type& group =
        block.group_of(static_cast<std::uint32_t>(list & group_mask) * group_type::size);
    std::uint64_t const rest = std::exchange(group.next, 0);
    next_ = rest == 0 ? list : rest;
    if (rest != 0) kept_ = list;
  }

  single_writer<std::uint64_t> next_, kept_;  // Guarded by: the owner
  alignas(64) typename group_type::word head_{0};
};
using returned_slices = returned_slices_of<slice_block>;

}  // namespace quarry::inline QUARRY_ABI::detail
