// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/detail/poison.hpp"
#include "quarry/host/resources/resource.hpp"
#include "quarry/host/resources/resource_adaptor.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// Caches up to `slots` freed allocations. The next request of exactly the same size and alignment
/// reuses a cached allocation. For programs with a few large arrays of few sizes.
///
/// When all slots are full, the allocation that was freed first returns to the upstream. O(slots).
/// Not thread-safe. (Umpire's SlotPool returns null when its slots are full; this resource
/// allocates.)
template <class Upstream>
class QUARRY_POISONS size_cache_resource {
 public:
  /// Throws `bad_argument` unless `slots` is from 1 to 1024.
  size_cache_resource(Upstream upstream, std::uint32_t slots)
      : upstream_{std::move(upstream)}, slots_{slots} {
    if (slots == 0 || slots > 1024)
      throw bad_argument{"size_cache_resource: slots is " + std::to_string(slots) +
                         ", not from 1 to 1024"};
    kept_.reserve(slots);
  }
  size_cache_resource(size_cache_resource&& other) noexcept
      : upstream_{std::move(other.upstream_)},
        slots_{other.slots_},
        kept_{std::exchange(other.kept_, {})},
        reserved_{std::exchange(other.reserved_, 0)},
        invalid_frees_{std::exchange(other.invalid_frees_, 0)} {}
  size_cache_resource& operator=(size_cache_resource&& other) noexcept {
    std::swap(upstream_, other.upstream_);
    std::swap(slots_, other.slots_);
    std::swap(kept_, other.kept_);
    std::swap(reserved_, other.reserved_);
    std::swap(invalid_frees_, other.invalid_frees_);
    return *this;
  }
  ~size_cache_resource() { release(); }

  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    for (std::size_t i = kept_.size(); i-- != 0;) {  // the latest freed is warm
      if (kept_[i].size != size || kept_[i].alignment != alignment) continue;
      void* const result = kept_[i].memory;
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
      if (detail::is_poisoned(upstream_)) detail::unpoison(result, size);
      return result;
    }
    try {
      return allocate_upstream(size, alignment);
    } catch (std::bad_alloc const&) {
      if (kept_.empty()) throw;
    }
    release();
    return allocate_upstream(size, alignment);
  }
  /// Caches an allocation. If `pointer` is null or already cached, returns false and changes only
  /// the count of invalid frees. Knows no other addresses, so it caches any other pointer, also one
  /// that the upstream would refuse.
  bool deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    auto const is_same = [&](cached const& entry) { return entry.memory == pointer; };
    if (pointer == nullptr || std::any_of(kept_.begin(), kept_.end(), is_same)) {
      ++invalid_frees_;
      return false;
    }
    if (kept_.size() == slots_) {
      cached const oldest = kept_.front();
      kept_.erase(kept_.begin());
      return_upstream(oldest);
    }
    // A moved-from object has no capacity.
    if (kept_.capacity() < slots_) return return_upstream({pointer, size, alignment});
    kept_.push_back({pointer, size, alignment});
    if (detail::is_poisoned(upstream_)) detail::poison(pointer, size);
    return true;
  }
  /// Returns all cached allocations to the upstream.
  void release() noexcept {
    for (cached const& entry : kept_) return_upstream(entry);
    kept_.clear();
  }
  /// Bytes reserved from the upstream: allocated or cached.
  [[nodiscard]] bytes reserved() const { return reserved_; }
  /// The number of cached allocations.
  [[nodiscard]] std::size_t kept() const { return kept_.size(); }
  [[nodiscard]] std::uint64_t invalid_frees() const { return invalid_frees_; }
  [[nodiscard]] Upstream& upstream() { return upstream_; }

 private:
  struct cached {
    void* memory;
    bytes size, alignment;
  };
  [[nodiscard]] void* allocate_upstream(bytes size, bytes alignment) {
    void* const result = upstream_.allocate(size, alignment);
    reserved_ += size;
    return result;
  }
  bool return_upstream(cached const& freed) noexcept {
    reserved_ -= freed.size;
    if (detail::is_poisoned(upstream_)) detail::unpoison(freed.memory, freed.size);
    return plain_call{}.deallocate(upstream_, freed.memory, freed.size, freed.alignment);
  }

  Upstream upstream_;
  std::uint32_t slots_;
  std::vector<cached> kept_;  // in the order in which they were freed
  bytes reserved_ = 0;
  std::uint64_t invalid_frees_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI
