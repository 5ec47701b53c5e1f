// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/pools/poison.hpp"
#include "quarry/host/resources/resource.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// The blocks of a pool: taken from a resource, up to a limit, and returned to it. Counts them, and
/// poisons them where AddressSanitizer looks. Not thread-safe.
template <memory_resource Resource>
class QUARRY_POISONS block_source {
 public:
  /// `alignment`: of all blocks and their sizes. `maximum`: bytes of all blocks together.
  block_source(Resource resource, bytes alignment, bytes maximum)
      : resource_{std::move(resource)},
        alignment_{alignment},
        maximum_{maximum},
        is_poisoned_{quarry::is_poisoned(resource_)} {}

  [[nodiscard]] Resource& resource() { return resource_; }
  [[nodiscard]] bytes reserved() const { return reserved_; }
  [[nodiscard]] bytes peak_reserved() const { return peak_reserved_; }
  [[nodiscard]] std::uint64_t taken() const { return taken_; }
  [[nodiscard]] std::uint64_t given() const { return given_; }
  [[nodiscard]] bool is_poisoned() const {
    if constexpr (!has_address_sanitizer) return false;
    return is_poisoned_;
  }

  /// A block.
  struct block {
    std::uint64_t base;
    bytes size;
  };
  /// A block of `size` bytes, or of as many as can be had, but of `minimum` at least, for a request
  /// of `requested` bytes. If the resource refuses, asks once more after `release()`, which is true
  /// if it returned a block; then for an eighth, three times, and for `minimum`. Throws
  /// `out_of_memory` at the limit, and what the resource throws.
  template <class Release>
  [[nodiscard]] block take(bytes size, bytes minimum, bytes requested, Release const& release) {
    block const fresh = ask(size, minimum, requested, release);
    ++taken_;
    reserved_ += fresh.size;
    peak_reserved_ = std::max(peak_reserved_, reserved_);
    if (is_poisoned()) poison(reinterpret_cast<void*>(fresh.base), fresh.size);
    try {
      synchronize(resource_);
    } catch (...) {
      give(fresh.base, fresh.size);
      throw;
    }
    return fresh;
  }
  void give(std::uint64_t base, bytes size) noexcept {
    ++given_;
    reserved_ -= size;
    if (is_poisoned()) unpoison(reinterpret_cast<void*>(base), size);
    resource_.deallocate(reinterpret_cast<void*>(base), size, alignment_);
  }

 private:
  template <class Release>
  [[nodiscard]] block ask(bytes size, bytes minimum, bytes requested, Release const& release) {
    bool may_release = minimum <= maximum_;
    for (int shrunk = 0;;) {
      try {
        return ask_once(size, minimum, requested);
      } catch (std::exception const&) {
        if (std::exchange(may_release, false) && release()) continue;
        if (size == minimum || minimum > maximum_) throw;
      }
      size = ++shrunk > 3 ? minimum : std::max(minimum, size / 8 & ~(alignment_ - 1));
    }
  }
  [[nodiscard]] block ask_once(bytes size, bytes minimum, bytes requested) {
    bytes const left = (maximum_ - std::min(maximum_, reserved_)) & ~(alignment_ - 1);
    if (minimum > left)
      throw out_of_memory{
          "pool", requested,
          "it holds " + std::to_string(reserved_) + " of at most " + std::to_string(maximum_)};
    bytes const allowed = std::min(size, left);
    return {reinterpret_cast<std::uint64_t>(resource_.allocate(allowed, alignment_)), allowed};
  }

  Resource resource_;
  bytes alignment_, maximum_;
  bool is_poisoned_;
  bytes reserved_ = 0, peak_reserved_ = 0;
  std::uint64_t taken_ = 0, given_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI
