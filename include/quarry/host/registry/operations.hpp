// SPDX-License-Identifier: Apache-2.0
// Copies, fills and moves memory of any kind. The registry provides the location and size of the
// memory. So pointers may be interior pointers, and no operation goes beyond the end of an
// allocation.
//
// All operations throw `bad_argument` for memory that the registry does not know, that is too
// small, or that the operation cannot use (a stream cannot fill host memory). They throw it before
// they access any memory. They throw `resource_failed` if CUDA or the system returns an error.
// `copy`, `fill`, `prefetch` and `advise` do nothing for size 0.
//
// With a stream, the operation is stream-ordered, and the call may return before the operation
// ends. Without a stream, the operation is complete when the call returns. If a GPU may use the
// memory (device, pinned, managed), such an operation runs after the earlier work of that GPU's
// default stream, as cudaMemcpy does. It does not wait for non-blocking streams; the caller must
// wait for these first. Operations on host memory wait for no stream.
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/core/export.hpp"
#include "quarry/host/registry/registry.hpp"
#include "quarry/platform/cuda_stream.hpp"

#include <algorithm>
#include <memory>

namespace quarry::inline QUARRY_ABI {

/// Registers memory that no pool allocated, such as arrays of other libraries and mapped files. The
/// registry knows the memory during the lifetime of this object.
class QUARRY_API adopted_memory {
 public:
  /// Reports name the memory `name`. `location` is not checked. Throws `bad_argument` if `memory`
  /// is null, is not a multiple of 16, or lies in an allocation that the registry knows. Also
  /// throws it if `size` is 0 or above 64 TiB.
  adopted_memory(void* memory, bytes size, memory_location location = {}, std::string name = {});
  ~adopted_memory();
  adopted_memory(adopted_memory&&) noexcept;
  adopted_memory& operator=(adopted_memory&&) noexcept;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

/// Advice about the use of memory. It holds until it is revoked, except for `will_be_used`, which
/// has a single effect at once.
enum class memory_advice {
  read_mostly,         ///< for managed memory: each processor may keep a copy to read
  preferred_here,      ///< for managed memory: the pages should stay at the given location
  accessed_by,         ///< for managed memory: the given processor should have it mapped
  will_be_used,        ///< for host memory and files: read the pages now
  is_sequential,       ///< for host memory and files: accessed in order
  is_random,           ///< for host memory and files: accessed in no order
  not_read_mostly,     ///< revokes `read_mostly`
  no_preferred_place,  ///< revokes `preferred_here`, for any location
  not_accessed_by,     ///< revokes `accessed_by`, for the given location
  is_normal            ///< revokes `is_sequential` and `is_random`
};

namespace operations {

/// Copies `size` bytes. The ranges may overlap if both are in host memory.
QUARRY_API void copy(void* target, void const* source, bytes size);
QUARRY_API void copy(void* target, void const* source, bytes size, cuda_stream stream);

/// Sets `size` bytes to `value`.
QUARRY_API void fill(void* memory, unsigned char value, bytes size);
QUARRY_API void fill(void* memory, unsigned char value, bytes size, cuda_stream stream);

/// Prefetches managed memory to `target` (a GPU or the host), or reads the pages of a mapped file
/// if `target` is the host. Does nothing for other kinds of memory. The null stream means the
/// default stream of the target GPU, or of the current GPU if the target is the host.
QUARRY_API void prefetch(void const* memory, bytes size, memory_location target,
                         cuda_stream stream = nullptr);
/// Advises how the program will use the memory. `target` is the GPU or the host that
/// `preferred_here`, `accessed_by` and `not_accessed_by` refer to; other advice ignores it. The
/// driver takes the advice for managed memory. The system takes the advice for host memory, shared
/// memory and files, and applies it to whole pages, including other data in these pages. Throws
/// `bad_argument` for advice that does not fit the kind of memory.
QUARRY_API void advise(void* memory, bytes size, memory_advice advice, memory_location target = {});
/// The same without a lookup, for memory that is known to lie at `location`.
QUARRY_API void prefetch(void const* memory, bytes size, memory_location target, cuda_stream stream,
                         memory_location location);
QUARRY_API void advise(void* memory, bytes size, memory_advice advice, memory_location target,
                       memory_location location);

/// Moves the pages of host memory to a NUMA node. Addresses and contents stay the same. The system
/// moves whole pages, including other data in these pages. The policy for new pages stays: pages
/// that are accessed for the first time later may lie on another node. (For memory that belongs to
/// a node from its first access on, use `numa_resource`.) Throws `bad_argument` for another kind of
/// memory or a node that does not exist. Throws `resource_failed` if the system could not move all
/// pages; some may have moved then.
QUARRY_API void move_to_node(void* memory, bytes size, unsigned node);

/// A pool that is not stream-ordered. Operations on a stream-ordered pool need a stream.
template <class Pool>
concept plain_pool = !requires { typename Pool::stream; };

/// Resizes an allocation of `pool`: allocates `size` bytes, copies the contents of `memory`, and
/// frees `memory`. The result has no label. For nullptr it only allocates. Throws `bad_argument` if
/// `memory` is not allocated from `pool`, and what the pool throws; then changes nothing.
template <plain_pool Pool>
[[nodiscard]] void* reallocate(Pool& pool, void* memory, bytes size) {
  if (memory == nullptr) return pool.allocate(size);
  auto const old_size = pool.size_of(memory);
  if (!old_size) throw bad_argument{"reallocate: the pool has no allocation at this address"};
  if (*old_size == size) return memory;
  void* const result = pool.allocate(size);
  try {
    if (bytes const kept = std::min(*old_size, size)) copy(result, memory, kept);
  } catch (...) {
    (void)pool.deallocate(result);
    throw;
  }
  (void)pool.deallocate(memory);
  return result;
}

/// The same in stream order: the stream runs the next use of the old memory after the copy.
template <class Pool>
[[nodiscard]] void* reallocate(Pool& pool, void* memory, bytes size, cuda_stream stream) {
  if (memory == nullptr) return pool.allocate(size, stream);
  auto const old_size = pool.size_of(memory);
  if (!old_size) throw bad_argument{"reallocate: the pool has no allocation at this address"};
  void* const result = pool.allocate(size, stream);
  try {
    if (bytes const kept = std::min(*old_size, size)) copy(result, memory, kept, stream);
  } catch (...) {
    (void)pool.deallocate(result, stream);
    throw;
  }
  (void)pool.deallocate(memory, stream);
  return result;
}

/// Moves an allocation from pool `source` to pool `target`: allocates from `target`, copies the
/// contents, and frees `memory`. The result has no label. Throws `bad_argument` if `memory` is not
/// allocated from `source`, and what `target` throws; then changes nothing.
template <plain_pool Source, plain_pool Target>
[[nodiscard]] void* move(Source& source, void* memory, Target& target) {
  auto const size = source.size_of(memory);
  if (!size) throw bad_argument{"move: the pool has no allocation at this address"};
  void* const result = target.allocate(*size);
  try {
    if (*size != 0) copy(result, memory, *size);
  } catch (...) {
    (void)target.deallocate(result);
    throw;
  }
  (void)source.deallocate(memory);
  return result;
}

}  // namespace operations
}  // namespace quarry::inline QUARRY_ABI
