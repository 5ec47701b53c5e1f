// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/registry/memory_location.hpp"
#include "quarry/host/resources/resource.hpp"
#include "quarry/host/resources/resource_adaptor.hpp"

#include <concepts>
#include <string>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// Named ranges in a profiler's timeline. `push` starts a range; `pop` ends the last range that the
/// calling thread started. Neither throws.
template <class Ranges>
concept profiler_ranges = std::movable<Ranges> && requires(Ranges& ranges, char const* name) {
  { ranges.push(name) } noexcept;
  { ranges.pop() } noexcept;
};

/// Shows each allocation and deallocation as a range in a profiler. `nvtx_ranges` is for NVTX
/// (nvtx_ranges.hpp).
///
/// The upstream is a resource, a pool, or a stream-ordered source. With such a source each call
/// takes the stream, too. Throws what the upstream throws.
template <class Upstream, profiler_ranges Ranges>
class ranged_resource : public resource_adaptor<ranged_resource<Upstream, Ranges>, Upstream> {
 public:
  /// `name`: the prefix of the ranges' names, for instance the pool's name.
  ranged_resource(Upstream upstream, Ranges ranges, std::string const& name)
      : upstream_{std::move(upstream)},
        ranges_{std::move(ranges)},
        allocate_{name + " allocate"},
        deallocate_{name + " deallocate"} {}
  /// Constructs the upstream from `arguments`: for an upstream that cannot be moved.
  template <class... Arguments>
    requires std::constructible_from<Upstream, Arguments...>
  ranged_resource(Ranges ranges, std::string const& name, std::in_place_t, Arguments&&... arguments)
      : upstream_(std::forward<Arguments>(arguments)...),
        ranges_{std::move(ranges)},
        allocate_{name + " allocate"},
        deallocate_{name + " deallocate"} {}

  [[nodiscard]] Upstream& upstream() { return upstream_; }

 private:
  friend resource_adaptor<ranged_resource, Upstream>;

  class range {
   public:
    range(Ranges& ranges, std::string const& name) : ranges_{ranges} { ranges_.push(name.c_str()); }
    range(range const&) = delete;
    range& operator=(range const&) = delete;
    ~range() { ranges_.pop(); }

   private:
    Ranges& ranges_;
  };

  template <class Call>
  [[nodiscard]] void* allocate_by(Call call, bytes size, bytes alignment) {
    range const shown{ranges_, allocate_};
    return call.allocate(upstream_, size, alignment);
  }
  template <class Call>
  bool deallocate_by(Call call, void* pointer, bytes size, bytes alignment) noexcept {
    range const shown{ranges_, deallocate_};
    return call.deallocate(upstream_, pointer, size, alignment);
  }

  Upstream upstream_;
  Ranges ranges_;
  std::string allocate_, deallocate_;
};

template <class Upstream, class Ranges>
ranged_resource(Upstream, Ranges, std::string) -> ranged_resource<Upstream, Ranges>;
template <class Upstream, class Ranges>
ranged_resource(Upstream, Ranges, char const*) -> ranged_resource<Upstream, Ranges>;

}  // namespace quarry::inline QUARRY_ABI
