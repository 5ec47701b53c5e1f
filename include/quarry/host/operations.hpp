// SPDX-License-Identifier: Apache-2.0
// Copying, filling and moving memory of any kind. Where it lies and how large it is the registry
// knows: pointers may lie inside an allocation, and no operation goes beyond its end.
//
// All throw `bad_argument` for memory that the registry does not know, that is too small, or that
// the operation cannot use (such as host memory in a stream), before anything is touched, and
// `resource_failed` if CUDA refuses. With a stream, an operation is done in the stream's order,
// and the call may return before. Without one it is done when the call returns: where a GPU may
// use the memory (device, pinned, managed) it comes after what that GPU's default stream has, as
// cudaMemcpy does, but not after non-blocking streams, which the caller waits for first. Of memory
// of the host alone it comes after nothing but the caller.
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/host/registry/registry.hpp"
#include "quarry/host/resources/cuda_resources.hpp"

#include <algorithm>
#include <memory>

namespace quarry::inline QUARRY_ABI {

/// Memory that no pool gave, made known to the registry as long as this lives: arrays of other
/// libraries, mapped files.
class QUARRY_API adopted_memory {
 public:
  /// `location`: where it lies, which is believed. Throws `bad_argument` if `memory` is no multiple
  /// of 16, or begins in an allocation.
  adopted_memory(void* memory, bytes size, memory_location location = {}, std::string name = {});
  ~adopted_memory();
  adopted_memory(adopted_memory&&) noexcept;
  adopted_memory& operator=(adopted_memory&&) noexcept;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

/// Advice stands until it is taken back; `will_be_used` is done at once, and nothing stands.
enum class memory_advice {
  read_mostly,
  preferred_here,
  accessed_by,
  will_be_used,
  is_sequential,
  is_random,
  not_read_mostly,     ///< takes `read_mostly` back
  no_preferred_place,  ///< takes `preferred_here` back, whichever place that was
  not_accessed_by,     ///< takes `accessed_by` back, of this place
  is_normal            ///< takes `is_sequential` and `is_random` back
};

namespace operations {

/// Copies `size` bytes; the two may overlap if both are the host's alone.
QUARRY_API void copy(void* to, void const* from, bytes size);
QUARRY_API void copy(void* to, void const* from, bytes size, cuda_stream on);

/// Sets `size` bytes to `value`.
QUARRY_API void fill(void* memory, unsigned char value, bytes size);
QUARRY_API void fill(void* memory, unsigned char value, bytes size, cuda_stream on);

/// Brings managed memory to `where` (a GPU, or the host), or what is mapped from a file into
/// memory. Elsewhere there is nothing to do. The null stream is the default stream of the GPU that
/// it is brought to, and of the current one if it is brought to the host.
QUARRY_API void prefetch(void const* memory, bytes size, memory_location where,
                         cuda_stream on = nullptr);
/// Tells the driver (managed memory: the first three, and what takes them back) or the system (host
/// and file: the others) how memory will be used. The system's advice is for whole pages: it holds
/// for what else lies in these, too. Throws `bad_argument` for advice that is none for such memory.
QUARRY_API void advise(void* memory, bytes size, memory_advice what, memory_location where = {});
/// The same for memory that is known to be `of` that kind, without a lookup.
QUARRY_API void prefetch(void const* memory, bytes size, memory_location where, cuda_stream on,
                         memory_location of);
QUARRY_API void advise(void* memory, bytes size, memory_advice what, memory_location where,
                       memory_location of);

/// Moves the pages of the host's memory to a NUMA node; addresses and contents stay. It is done by
/// whole pages, so what else lies in these moves, too. Pages that are touched first later come from
/// where they would have come from without this call: the kernel's policies stay (for memory that
/// belongs to a node from its first touch on there is `numa_resource`). Throws `bad_argument` for
/// memory of another kind or a node that the system does not have, `resource_failed` if the system
/// refuses or could not move all: then some may have moved.
QUARRY_API void move_to_node(void* memory, bytes size, unsigned node);

/// A pool whose memory is in no stream's order: in the order of streams, operations must say of
/// which.
template <class Pool>
concept plain_pool = !requires { typename Pool::stream; };

/// A larger or smaller allocation of `from` with what was in `memory`, which is freed, without
/// its name; nullptr for nothing. The pool must be tracked. If there is no memory for it, throws
/// and leaves all as it was.
template <plain_pool Pool>
[[nodiscard]] void* reallocate(Pool& from, void* memory, bytes size) {
  if (memory == nullptr) return from.allocate(size);
  auto const before = from.size_of(memory);
  if (!before) throw bad_argument{"reallocate: the pool has no allocation at this address"};
  if (*before == size) return memory;
  void* const result = from.allocate(size);
  try {
    if (bytes const kept = std::min(*before, size)) copy(result, memory, kept);
  } catch (...) {
    (void)from.deallocate(result);
    throw;
  }
  (void)from.deallocate(memory);
  return result;
}

/// The same in the order of a stream. The old memory stays what it is until the copy is done:
/// whoever gets it comes after.
template <class Pool>
[[nodiscard]] void* reallocate(Pool& from, void* memory, bytes size, cuda_stream on) {
  if (memory == nullptr) return from.allocate(size, on);
  auto const before = from.size_of(memory);
  if (!before) throw bad_argument{"reallocate: the pool has no allocation at this address"};
  void* const result = from.allocate(size, on);
  try {
    if (bytes const kept = std::min(*before, size)) copy(result, memory, kept, on);
  } catch (...) {
    (void)from.deallocate(result, on);
    throw;
  }
  (void)from.deallocate(memory, on);
  return result;
}

/// An allocation of `to` with what was in `memory` of `from`, which is freed, without its
/// name. Both must be tracked. If there is no memory, throws and leaves all as it was.
template <plain_pool From, plain_pool To>
[[nodiscard]] void* move(From& from, void* memory, To& to) {
  auto const size = from.size_of(memory);
  if (!size) throw bad_argument{"move: the pool has no allocation at this address"};
  void* const result = to.allocate(*size);
  try {
    if (*size != 0) copy(result, memory, *size);
  } catch (...) {
    (void)to.deallocate(result);
    throw;
  }
  (void)from.deallocate(memory);
  return result;
}

}  // namespace operations
}  // namespace quarry::inline QUARRY_ABI
