// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/platform/page_source.hpp"

#include <set>

namespace quarry::inline QUARRY_ABI {

/// Pages without memory: only their addresses are recorded. With them tools run a pool without a
/// GPU, and tests find wrong calls of the pool (`mistakes`).
class simulated_pages {
 public:
  static constexpr bool is_simulated = true;

  explicit simulated_pages(bytes page, bytes limit = no_limit) : page_{page}, limit_{limit} {}

  [[nodiscard]] bytes page_bytes() const { return page_; }
  [[nodiscard]] std::uint64_t reserve(bytes size) {
    std::uint64_t const base = next_;
    next_ += size + page_;
    return base;
  }
  void release(std::uint64_t, bytes) noexcept {}
  void map(std::uint64_t address, bytes size) {
    if (size > limit_ || reserved() > limit_ - size)
      throw out_of_memory{
          "simulated_pages", size,
          std::to_string(reserved()) + " of " + std::to_string(limit_) + " bytes are mapped"};
    for (bytes offset = 0; offset < size; offset += page_)
      expect(mapped_.insert(address + offset).second);
    ++maps_;
  }
  void move(std::uint64_t source, std::uint64_t target, bytes size) {
    for (bytes offset = 0; offset < size; offset += page_) {
      expect(mapped_.erase(source + offset) == 1);
      expect(mapped_.insert(target + offset).second);
    }
    moved_ += size;
  }
  void unmap(std::uint64_t address, bytes size) noexcept {
    for (bytes offset = 0; offset < size; offset += page_)
      expect(mapped_.erase(address + offset) == 1);
  }

  void limit(bytes maximum) { limit_ = maximum; }
  [[nodiscard]] bytes reserved() const { return mapped_.size() * page_; }
  [[nodiscard]] bool is_mapped(std::uint64_t address) const {
    return mapped_.contains(address & ~(page_ - 1));
  }
  [[nodiscard]] std::uint64_t maps() const { return maps_; }
  [[nodiscard]] bytes moved() const { return moved_; }
  /// The number of mistakes of the caller. It is a mistake to map a page at an address that has a
  /// page, and to move or unmap a page at an address that has none.
  [[nodiscard]] std::uint64_t mistakes() const { return mistakes_; }

 private:
  void expect(bool holds) noexcept { mistakes_ += holds ? 0 : 1; }

  bytes page_;
  bytes limit_;
  std::uint64_t next_ = std::uint64_t{1} << 32;
  std::set<std::uint64_t> mapped_;
  std::uint64_t maps_ = 0;
  bytes moved_ = 0;
  std::uint64_t mistakes_ = 0;
};

static_assert(page_source<simulated_pages>);

}  // namespace quarry::inline QUARRY_ABI
