// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/detail/reserved_memory.hpp"
#include "quarry/host/resources/resource.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

namespace quarry::inline QUARRY_ABI::detail {

/// The `options` of a pool of blocks, with the defaults of `first_block` and `next_block` filled in
/// and rounded to the alignment. Throws `bad_argument`; the message names `type`.
template <class Options>
[[nodiscard]] Options checked_blocks(std::string const& type, Options options) {
  check_alignment(type.c_str(), options.alignment);
  bytes* const sizes[] = {&options.first_block, &options.next_block};
  for (bytes const* const size : sizes) {
    if (*size > max_bytes_at_once)
      throw bad_argument{type + ": blocks of " + std::to_string(*size) +
                         " bytes exceed the maximum of 2^46"};
  }
  if (options.growth_percent > 1000)
    throw bad_argument{type + ": growth_percent is " + std::to_string(options.growth_percent) +
                       " percent, more than 1000"};
  if (options.first_block == 0) options.first_block = 64_MiB;
  if (options.next_block == 0) options.next_block = 8_MiB;
  for (bytes* const size : sizes)
    *size = (*size + options.alignment - 1) & ~(options.alignment - 1);
  return options;
}

/// The blocks of a pool: allocated from a resource and returned to it. Decides how large a block
/// is, keeps the limit, counts, and tells the registry. Not thread-safe.
template <memory_resource Resource>
class block_source {
 public:
  /// `options`: the result of `checked_blocks`. `pool`: the class to name in errors. `chunks`: the
  /// table of the pool's arena, which must outlive this object.
  template <class Options>
  block_source(char const* pool, Resource resource, Options const& options, chunk_table& chunks)
      : resource_{std::move(resource)},
        alignment_{options.alignment},
        first_block_{options.first_block},
        next_block_{options.next_block},
        growth_{options.growth_percent},
        memory_{pool, options.max_bytes} {
    if (options.is_tracked && !simulated<Resource>)
      memory_.track(chunks, location_of(resource_), options.name);
  }

  [[nodiscard]] Resource& resource() { return resource_; }
  [[nodiscard]] reserved_memory& memory() { return memory_; }
  [[nodiscard]] reserved_memory const& memory() const { return memory_; }
  [[nodiscard]] bytes reserved() const { return memory_.reserved(); }
  /// Blocks allocated from the resource until now, and returned to it.
  [[nodiscard]] std::uint64_t allocated() const { return allocated_; }
  [[nodiscard]] std::uint64_t returned() const { return returned_; }

  /// The minimum size of the next block.
  [[nodiscard]] bytes min_block() const { return min_block_after(reserved()); }
  /// The same if the pool held `reserved` bytes.
  [[nodiscard]] bytes min_block_after(bytes reserved) const {
    if (reserved == 0) return first_block_;
    return std::max(next_block_,
                    std::min(max_bytes_at_once, reserved / 100 * growth_) & ~(alignment_ - 1));
  }

  /// Allocates a block of `size` bytes, or of fewer bytes, but at least `wanted.granted`. If the
  /// resource refuses, calls `release()`. If that returned a block, requests the same size once
  /// more. Then requests an eighth of the previous size, up to three times, and then
  /// `wanted.granted`. Throws `out_of_memory` at the limit, std::bad_alloc, and what the resource
  /// throws.
  template <class Release>
  [[nodiscard]] upstream_block allocate(bytes size, chunk_sizes wanted, Release const& release) {
    upstream_block const fresh = request(size, wanted, release);
    ++allocated_;
    memory_.add(fresh.size);
    try {
      synchronize(resource_);
      if (auto* const tracking = memory_.tracking()) tracking->add_block(fresh.base, fresh.size);
    } catch (...) {
      deallocate_unregistered(fresh);
      throw;
    }
    return fresh;
  }
  /// Returns a block to the resource.
  void deallocate(upstream_block const& block) noexcept {
    if (auto* const tracking = memory_.tracking()) tracking->remove_block(block.base, block.size);
    deallocate_unregistered(block);
  }

 private:
  void deallocate_unregistered(upstream_block const& block) noexcept {
    ++returned_;
    memory_.remove(block.size);
    resource_.deallocate(reinterpret_cast<void*>(block.base), block.size, alignment_);
  }
  template <class Release>
  [[nodiscard]] upstream_block request(bytes size, chunk_sizes wanted, Release const& release) {
    bytes const minimum = wanted.granted;
    bool may_release = memory_.may_reserve(minimum);
    for (int shrunk = 0;;) {
      try {
        bytes const allowed = std::min(size, memory_.left(minimum, wanted.requested, alignment_));
        return {reinterpret_cast<std::uint64_t>(resource_.allocate(allowed, alignment_)), allowed};
      } catch (std::exception const&) {
        if (std::exchange(may_release, false) && release()) continue;
        if (size == minimum || !memory_.may_reserve(minimum)) throw;
      }
      size = ++shrunk > 3 ? minimum : std::max(minimum, size / 8 & ~(alignment_ - 1));
    }
  }

  Resource resource_;
  bytes alignment_, first_block_, next_block_;
  std::uint32_t growth_;
  std::uint64_t allocated_ = 0, returned_ = 0;
  reserved_memory memory_;  // is destroyed before the resource
};

}  // namespace quarry::inline QUARRY_ABI::detail
