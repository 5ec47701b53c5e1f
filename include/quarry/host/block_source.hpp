// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/errors.hpp"
#include "quarry/host/poison.hpp"
#include "quarry/host/resource.hpp"

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
  /// `alignment`: of all blocks and their sizes. `most`: bytes of all blocks together.
  block_source(Resource resource, bytes alignment, bytes most)
      : resource_{std::move(resource)},
        alignment_{alignment},
        most_{most},
        is_poisoned_{quarry::is_poisoned(resource_)} {}

  [[nodiscard]] Resource& resource() { return resource_; }
  [[nodiscard]] bytes held() const { return held_; }
  [[nodiscard]] bytes most_held() const { return most_held_; }
  [[nodiscard]] std::uint64_t taken() const { return taken_; }
  [[nodiscard]] std::uint64_t given() const { return given_; }
  [[nodiscard]] bool is_poisoned() const {
    if constexpr (!has_address_sanitizer) return false;
    return is_poisoned_;
  }

  /// A block.
  struct block {
    std::uint64_t begin;
    bytes size;
  };
  /// A block of `size` bytes, or of as many as can be had, but of `least` at least, for a request
  /// of `asked` bytes. If the resource refuses, asks once more after `release()`, which is true if
  /// it returned a block; then for an eighth, three times, and for `least`. Throws `out_of_memory`
  /// at the limit, and what the resource throws.
  template <class Release>
  [[nodiscard]] block take(bytes size, bytes least, bytes asked, Release const& release) {
    block const fresh = ask(size, least, asked, release);
    ++taken_;
    held_ += fresh.size;
    most_held_ = std::max(most_held_, held_);
    if (is_poisoned()) poison(reinterpret_cast<void*>(fresh.begin), fresh.size);
    try {
      settle(resource_);
    } catch (...) {
      give(fresh.begin, fresh.size);
      throw;
    }
    return fresh;
  }
  void give(std::uint64_t begin, bytes size) noexcept {
    ++given_;
    held_ -= size;
    if (is_poisoned()) unpoison(reinterpret_cast<void*>(begin), size);
    resource_.deallocate(reinterpret_cast<void*>(begin), size, alignment_);
  }

 private:
  template <class Release>
  [[nodiscard]] block ask(bytes size, bytes least, bytes asked, Release const& release) {
    bool may_release = least <= most_;
    for (int shrunk = 0;;) {
      try {
        return ask_once(size, least, asked);
      } catch (std::exception const&) {
        if (std::exchange(may_release, false) && release()) continue;
        if (size == least || least > most_) throw;
      }
      size = ++shrunk > 3 ? least : std::max(least, size / 8 & ~(alignment_ - 1));
    }
  }
  [[nodiscard]] block ask_once(bytes size, bytes least, bytes asked) {
    bytes const left = (most_ - std::min(most_, held_)) & ~(alignment_ - 1);
    if (least > left)
      throw out_of_memory{
          "pool", asked,
          "it holds " + std::to_string(held_) + " of at most " + std::to_string(most_)};
    bytes const allowed = std::min(size, left);
    return {reinterpret_cast<std::uint64_t>(resource_.allocate(allowed, alignment_)), allowed};
  }

  Resource resource_;
  bytes alignment_, most_;
  bool is_poisoned_;
  bytes held_ = 0, most_held_ = 0;
  std::uint64_t taken_ = 0, given_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI
