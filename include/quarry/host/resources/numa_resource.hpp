// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/core/export.hpp"
#include "quarry/host/resources/resource.hpp"

namespace quarry::inline QUARRY_ABI {

/// Memory of the host on one NUMA node, by whole pages: Linux takes them from there when they are
/// first touched, and ends a process for which the node has none then. Threads may share it.
class QUARRY_API numa_resource {
 public:
  /// Throws `bad_argument` if the system has no such node, `resource_failed` if it does not let a
  /// process choose one.
  explicit numa_resource(unsigned node);
  [[nodiscard]] void* allocate(bytes size, bytes alignment);
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept;
  [[nodiscard]] unsigned node() const { return node_; }

 private:
  unsigned node_;
};

static_assert(memory_resource<numa_resource>);

/// The node whose memory lies at an address of the host's, which is read. Throws `resource_failed`
/// if nothing is mapped there, or the system does not tell. (`operations::move_to_node` moves it.)
[[nodiscard]] QUARRY_API unsigned numa_node_of(void const* memory);

}  // namespace quarry::inline QUARRY_ABI
