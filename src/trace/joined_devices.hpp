// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/trace/event.hpp"

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace quarry::inline QUARRY_ABI::trace {

/// The device of an allocator that the reader of PyTorch's snapshots named: `device N`, or
/// `device N, pool (A, B)`. Empty for other allocators.
[[nodiscard]] inline std::string_view device_of(std::string_view name) {
  return name.starts_with("device ") ? name.substr(0, name.find(", pool (")) : std::string_view{};
}

/// A hash of addresses with a random seed, so that no file can have addresses that all collide.
struct seeded_hash {
  std::uint64_t seed = std::random_device{}() | std::uint64_t{std::random_device{}()} << 32;
  [[nodiscard]] std::size_t operator()(std::uint64_t address) const {
    std::uint64_t const mixed = (address ^ seed) * 0x9e3779b97f4a7c15;
    return static_cast<std::size_t>(mixed ^ mixed >> 32);
  }
};

/// Makes one memory of the memories of several devices, which may use equal addresses.
///
/// An allocation at an address that another device uses gets an address of its own, until it is
/// freed. So no two allocations in use have equal addresses, unless a free is missing. Allocators
/// that are no devices share the memory of the first device. O(1) for each event. Its size grows
/// with the allocations in use.
class joined_devices {
 public:
  /// Changes the address of an allocation or a free.
  void join(event& each, name_table const& allocators) {
    if (each.address == 0) return;  // of size 0, by allocators that return null for it
    if (each.kind == event_kind::allocate) {
      each.address = allocate(memory_of(each.allocator, allocators), each.address);
    } else if (each.kind == event_kind::deallocate) {
      each.address = deallocate(memory_of(each.allocator, allocators), each.address);
    }
  }

 private:
  using addresses =
      std::unordered_map<std::uint64_t, std::uint64_t, seeded_hash>;  // in use -> joined

  [[nodiscard]] std::uint64_t allocate(std::size_t memory, std::uint64_t address) {
    if (memories_.size() == 1) {
      joined_.insert(address);
      return address;
    }
    auto const [found, is_new] = memories_[memory].try_emplace(address, address);
    if (!is_new) return found->second;  // its free is missing
    if (!joined_.insert(address).second) {
      found->second = unused();
      joined_.insert(found->second);
    }
    return found->second;
  }
  [[nodiscard]] std::uint64_t deallocate(std::size_t memory, std::uint64_t address) {
    if (memories_.size() == 1) {
      joined_.erase(address);
      return address;
    }
    auto const found = memories_[memory].find(address);
    if (found ==
        memories_[memory].end())  // an unknown free must not free another device's allocation
      return joined_.contains(address) ? unused() : address;
    std::uint64_t const result = found->second;
    memories_[memory].erase(found);
    joined_.erase(result);
    return result;
  }
  /// An address that no allocation in use has.
  [[nodiscard]] std::uint64_t unused() {
    do {
      next_ -= 4096;
    } while (next_ == 0 || joined_.contains(next_));
    return next_;
  }

  /// The number of an allocator's memory in `memories_`.
  [[nodiscard]] std::size_t memory_of(std::uint32_t allocator, name_table const& allocators) {
    if (allocator >= allocators.size()) return 0;  // a number without a name
    while (numbers_.size() <= allocator) {
      auto const number = static_cast<std::uint32_t>(numbers_.size());
      std::string_view const device = device_of(allocators.name(number));
      numbers_.push_back(device.empty() ? 0 : number_of(device));
    }
    return numbers_[allocator];
  }
  [[nodiscard]] std::size_t number_of(std::string_view device) {
    std::size_t const number =
        devices_.try_emplace(std::string{device}, devices_.size()).first->second;
    if (number < memories_.size()) return number;
    memories_.resize(number + 1);
    if (number == 1)  // until now, each address stood for itself
      for (std::uint64_t const address : joined_) memories_[0].emplace(address, address);
    return number;
  }

  std::vector<std::size_t> numbers_;  // of the allocators' memories
  std::unordered_map<std::string, std::size_t> devices_;
  // Of one device, whose addresses are in `joined_`, the map is empty.
  std::vector<addresses> memories_ = std::vector<addresses>(1);
  std::unordered_set<std::uint64_t, seeded_hash> joined_;  // the addresses in use of all devices
  std::uint64_t next_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI::trace
