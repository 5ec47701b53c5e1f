// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/abi.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI::trace {

/// A hash table from addresses that are not 0 to values. Linear probing; at most half full. The
/// hash has a random seed, so no file can have addresses that all collide.
template <class Value>
class address_map {
 public:
  [[nodiscard]] std::size_t size() const { return size_; }

  /// Adds an entry. Returns its value, which stays valid until the next call that changes the
  /// table; null, and changes nothing, if the address has an entry.
  Value* insert(std::uint64_t address, Value value) {
    if (2 * (size_ + 1) > slots_.size()) grow();
    std::size_t at = home(address);
    for (; slots_[at].address != 0; at = next(at)) {
      if (slots_[at].address == address) return nullptr;
    }
    slots_[at] = {address, value};
    ++size_;
    return &slots_[at].value;
  }

  /// Calls `each(value)` for every entry.
  template <class Each>
  void for_each(Each const& each) const {
    for (slot const& entry : slots_) {
      if (entry.address != 0) each(entry.value);
    }
  }

  /// Removes an entry. Returns its value; nullopt if there is none.
  [[nodiscard]] std::optional<Value> remove(std::uint64_t address) {
    for (std::size_t at = home(address); slots_[at].address != 0; at = next(at)) {
      if (slots_[at].address != address) continue;
      Value const result = slots_[at].value;
      close_gap(at);
      --size_;
      return result;
    }
    return std::nullopt;
  }

 private:
  struct slot {
    std::uint64_t address = 0;
    Value value = {};
  };

  [[nodiscard]] static std::uint64_t random_seed() {
    static std::uint64_t const result =
        std::uint64_t{std::random_device{}()} << 32 ^ std::uint64_t{std::random_device{}()};
    return result;
  }
  [[nodiscard]] std::size_t home(std::uint64_t address) const {
    return static_cast<std::size_t>(((address ^ seed_) * 0x9e3779b97f4a7c15) >> shift_);
  }
  [[nodiscard]] std::size_t next(std::size_t at) const { return (at + 1) & (slots_.size() - 1); }

  /// Moves later entries of the same run back, so that no search ends too early.
  void close_gap(std::size_t gap) {
    for (std::size_t at = next(gap); slots_[at].address != 0; at = next(at)) {
      std::size_t const distance = (at - home(slots_[at].address)) & (slots_.size() - 1);
      if (distance < ((at - gap) & (slots_.size() - 1))) continue;
      slots_[gap] = slots_[at];
      gap = at;
    }
    slots_[gap] = {};
  }

  void grow() {
    auto const old = std::exchange(slots_, std::vector<slot>(2 * slots_.size()));
    --shift_;
    size_ = 0;
    for (slot const& each : old) {
      if (each.address != 0) (void)insert(each.address, each.value);
    }
  }

  std::vector<slot> slots_ = std::vector<slot>(1024);
  unsigned shift_ = 64 - 10;
  std::uint64_t seed_ = random_seed();
  std::size_t size_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI::trace
