// SPDX-License-Identifier: Apache-2.0
// The coalescing allocators that benchmarks compare, each over our heap and over the platform's.
#pragma once

#include "allocators.hpp"
#include "quarry/device/coalescing/coalescing_heap.hpp"

namespace bench {

/// Which of coalescing_ref's calls allocates. Slices are not among them: those are our heap's own
/// malloc.
enum class way : std::uint32_t {
  header_block,
  map_block,
  header_warp,
  map_warp,
  dynamic,
  reserved,
  packed  ///< over our heap only
};

/// One way of coalescing over `Upstream`, for launches of one grid.
template <class Upstream, way How>
class coalesced_allocator {
  static constexpr bool over_ours = std::is_same_v<Upstream, quarry_allocator>;
  static constexpr bool needs_map = How == way::map_block || How == way::map_warp;
  using upstream_ref =
      std::conditional_t<over_ours, quarry::heap_ref, quarry::platform_malloc_heap>;
  static constexpr char const* names[][7] = {
      {"quarry+header-block", "quarry+map-block", "quarry+header-warp", "quarry+map-warp",
       "quarry+dynamic", "quarry+reserved", "quarry+packed"},
      {"cuda+header-block", "cuda+map-block", "cuda+header-warp", "cuda+map-warp", "cuda+dynamic",
       "cuda+reserved", ""},
      {"libc+header-block", "libc+map-block", "libc+header-warp", "libc+map-warp", "libc+dynamic",
       "libc+reserved"}};

 public:
  struct ref {
    quarry::coalescing_ref<upstream_ref> together;

    [[nodiscard]] QUARRY_HD void* malloc(bytes size) const {
      using quarry::coalesce;
      using quarry::locate_by;
      if constexpr (How == way::header_block)
        return together.template malloc_static<coalesce::block, locate_by::header>(size);
      else if constexpr (How == way::map_block)
        return together.template malloc_static<coalesce::block, locate_by::map>(size);
      else if constexpr (How == way::header_warp)
        return together.template malloc_static<coalesce::warp, locate_by::header>(size);
      else if constexpr (How == way::map_warp)
        return together.template malloc_static<coalesce::warp, locate_by::map>(size);
      else if constexpr (How == way::dynamic)
        return together.malloc(size);
      else if constexpr (How == way::packed)
        return together.malloc_packed(size);
      else
        return together.malloc_reserved(size);
    }
    QUARRY_HD void free(void* pointer) const { together.free(pointer); }
  };
  static constexpr char const* name = names[over_ours ? 0
                                            : on_gpu  ? 1
                                                      : 2][static_cast<std::uint32_t>(How)];

  coalesced_allocator(bytes size, grid lanes)
      : upstream_{size}, together_{upstream_of(upstream_), options_for(lanes)} {}
  [[nodiscard]] ref device() const { return {together_.ref()}; }
  [[nodiscard]] Upstream& upstream() { return upstream_; }

  /// Only when everything was freed.
  void reset() {
    upstream_.reset();
    together_.reset();
  }
  /// The first fault since the last reset; empty if there was none.
  [[nodiscard]] std::string first_fault() const {
    auto const first = together_.first_fault();
    return first ? quarry::name_of(first->kind) : "";
  }

 private:
  static upstream_ref upstream_of([[maybe_unused]] Upstream const& upstream) {
    if constexpr (over_ours)
      return upstream.device();
    else
      return {};
  }
  /// A map for twice as many parts as there can be, rings for every warp. Neither where it is not
  /// used: a map costs every free a lookup.
  static quarry::coalescing_options options_for(grid lanes) {
    std::uint32_t const warps =
        (lanes.threads + quarry::simt::warp_size - 1) / quarry::simt::warp_size;
    return {.map_capacity = needs_map ? 2 * lanes.blocks * lanes.threads : 0,
            .warps = How == way::reserved ? lanes.blocks * warps : 0,
            .where = on_gpu ? quarry::backend::cuda : quarry::backend::cpu};
  }

  Upstream upstream_;
  quarry::coalescing_heap<upstream_ref> together_;
};

template <class Upstream, class Body>
void for_all_ways_over(Body& body) {
  body.template operator()<coalesced_allocator<Upstream, way::header_block>>();
  body.template operator()<coalesced_allocator<Upstream, way::map_block>>();
  body.template operator()<coalesced_allocator<Upstream, way::header_warp>>();
  body.template operator()<coalesced_allocator<Upstream, way::map_warp>>();
  body.template operator()<coalesced_allocator<Upstream, way::dynamic>>();
  body.template operator()<coalesced_allocator<Upstream, way::reserved>>();
  if constexpr (std::is_same_v<Upstream, quarry_allocator>)
    body.template operator()<coalesced_allocator<Upstream, way::packed>>();
}

/// Calls `body.template operator()<Allocator>()` for the heaps themselves, the floor, and all ways
/// over both heaps.
struct all_coalesced_allocators {
  template <class Body>
  void operator()(Body body) const {
    body.template operator()<quarry_allocator>();
    body.template operator()<bump_allocator>();
    for_all_ways_over<quarry_allocator>(body);
    for_all_ways_over<platform_allocator>(body);
    body.template operator()<platform_allocator>();
  }
};

}  // namespace bench
