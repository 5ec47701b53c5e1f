// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/core/errors.hpp"
#include "quarry/host/detail/make_room.hpp"
#include "quarry/host/detail/poison.hpp"
#include "quarry/host/resources/resource.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// Allocates slots of one size. A block of the upstream has many slots. A bitmap outside the block
/// has a bit for each slot: 1 means free.
///
/// Throws `out_of_memory` for a request that is larger than a slot. Allocation examines at most
/// `slots_per_block` / 64 words; deallocation is O(log blocks). Not thread-safe.
template <class Upstream>
class QUARRY_POISONS fixed_size_resource {
 public:
  /// Rounds `slot_bytes` up to a multiple of `alignment`, the alignment of all slots. Throws
  /// `bad_argument` if the alignment is not a power of two, if slots or blocks would be empty, or
  /// if a block would be larger than 64 TiB.
  fixed_size_resource(Upstream upstream, bytes slot_bytes, std::uint32_t slots_per_block = 1024,
                      bytes alignment = 16)
      : upstream_{std::move(upstream)}, slots_{slots_per_block}, alignment_{alignment} {
    if (alignment == 0 || (alignment & (alignment - 1)) != 0)
      throw bad_argument{"fixed_size_resource: alignment is " + std::to_string(alignment) +
                         ", not a power of two"};
    if (slot_bytes == 0 || slots_per_block == 0)
      throw bad_argument{"fixed_size_resource: slot_bytes is " + std::to_string(slot_bytes) +
                         " and slots_per_block is " + std::to_string(slots_per_block) +
                         "; both must be at least 1"};
    if (slot_bytes > max_bytes_at_once || alignment > max_bytes_at_once)
      throw bad_argument{"fixed_size_resource: slots of " + std::to_string(slot_bytes) +
                         " bytes, aligned to " + std::to_string(alignment) +
                         ", exceed the limit of 64 TiB"};
    slot_ = (slot_bytes + alignment - 1) & ~(alignment - 1);
    if (slot_ > max_bytes_at_once / slots_)
      throw bad_argument{"fixed_size_resource: " + std::to_string(slots_) + " slots of " +
                         std::to_string(slot_) + " bytes exceed the limit of 64 TiB per block"};
  }
  fixed_size_resource(fixed_size_resource&& other) noexcept
      : upstream_{std::move(other.upstream_)},
        slots_{other.slots_},
        alignment_{other.alignment_},
        slot_{other.slot_},
        blocks_{std::exchange(other.blocks_, {})},
        with_free_{std::exchange(other.with_free_, {})},
        allocated_{std::exchange(other.allocated_, 0)} {}
  fixed_size_resource& operator=(fixed_size_resource&& other) noexcept {
    std::swap(upstream_, other.upstream_);
    std::swap(slots_, other.slots_);
    std::swap(alignment_, other.alignment_);
    std::swap(slot_, other.slot_);
    std::swap(blocks_, other.blocks_);
    std::swap(with_free_, other.with_free_);
    std::swap(allocated_, other.allocated_);
    return *this;
  }
  ~fixed_size_resource() {
    for (auto const& [base, _] : blocks_) {
      if (detail::is_poisoned(upstream_))
        detail::unpoison(reinterpret_cast<void*>(base), slot_ * slots_);
      upstream_.deallocate(reinterpret_cast<void*>(base), slot_ * slots_, alignment_);
    }
  }

  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    check_power_of_two("fixed_size_resource", alignment);
    if (alignment > alignment_)
      throw bad_argument{"fixed_size_resource: alignment is " + std::to_string(alignment) +
                         ", but slots are aligned to " + std::to_string(alignment_)};
    if (size > slot_)
      throw out_of_memory{"fixed_size_resource", size,
                          "slots have " + std::to_string(slot_) + " bytes"};
    if (with_free_.empty()) add_block();
    auto const [base, slots] = with_free_.back();
    std::uint32_t index = slots->hint;
    while (slots->free[index] == 0) ++index;  // no slot below the hint is free
    std::uint32_t const bit = lowest_one(slots->free[index]);
    slots->free[index] &= slots->free[index] - 1;
    slots->hint = index;
    if (--slots->count == 0) with_free_.pop_back();
    ++allocated_;
    auto* const result = reinterpret_cast<void*>(base + (index * bits_per_word + bit) * slot_);
    if (detail::is_poisoned(upstream_)) detail::unpoison(result, size);
    return result;
  }

  /// Frees a slot. Returns false, and does nothing, if `pointer` is not the base address of an
  /// allocated slot.
  bool deallocate(void* pointer, bytes, bytes) noexcept {
    auto const address = reinterpret_cast<std::uint64_t>(pointer);
    auto const next_block = blocks_.upper_bound(address);
    if (next_block == blocks_.begin()) return false;
    auto& [base, slots] = *std::prev(next_block);
    std::uint64_t const slot = (address - base) / slot_;
    if (slot >= slots_ || (address - base) % slot_ != 0) return false;
    word const bit = word{1} << slot % bits_per_word;
    auto const index = static_cast<std::uint32_t>(slot / bits_per_word);
    if ((slots.free[index] & bit) != 0) return false;
    if (detail::is_poisoned(upstream_)) detail::poison(pointer, slot_);
    slots.free[index] |= bit;
    slots.hint = std::min(slots.hint, index);
    if (slots.count++ == 0) with_free_.emplace_back(base, &slots);  // has capacity for all blocks
    --allocated_;
    return true;
  }

  [[nodiscard]] std::size_t allocated() const { return allocated_; }
  [[nodiscard]] bytes reserved() const { return blocks_.size() * slots_ * slot_; }
  [[nodiscard]] bytes slot_bytes() const { return slot_; }

  [[nodiscard]] Upstream& upstream() { return upstream_; }

 private:
  struct block {
    std::vector<word> free;
    std::uint32_t count;
    std::uint32_t hint;  // no earlier word has a bit set
  };

  void add_block() {
    block fresh{std::vector<word>((slots_ + bits_per_word - 1) / bits_per_word, ~word{0}), slots_,
                0};
    fresh.free.back() = low_bits(slots_ - (slots_ - 1) / bits_per_word * bits_per_word);
    detail::make_room(with_free_, blocks_.size() + 1);
    auto node = std::map<std::uint64_t, block>{};
    auto const made = node.emplace(0, std::move(fresh)).first;
    auto handle = node.extract(made);
    handle.key() = reinterpret_cast<std::uint64_t>(upstream_.allocate(slot_ * slots_, alignment_));
    auto const position = blocks_.insert(std::move(handle)).position;
    if (detail::is_poisoned(upstream_))
      detail::poison(reinterpret_cast<void*>(position->first), slot_ * slots_);
    with_free_.emplace_back(position->first, &position->second);
  }

  Upstream upstream_;
  std::uint32_t slots_;
  bytes alignment_;
  bytes slot_ = 0;
  std::map<std::uint64_t, block> blocks_;
  std::vector<std::pair<std::uint64_t, block*>> with_free_;
  std::size_t allocated_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI
