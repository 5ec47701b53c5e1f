// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "world.hpp"

#include "quarry/device/coalescing/coalescing_heap.hpp"
#include "quarry/simt/platform_malloc.hpp"

#include <bit>
#include <optional>

namespace quarry::inline QUARRY_ABI::mpi {

/// What the launcher prepares for `--malloc cuda` and its relatives (compared_malloc.hpp).
class compared_memory {
 public:
  compared_memory(malloc_kind kind, backend machine) {
    if (kind >= malloc_kind::cuda)
      heap_.emplace(simt::platform_malloc{},
                    coalescing_options{.map_capacity = kind == malloc_kind::cuda_map ? parts : 1,
                                       .backend_kind = machine});
  }
  /// For world::compared_heap.
  [[nodiscard]] void* state() const { return heap_ ? std::bit_cast<void*>(heap_->ref()) : nullptr; }

 private:
  static constexpr std::uint32_t parts = 1u << 22;  // that exist at once
  std::optional<coalescing_heap<simt::platform_malloc>> heap_;
};

}  // namespace quarry::inline QUARRY_ABI::mpi
