// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/operations.hpp"

#include <optional>
#include <utility>
#include <vector>

namespace quarry {

/// Gives the driver or the system advice on all that comes from a resource, and brings it to where
/// it will be used: for managed memory, files and the host's (see memory_advice).
template <class Upstream>
class advised_resource {
 public:
  struct advice {
    memory_advice what;
    memory_place where = {};
  };
  /// `prefetch_to`: where to bring it, if anywhere.
  advised_resource(Upstream upstream, std::vector<advice> all,
                   std::optional<memory_place> prefetch_to = {})
      : upstream_{std::move(upstream)}, advice_{std::move(all)}, prefetch_to_{prefetch_to} {}

  /// Throws what the upstream throws, and what `operations::advise` and `operations::prefetch`
  /// throw: then nothing is kept.
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    void* const result = upstream_.allocate(size, alignment);
    try {
      memory_place const place = place_of(upstream_);
      for (advice const& one : advice_)
        operations::advise(result, size, one.what, one.where, place);
      if (prefetch_to_) operations::prefetch(result, size, *prefetch_to_, nullptr, place);
    } catch (...) {
      upstream_.deallocate(result, size, alignment);
      throw;
    }
    return result;
  }
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept {
    upstream_.deallocate(pointer, size, alignment);
  }
  [[nodiscard]] Upstream& upstream() { return upstream_; }

 private:
  Upstream upstream_;
  std::vector<advice> advice_;
  std::optional<memory_place> prefetch_to_;
};

}  // namespace quarry
