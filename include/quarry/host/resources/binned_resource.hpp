// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/registry/memory_location.hpp"
#include "quarry/host/resources/fixed_size_resource.hpp"
#include "quarry/host/resources/resource_adaptor.hpp"

#include <bit>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// Allocates small sizes from slots, with a bin for each power of two from `minimum` to `maximum`.
/// Larger sizes, and alignments above 256, come directly from `Large`, for example a pool.
///
/// `Small` provides the slots, in blocks of `slots_per_block`. The memory of `Small` and `Large`
/// must have the same location. An allocation must be freed with its size and alignment.
template <class Small, class Large>
class QUARRY_POISONS binned_resource {
 public:
  static constexpr bool is_simulated = simulated<Small> || simulated<Large>;

  /// `make_small()` returns the upstream of a bin. Throws `bad_argument` unless `minimum` and
  /// `maximum` are powers of two with 16 <= `minimum` <= `maximum`, and if the locations differ.
  template <class MakeSmall>
  binned_resource(MakeSmall make_small, Large large, bytes minimum, bytes maximum,
                  std::uint32_t slots_per_block = 256)
      : large_{std::move(large)}, minimum_{minimum}, maximum_{maximum} {
    if (minimum < 16 || !std::has_single_bit(minimum) || !std::has_single_bit(maximum) ||
        maximum < minimum) {
      throw bad_argument{"binned_resource: bins from " + std::to_string(minimum) + " to " +
                         std::to_string(maximum) +
                         "; both must be powers of two, with 16 <= minimum <= maximum"};
    }
    for (bytes size = minimum; size <= maximum; size *= 2)
      bins_.emplace_back(make_small(), size, slots_per_block, std::min<bytes>(size, 256));
    for (auto& bin : bins_) {
      if (location_of(bin) != location_of(large_))
        throw bad_argument{std::string{"binned_resource: the slots have memory of the kind "} +
                           name_of(location_of(bin).kind) + ", large allocations in " +
                           name_of(location_of(large_).kind) + ", or on another device"};
    }
  }

  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    check_power_of_two("binned_resource", alignment);
    if (is_large(size, alignment)) return large_.allocate(size, alignment);
    return bins_[bin_of(size, alignment)].allocate(size, alignment);
  }
  /// Returns false if `Large` or the slots refuse the pointer.
  bool deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    if (is_large(size, alignment)) return plain_call{}.deallocate(large_, pointer, size, alignment);
    return bins_[bin_of(size, alignment)].deallocate(pointer, size, alignment);
  }

  [[nodiscard]] Large& large() { return large_; }
  [[nodiscard]] memory_location location() { return location_of(large_); }
  void synchronize() {
    quarry::synchronize(large_);
    for (auto& bin : bins_) quarry::synchronize(bin);
  }

 private:
  [[nodiscard]] bool is_large(bytes size, bytes alignment) const {
    return size > maximum_ || alignment > maximum_ || alignment > 256;
  }
  [[nodiscard]] std::size_t bin_of(bytes size, bytes alignment) const {
    bytes const slot = std::bit_ceil(std::max({size, alignment, minimum_}));
    return static_cast<std::size_t>(std::countr_zero(slot) - std::countr_zero(minimum_));
  }

  Large large_;
  bytes minimum_, maximum_;
  std::vector<fixed_size_resource<Small>> bins_;
};

}  // namespace quarry::inline QUARRY_ABI
