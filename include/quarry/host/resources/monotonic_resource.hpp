// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/detail/poison.hpp"
#include "quarry/host/resources/resource.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// Allocates from its blocks in sequence and frees nothing before `reset`. It is for allocations
/// that are all freed together.
///
/// Blocks have at least `block_bytes` bytes. After `reset` the resource reuses its blocks in the
/// order in which it got them. Deallocation does nothing. Not thread-safe.
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
      if (void* const result = allocate_in_block(i, used, size, alignment)) return result;
    }
    if (wanted > max_bytes_at_once - room)
      throw out_of_memory{"monotonic_resource", size, request_too_large};
    if (blocks_.size() == blocks_.capacity()) blocks_.reserve(blocks_.size() * 2 + 4);
    bytes const fresh = std::max(wanted + room, block_bytes_);
    blocks_.push_back({static_cast<char*>(upstream_.allocate(fresh, block_alignment)), fresh});
    if (detail::is_poisoned(upstream_)) detail::poison(blocks_.back().base, fresh);
    return allocate_in_block(blocks_.size() - 1, 0, size, alignment);
  }
  void deallocate(void*, bytes, bytes) noexcept {}

  /// Frees all allocations and keeps the blocks.
  void reset() noexcept {
    if (detail::is_poisoned(upstream_)) {
      for (block const& listed : blocks_) detail::poison(listed.base, listed.size);
    }
    current_ = used_ = 0;
  }
  /// `release` frees allocations that are in use (see `release_unused`).
  static constexpr bool release_ends_use = true;
  /// Frees all allocations and returns the blocks to the upstream.
  void release() noexcept {
    for (block const& listed : blocks_) {
      if (detail::is_poisoned(upstream_)) detail::unpoison(listed.base, listed.size);
      upstream_.deallocate(listed.base, listed.size, block_alignment);
    }
    blocks_.clear();
    reset();
  }
  [[nodiscard]] bytes reserved() const {
    bytes sum = 0;
    for (block const& listed : blocks_) sum += listed.size;
    return sum;
  }

  [[nodiscard]] Upstream& upstream() { return upstream_; }

 private:
  struct block {
    char* base;
    bytes size;
  };

  /// Allocates after the first `used` bytes of a block and makes the block the current one. Returns
  /// nullptr if the block has no room.
  [[nodiscard]] void* allocate_in_block(std::size_t number, bytes used, bytes size,
                                        bytes alignment) {
    bytes const wanted = size == 0 ? 1 : size;
    block const& source = blocks_[number];
    auto const address = reinterpret_cast<std::uintptr_t>(source.base);
    bytes const base = ((address + used + alignment - 1) & ~(alignment - 1)) - address;
    if (base > source.size || wanted > source.size - base) return nullptr;
    current_ = number;
    used_ = base + wanted;
    if (detail::is_poisoned(upstream_)) detail::unpoison(source.base + base, size);
    return source.base + base;
  }

  Upstream upstream_;
  bytes block_bytes_;
  std::vector<block> blocks_;
  std::size_t current_ = 0;
  bytes used_ = 0;  // of the current block
};

}  // namespace quarry::inline QUARRY_ABI
