// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/pools/poison.hpp"
#include "quarry/host/resources/resource.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// Hands out its blocks from one end to the other and gives nothing back before `reset`: for what
/// all ends at one moment.
///
/// Blocks are of `block_bytes` at least. After `reset` they are used again, in the order in which
/// they were taken. Deallocation does nothing.
template <class Upstream>
class QUARRY_POISONS monotonic_resource {
 public:
  static constexpr bytes block_alignment = 256;

  /// Throws `bad_argument` if `block_bytes` is 0.
  monotonic_resource(Upstream upstream, bytes block_bytes)
      : upstream_{std::move(upstream)}, block_bytes_{block_bytes} {
    if (block_bytes == 0) throw bad_argument{"monotonic_resource: block_bytes is 0"};
  }
  monotonic_resource(monotonic_resource&& other) noexcept
      : upstream_{std::move(other.upstream_)},
        block_bytes_{other.block_bytes_},
        blocks_{std::exchange(other.blocks_, {})},
        current_{std::exchange(other.current_, 0)},
        used_{std::exchange(other.used_, 0)} {}
  monotonic_resource& operator=(monotonic_resource&& other) noexcept {
    std::swap(upstream_, other.upstream_);
    std::swap(block_bytes_, other.block_bytes_);
    std::swap(blocks_, other.blocks_);
    std::swap(current_, other.current_);
    std::swap(used_, other.used_);
    return *this;
  }
  ~monotonic_resource() { release(); }

  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    bytes const room = room_to_align("monotonic_resource", size, alignment, block_alignment);
    bytes const wanted = size == 0 ? 1 : size;
    bytes used = used_;
    for (std::size_t i = current_; i < blocks_.size(); ++i, used = 0) {
      if (void* const result = take(i, used, size, alignment)) return result;
    }
    if (wanted > max_bytes_at_once - room)
      throw out_of_memory{"monotonic_resource", size, "nothing has so much"};
    if (blocks_.size() == blocks_.capacity()) blocks_.reserve(blocks_.size() * 2 + 4);
    bytes const fresh = std::max(wanted + room, block_bytes_);
    blocks_.push_back({static_cast<char*>(upstream_.allocate(fresh, block_alignment)), fresh});
    if (is_poisoned(upstream_)) poison(blocks_.back().base, fresh);
    return take(blocks_.size() - 1, 0, size, alignment);
  }
  void deallocate(void*, bytes, bytes) noexcept {}

  /// All that was handed out is void.
  void reset() noexcept {
    if (is_poisoned(upstream_)) {
      for (block const& one : blocks_) poison(one.base, one.size);
    }
    current_ = used_ = 0;
  }
  /// `release` ends the use of all allocations (see `release_unused`).
  static constexpr bool release_ends_use = true;
  /// Does what `reset` does, and returns the blocks.
  void release() noexcept {
    for (block const& one : blocks_) {
      if (is_poisoned(upstream_)) unpoison(one.base, one.size);
      upstream_.deallocate(one.base, one.size, block_alignment);
    }
    blocks_.clear();
    reset();
  }
  [[nodiscard]] bytes reserved() const {
    bytes sum = 0;
    for (block const& one : blocks_) sum += one.size;
    return sum;
  }

  [[nodiscard]] Upstream& upstream() { return upstream_; }

 private:
  struct block {
    char* base;
    bytes size;
  };

  /// What is behind the first `used` bytes of a block, which is the current one then; nullptr if it
  /// does not fit.
  [[nodiscard]] void* take(std::size_t number, bytes used, bytes size, bytes alignment) {
    bytes const wanted = size == 0 ? 1 : size;
    block const& one = blocks_[number];
    auto const address = reinterpret_cast<std::uintptr_t>(one.base);
    bytes const base = ((address + used + alignment - 1) & ~(alignment - 1)) - address;
    if (base > one.size || wanted > one.size - base) return nullptr;
    current_ = number;
    used_ = base + wanted;
    if (is_poisoned(upstream_)) unpoison(one.base + base, size);
    return one.base + base;
  }

  Upstream upstream_;
  bytes block_bytes_;
  std::vector<block> blocks_;
  std::size_t current_ = 0;
  bytes used_ = 0;  // of the current block
};

}  // namespace quarry::inline QUARRY_ABI
