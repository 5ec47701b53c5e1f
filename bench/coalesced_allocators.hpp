// SPDX-License-Identifier: Apache-2.0
// The coalescing allocators that the benchmarks compare, each over Quarry's heap and over the
// platform's malloc.
#pragma once

#include "allocators.hpp"
#include "quarry/device/coalescing/coalescing_heap.hpp"

namespace bench {

/// The call of coalescing_ref that allocates. Slices have no entry: they are the malloc of Quarry's
/// heap.
enum class way : std::uint32_t {
  header_block,
  map_block,
  header_warp,
  map_warp,
  dynamic,
  reserved,
  packed  ///< only over Quarry's heap
};

/// One way of coalescing over `Upstream`, for launches of one grid.
template <class Upstream, way Way>
class coalesced_allocator {
  static constexpr bool is_over_quarry = std::is_same_v<Upstream, quarry_allocator>;
  static constexpr bool needs_map = Way == way::map_block || Way == way::map_warp;
  using upstream_ref =
      std::conditional_t<is_over_quarry, quarry::heap_ref, quarry::platform_malloc_heap>;
  static constexpr char const* names[][7] = {
      {"quarry+header-block", "quarry+map-block", "quarry+header-warp", "quarry+map-warp",
       "quarry+dynamic", "quarry+reserved", "quarry+packed"},
      {"cuda+header-block", "cuda+map-block", "cuda+header-warp", "cuda+map-warp", "cuda+dynamic",
       "cuda+reserved", ""},
      {"libc+header-block", "libc+map-block", "libc+header-warp", "libc+map-warp", "libc+dynamic",
       "libc+reserved"}};

 public:
  struct ref {
    quarry::coalescing_ref<upstream_ref> coalescing;

    [[nodiscard]] QUARRY_HD void* malloc(bytes size) const {
      using quarry::coalesce;
      using quarry::locate_by;
      if constexpr (Way == way::header_block)
        return coalescing.template malloc_static<coalesce::block, locate_by::header>(size);
      else if constexpr (Way == way::map_block)
        return coalescing.template malloc_static<coalesce::block, locate_by::map>(size);
      else if constexpr (Way == way::header_warp)
        return coalescing.template malloc_static<coalesce::warp, locate_by::header>(size);
      else if constexpr (Way == way::map_warp)
        return coalescing.template malloc_static<coalesce::warp, locate_by::map>(size);
      else if constexpr (Way == way::dynamic)
        return coalescing.malloc(size);
      else if constexpr (Way == way::packed)
        return coalescing.malloc_packed(size);
      else
        return coalescing.malloc_reserved(size);
    }
    QUARRY_HD void free(void* pointer) const { coalescing.free(pointer); }
  };
  static constexpr char const* name = names[is_over_quarry ? 0
                                            : on_gpu       ? 1
                                                           : 2][static_cast<std::uint32_t>(Way)];

  coalesced_allocator(bytes size, grid lanes)
      : upstream_{size}, coalescing_{upstream_of(upstream_), options_for(lanes)} {}
  [[nodiscard]] ref device() const { return {coalescing_.ref()}; }
  [[nodiscard]] Upstream& upstream() { return upstream_; }

  /// Requires that everything is freed.
  void reset() {
    upstream_.reset();
    coalescing_.reset();
  }
  /// The name of the first fault since the last reset; empty if there was no fault.
  [[nodiscard]] std::string first_fault() const {
    auto const first = coalescing_.first_fault();
    return first ? quarry::name_of(first->kind) : "";
  }

 private:
  static upstream_ref upstream_of([[maybe_unused]] Upstream const& upstream) {
    if constexpr (is_over_quarry)
      return upstream.device();
    else
      return {};
  }
  /// A map for twice the maximum number of parts, and rings for every warp. Only the ways that use
  /// them get them, since with a map every free costs a lookup.
  static quarry::coalescing_options options_for(grid lanes) {
    std::uint32_t const warps =
        (lanes.threads + quarry::simt::warp_size - 1) / quarry::simt::warp_size;
    return {.map_capacity = needs_map ? 2 * lanes.blocks * lanes.threads : 0,
            .warps = Way == way::reserved ? lanes.blocks * warps : 0,
            .backend_kind = on_gpu ? quarry::backend::cuda : quarry::backend::cpu};
  }

  Upstream upstream_;
  quarry::coalescing_heap<upstream_ref> coalescing_;
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

/// Calls `body.template operator()<Allocator>()` for Quarry's heap, the platform's malloc, the
/// floor, and all ways of coalescing over the heap and the malloc.
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
