// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/resources/resource.hpp"

namespace quarry::inline QUARRY_ABI {

/// Returns addresses without memory, for tests of pools. A pool accesses the memory that it manages
/// only for red zones and under AddressSanitizer. It refuses red zones, and poisons nothing, over
/// this resource.
class simulated_resource {
 public:
  static constexpr bool is_simulated = true;

  simulated_resource() = default;
  /// `limit`: the maximum of the bytes that are allocated at one time.
  explicit simulated_resource(bytes limit) : limit_{limit} {}

  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    check_power_of_two("simulated_resource", alignment);
    bytes const left = limit_ < reserved_ ? 0 : limit_ - reserved_;
    if (size > left)
      throw out_of_memory{"simulated_resource", size,
                          "only " + std::to_string(left) + " bytes of the limit of " +
                              std::to_string(limit_) + " are left"};
    std::uint64_t const base = (next_ + alignment - 1) & ~(alignment - 1);
    next_ = base + size + 1;  // no two blocks touch
    reserved_ += size;
    ++allocations_;
    return reinterpret_cast<void*>(base);
  }
  void deallocate(void*, bytes size, bytes) noexcept {
    reserved_ -= size;
    ++deallocations_;
  }

  /// Changes the limit. Allocations in use stay valid, also if they exceed the new limit.
  void limit(bytes maximum) { limit_ = maximum; }

  /// The bytes that are allocated now.
  [[nodiscard]] bytes reserved() const { return reserved_; }
  [[nodiscard]] std::uint64_t allocations() const { return allocations_; }
  [[nodiscard]] std::uint64_t deallocations() const { return deallocations_; }

 private:
  bytes limit_ = no_limit;
  bytes reserved_ = 0;
  std::uint64_t next_ = 1 << 20;
  std::uint64_t allocations_ = 0;
  std::uint64_t deallocations_ = 0;
};

static_assert(memory_resource<simulated_resource>);

}  // namespace quarry::inline QUARRY_ABI
