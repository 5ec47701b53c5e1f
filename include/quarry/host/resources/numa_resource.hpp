// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/core/export.hpp"
#include "quarry/host/resources/resource.hpp"

namespace quarry::inline QUARRY_ABI {

/// Host memory on one NUMA node, in whole pages. Linux takes the pages from the node when they are
/// first accessed. It kills the process if the node has no free pages then. An alignment above the
/// size of a page throws `bad_argument`. Threads may share this resource.
class QUARRY_API numa_resource {
 public:
  /// Throws `bad_argument` if the system has no node of that number, and `resource_failed` if it
  /// does not let the process choose a node.
  explicit numa_resource(unsigned node);
  [[nodiscard]] void* allocate(bytes size, bytes alignment);
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept;
  [[nodiscard]] unsigned node() const { return node_; }

 private:
  unsigned node_;
};

static_assert(memory_resource<numa_resource>);

/// The NUMA node of the memory at a host address. Reads that memory. Throws `resource_failed` if no
/// memory is mapped there, or if the system does not tell the node. (`operations::move_to_node`
/// moves memory.)
[[nodiscard]] QUARRY_API unsigned numa_node_of(void const* memory);

}  // namespace quarry::inline QUARRY_ABI
