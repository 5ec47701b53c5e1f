// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/registry/operations.hpp"
#include "quarry/host/resources/resource_adaptor.hpp"

#include <concepts>
#include <optional>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// Advises the driver or the system about each allocation of a resource, and prefetches it to the
/// location of its use. It is for managed memory, files and host memory (see memory_advice).
///
/// A stream-ordered call prefetches in its stream, so the stream's later work finds the memory at
/// the target. Other calls prefetch in the default stream. Throws what the upstream,
/// `operations::advise` and `operations::prefetch` throw; then the allocation is returned to the
/// upstream.
template <class Upstream>
class advised_resource : public resource_adaptor<advised_resource<Upstream>, Upstream> {
 public:
  struct advice {
    memory_advice kind;
    memory_location location = {};
  };
  /// `prefetch_to`: the location to prefetch to, or nullopt for no prefetch.
  advised_resource(Upstream upstream, std::vector<advice> advices,
                   std::optional<memory_location> prefetch_to = {})
      : upstream_{std::move(upstream)}, advice_{std::move(advices)}, prefetch_to_{prefetch_to} {}
  /// Constructs the upstream from `arguments`: for an upstream that cannot be moved, such as a
  /// stream pool with its lock.
  template <class... Arguments>
    requires std::constructible_from<Upstream, Arguments...>
  advised_resource(std::vector<advice> advices, std::optional<memory_location> prefetch_to,
                   std::in_place_t, Arguments&&... arguments)
      : upstream_(std::forward<Arguments>(arguments)...),
        advice_{std::move(advices)},
        prefetch_to_{prefetch_to} {}

  [[nodiscard]] Upstream& upstream() { return upstream_; }

 private:
  friend resource_adaptor<advised_resource, Upstream>;

  template <class Call>
  [[nodiscard]] void* allocate_by(Call call, bytes size, bytes alignment) {
    void* const result = call.allocate(upstream_, size, alignment);
    try {
      advise(result, size, stream_of(call));
    } catch (...) {
      call.deallocate(upstream_, result, size, alignment);
      throw;
    }
    return result;
  }
  template <class Call>
  bool deallocate_by(Call call, void* pointer, bytes size, bytes alignment) noexcept {
    return call.deallocate(upstream_, pointer, size, alignment);
  }

  template <class Call>
  [[nodiscard]] static cuda_stream stream_of(Call call) {
    if constexpr (requires { call.stream; }) {
      return call.stream;
    } else {
      return nullptr;
    }
  }
  void advise(void* memory, bytes size, cuda_stream stream) {
    memory_location const location = location_of(upstream_);
    for (advice const& applied : advice_)
      operations::advise(memory, size, applied.kind, applied.location, location);
    if (prefetch_to_) operations::prefetch(memory, size, *prefetch_to_, stream, location);
  }

  Upstream upstream_;
  std::vector<advice> advice_;
  std::optional<memory_location> prefetch_to_;
};

}  // namespace quarry::inline QUARRY_ABI
