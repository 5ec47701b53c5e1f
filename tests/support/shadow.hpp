// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/heap_ref.hpp"

namespace quarry::test {

/// Maps each 16 bytes of a heap's region to the allocation that they belong to. The lanes that use
/// the heap update the map; the heap does not. The map has a word for each 16 bytes; zero means
/// that no lane has them.
///
/// All copies share the words; kernels take a copy by value. The words are atomics, so that an
/// error of the heap is counted and is not a data race.
class shadow_map {
 public:
  static constexpr bytes granule = 16;

  shadow_map(std::uint32_t* words, void const* region)
      : words_{words}, region_{reinterpret_cast<std::uint64_t>(region)} {}

  [[nodiscard]] static std::size_t words_for(bytes region_bytes) { return region_bytes / granule; }

  /// Records an allocation. Returns how many of its 16-byte granules belonged to another
  /// allocation: these overlap.
  [[nodiscard]] QUARRY_HD std::uint32_t mark(void const* pointer, bytes size) const {
    std::uint32_t overlaps = 0;
    for_each_granule(pointer, size, [&](simt::atomic_ref<std::uint32_t> word, std::uint32_t own) {
      overlaps += word.exchange(own, simt::relaxed) != 0 ? 1 : 0;
    });
    return overlaps;
  }

  /// Removes an allocation before it is freed. Returns how many of its 16-byte granules belonged to
  /// another allocation.
  [[nodiscard]] QUARRY_HD std::uint32_t unmark(void const* pointer, bytes size) const {
    std::uint32_t overlaps = 0;
    for_each_granule(pointer, size, [&](simt::atomic_ref<std::uint32_t> word, std::uint32_t own) {
      overlaps += word.exchange(0, simt::relaxed) != own ? 1 : 0;
    });
    return overlaps;
  }

 private:
  template <class Visit>
  QUARRY_HD void for_each_granule(void const* pointer, bytes size, Visit const& visit) const {
    auto const first = (reinterpret_cast<std::uint64_t>(pointer) - region_) / granule;
    bytes const count = size == 0 ? 1 : (size + granule - 1) / granule;
    for (bytes i = 0; i < count; ++i) {
      visit(simt::atomic_ref<std::uint32_t>{words_[first + i]},
            static_cast<std::uint32_t>(first) + 1);
    }
  }

  std::uint32_t* words_;
  std::uint64_t region_;
};

}  // namespace quarry::test
