// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/pools/placement.hpp"
#include "quarry/host/registry/registry.hpp"
#include "quarry/host/resources/resource.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace quarry::inline QUARRY_ABI::detail {

/// The reserved bytes of a pool: their count, peak and limit. Also has the registration that makes
/// the allocations of a tracked pool known.
///
/// Not thread-safe. Must be destroyed before the arena whose chunks it registers, and before the
/// resource.
class reserved_memory {
 public:
  /// `pool`: the class to name in errors. `maximum`: the limit in bytes.
  reserved_memory(char const* pool, bytes maximum) : pool_{pool}, maximum_{maximum} {}

  /// Registers the pool. Nothing may be allocated yet. Throws std::bad_alloc.
  void track(chunk_table& chunks, memory_location location, std::string const& name) {
    registration_.emplace(chunks, location, name);
  }
  /// nullptr if the pool is not tracked.
  [[nodiscard]] registration* tracking() { return registration_ ? &*registration_ : nullptr; }
  [[nodiscard]] registration const* tracking() const {
    return registration_ ? &*registration_ : nullptr;
  }
  /// The pool's number in the registry; 0 if it is not tracked.
  [[nodiscard]] allocator_id id() const { return registration_ ? registration_->id() : 0; }
  /// Labels an allocation. False if `pointer` is not allocated, or the pool is not tracked.
  template <class Arena>
  bool label(Arena& arena, void const* pointer, allocation_label added) {
    auto const base = reinterpret_cast<std::uint64_t>(pointer);
    if (!registration_ || !arena.size_of(base)) return false;
    registration_->label(base, std::move(added));
    return arena.set_labelled(base);
  }
  /// Bytes of bookkeeping for the labels, and in the page map for `blocks` blocks.
  [[nodiscard]] bytes footprint(std::size_t blocks) const {
    return registration_ ? registration_->footprint(reserved_, blocks) : 0;
  }

  [[nodiscard]] bytes reserved() const { return reserved_; }
  [[nodiscard]] bytes peak() const { return peak_; }
  void add(bytes size) {
    reserved_ += size;
    peak_ = std::max(peak_, reserved_);
  }
  void remove(bytes size) { reserved_ -= size; }

  /// Bytes that the limit still allows. Throws `out_of_memory` if they are fewer than `minimum`;
  /// the message names the request of `requested` bytes.
  [[nodiscard]] bytes left(bytes minimum, bytes requested, bytes alignment = 1) const {
    bytes const result = (maximum_ - std::min(maximum_, reserved_)) & ~(alignment - 1);
    if (minimum > result) {
      throw out_of_memory{pool_, requested,
                          std::to_string(reserved_) + " bytes are reserved, and the limit is " +
                              std::to_string(maximum_)};
    }
    return result;
  }
  /// Whether `size` bytes fit the limit if nothing else is reserved.
  [[nodiscard]] bool may_reserve(bytes size) const { return size <= maximum_; }

  /// The sizes of an allocation, rounded up to a multiple of `alignment`. Throws `out_of_memory` if
  /// `size` is larger than any resource can serve.
  [[nodiscard]] chunk_sizes sizes_for(bytes size, bytes alignment) const {
    if (size > max_bytes_at_once) refuse(size);
    return {size, size == 0 ? alignment : (size + alignment - 1) & ~(alignment - 1)};
  }
  [[noreturn, gnu::noinline]] void refuse(bytes size) const {
    throw out_of_memory{pool_, size, request_too_large};
  }

 private:
  char const* pool_;
  bytes maximum_;
  bytes reserved_ = 0, peak_ = 0;
  std::optional<registration> registration_;
};

}  // namespace quarry::inline QUARRY_ABI::detail
