// SPDX-License-Identifier: Apache-2.0
// Kernels that call malloc, free, new and delete, served by a heap: the host's calls. A file with
// such kernels includes replace_malloc.cuh.
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/device/heap.hpp"
#include "quarry/simt/platform_malloc.hpp"

namespace quarry::inline QUARRY_ABI {

/// From now on `malloc` and `new` in kernels use `heap`, in all files of the program that include
/// replace_malloc.cuh. `free` and `delete` tell by the address whose memory it is: what CUDA's own
/// malloc gave before can be freed as before.
///
/// Waits for the current CUDA device, which must be the heap's; other devices go on as they were.
/// The heap must outlive the kernels that use it, and so must what was replaced before: after a
/// second call for another heap, `free` knows no pointer of the first. Throws `bad_state` if
/// the program has no such file for the heap's backend, and `resource_failed` if CUDA fails: files
/// may then differ in where they allocate, and can all free. Call it again after a library with
/// such files was loaded. O(files).
QUARRY_API void replace_malloc(heap const& heap);

/// From now on `malloc` and `new` in kernels are CUDA's own again, on the current CUDA device. What
/// the heap gave can be freed as before, as long as the heap lives. Waits, throws and costs as
/// `replace_malloc` does; harmless if nothing was replaced.
QUARRY_API void restore_malloc();

/// Where `malloc` and `free` of kernels lead: to a heap, or to the machine's own. Trivially
/// copyable; owns nothing.
///
/// Any lane may call it at any time. On top of the heap_ref's own cost it needs this object, which
/// kernels read from constant memory; in particular `free` finds out whose a pointer is without a
/// look at the heap's state.
class malloc_route {
 public:
  /// To the machine's own.
  malloc_route() = default;

  /// To `heap`, whose allocations all lie in the `region_bytes` from `region`.
  malloc_route(heap_ref heap, void const* region, bytes region_bytes)
      : heap_{heap},
        region_{reinterpret_cast<std::uint64_t>(region)},
        region_bytes_{region_bytes},
        allocates_{true} {}

  /// The same to `free`; `malloc` is the machine's own.
  [[nodiscard]] malloc_route frees_only() const {
    malloc_route result = *this;
    result.allocates_ = false;
    return result;
  }

  [[nodiscard]] bool allocates() const { return allocates_; }

  /// At least `size` bytes at a multiple of 16, or nullptr; there is no second try elsewhere when
  /// the heap is full.
  [[nodiscard]] QUARRY_HD void* malloc(bytes size) const {
    if (!allocates_) return simt::platform_malloc::malloc(size);
    heap_ref const heap = heap_;
    return heap.malloc(size);
  }

  /// At least `size` bytes at a multiple of `alignment`, a power of two, or nullptr.
  [[nodiscard]] QUARRY_HD void* aligned_malloc(bytes alignment, bytes size) const {
    if (!allocates_) return simt::platform_malloc::aligned_malloc(alignment, size);
    heap_ref const heap = heap_;
    return heap.aligned_malloc(alignment, size);
  }

  /// Frees what either gave; nullptr is ignored. A wrong pointer into the region leaves a
  /// fault in the heap; any other is the machine's, for better or worse.
  QUARRY_HD void free(void* pointer) const {
    if (pointer == nullptr) return;
    if (reinterpret_cast<std::uint64_t>(pointer) - region_ >= region_bytes_) {
      simt::platform_malloc::free(pointer);
      return;
    }
    heap_ref const heap = heap_;
    heap.free(pointer);
  }

 private:
  heap_ref heap_;
  std::uint64_t region_ = 0;
  bytes region_bytes_ = 0;
  bool allocates_ = false;
};

/// A file's own malloc_route, known to `replace_malloc` for as long as this object lives:
/// replace_malloc.cuh makes one for each file, since without -rdc no two files can share a variable
/// of the GPU.
///
/// The loader and the storer access the route, on the machine `where`, and wait until no kernel
/// runs; they may throw.
class QUARRY_API file_with_route {
 public:
  using loader = malloc_route (*)();
  using storer = void (*)(malloc_route const& route);

  file_with_route(backend where, loader load_route, storer store_route);
  file_with_route(file_with_route const&) = delete;
  file_with_route& operator=(file_with_route const&) = delete;
  ~file_with_route();

  [[nodiscard]] backend where() const { return where_; }
  [[nodiscard]] malloc_route load() const { return load_(); }
  void store(malloc_route const& route) const { store_(route); }

 private:
  backend where_;
  loader load_;
  storer store_;
};

}  // namespace quarry::inline QUARRY_ABI
