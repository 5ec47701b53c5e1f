// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/pools/poison.hpp"
#include "quarry/host/resources/resource.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// Keeps up to so many allocations that were freed, each for the next request of exactly its
/// size and alignment: for programs with a few large arrays of few sizes.
///
/// When all slots are taken, what was freed first goes to the upstream. O(slots). Not
/// thread-safe. (Umpire's SlotPool gives null when its slots are full; this gives memory.)
template <class Upstream>
class QUARRY_POISONS size_cache_resource {
 public:
  /// Throws `bad_argument` for no slot, or more than 1024.
  size_cache_resource(Upstream upstream, std::uint32_t slots)
      : upstream_{std::move(upstream)}, slots_{slots} {
    if (slots == 0 || slots > 1024)
      throw bad_argument{"slots_resource: " + std::to_string(slots) + " slots are not 1 to 1024"};
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
    for (std::size_t at = kept_.size(); at-- != 0;) {  // the latest first: it is warm
      if (kept_[at].size != size || kept_[at].alignment != alignment) continue;
      void* const result = kept_[at].memory;
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(at));
      if (is_poisoned(upstream_)) unpoison(result, size);
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
  /// What is kept already, and nullptr, is refused, and nothing is changed but a count.
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    auto const is_it = [&](one const& each) { return each.memory == pointer; };
    if (pointer == nullptr || std::any_of(kept_.begin(), kept_.end(), is_it)) {
      ++invalid_frees_;
      return;
    }
    if (kept_.size() == slots_) {
      one const first = kept_.front();
      kept_.erase(kept_.begin());
      give(first);
    }
    // was moved from
    if (kept_.capacity() < slots_) return give({pointer, size, alignment});
    kept_.push_back({pointer, size, alignment});
    if (is_poisoned(upstream_)) poison(pointer, size);
  }
  /// Gives what is kept to the upstream.
  void release() noexcept {
    for (one const& each : kept_) give(each);
    kept_.clear();
  }
  /// Bytes taken from the upstream: allocated, or kept.
  [[nodiscard]] bytes reserved() const { return reserved_; }
  [[nodiscard]] std::size_t kept() const { return kept_.size(); }
  [[nodiscard]] std::uint64_t invalid_frees() const { return invalid_frees_; }
  [[nodiscard]] Upstream& upstream() { return upstream_; }

 private:
  struct one {
    void* memory;
    bytes size, alignment;
  };
  [[nodiscard]] void* allocate_upstream(bytes size, bytes alignment) {
    void* const result = upstream_.allocate(size, alignment);
    reserved_ += size;
    return result;
  }
  void give(one const& gone) noexcept {
    reserved_ -= gone.size;
    if (is_poisoned(upstream_)) unpoison(gone.memory, gone.size);
    upstream_.deallocate(gone.memory, gone.size, gone.alignment);
  }

  Upstream upstream_;
  std::uint32_t slots_;
  std::vector<one> kept_;  // what was freed first comes first
  bytes reserved_ = 0;
  std::uint64_t invalid_frees_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI
