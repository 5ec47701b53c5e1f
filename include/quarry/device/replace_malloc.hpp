// SPDX-License-Identifier: Apache-2.0
// Host functions that make a heap serve malloc, free, new and delete in kernels. A file with such
// kernels includes replace_malloc.cuh.
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/device/heap.hpp"
#include "quarry/simt/platform_malloc.hpp"

namespace quarry::inline QUARRY_ABI {

/// Makes `malloc` and `new` in kernels use `heap`, in all files of the program that include
/// replace_malloc.cuh. `free` and `delete` find the owner of a pointer by its address, so kernels
/// can still free memory that CUDA's malloc allocated before this call.
///
/// The current CUDA device must be the heap's device. Other devices keep their state. The heap must
/// outlive the kernels that use it, and so must a heap that an earlier call installed. After a call
/// for a second heap, `free` no longer recognises pointers of the first heap. Call this function
/// again after the program loads a library with such files.
///
/// Throws `bad_state` if the program has no such file for the heap's backend. Throws
/// `resource_failed` if CUDA fails; files may then allocate from different sources, but all of them
/// can free. Waits for the device. O(files).
QUARRY_API void replace_malloc(heap const& heap);

/// Makes `malloc` and `new` in kernels use CUDA's malloc again, on the current CUDA device. Kernels
/// can still free the heap's allocations while the heap exists. Has no effect if no heap replaces
/// CUDA's malloc. Waits for the device. Throws `resource_failed` if CUDA fails. O(files).
QUARRY_API void restore_malloc();

/// The target of `malloc` and `free` in kernels: a heap, or the platform's malloc. Trivially
/// copyable; owns nothing.
///
/// Any lane may call any function at any time. In addition to the heap_ref's cost, kernels read
/// this object from constant memory. `free` finds the owner of a pointer without reading the heap's
/// state.
class malloc_route {
 public:
  /// Routes to the platform's malloc.
  malloc_route() = default;

  /// Routes to `heap`. All its allocations lie in the `region_bytes` bytes from `region`.
  malloc_route(heap_ref heap, void const* region, bytes region_bytes)
      : heap_{heap},
        region_{reinterpret_cast<std::uint64_t>(region)},
        region_bytes_{region_bytes},
        allocates_{true} {}

  /// A route that frees like this route and allocates from the platform's malloc.
  [[nodiscard]] malloc_route frees_only() const {
    malloc_route result = *this;
    result.allocates_ = false;
    return result;
  }

  [[nodiscard]] bool allocates() const { return allocates_; }

  /// Allocates at least `size` bytes at a multiple of 16. Returns nullptr if the heap is full; it
  /// does not fall back to the platform's malloc.
  [[nodiscard]] QUARRY_HD void* malloc(bytes size) const {
    if (!allocates_) return simt::platform_malloc::malloc(size);
    heap_ref const heap = heap_;
    return heap.malloc(size);
  }

  /// Allocates at least `size` bytes at a multiple of `alignment`, a power of two. Returns nullptr
  /// if there is no memory.
  [[nodiscard]] QUARRY_HD void* aligned_malloc(bytes alignment, bytes size) const {
    if (!allocates_) return simt::platform_malloc::aligned_malloc(alignment, size);
    heap_ref const heap = heap_;
    return heap.aligned_malloc(alignment, size);
  }

  /// Frees an allocation of the heap or of the platform's malloc; ignores nullptr. A wrong pointer
  /// into the region records a fault in the heap. The platform's `free` gets any other pointer
  /// unchecked.
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

/// Registers the malloc_route of one source file with `replace_malloc` while this object exists.
/// replace_malloc.cuh makes one for each file, because files cannot share a GPU variable without
/// -rdc.
///
/// The loader and the storer access the file's route on the object's backend. They wait until no
/// kernel runs, and may throw.
class QUARRY_API file_with_route {
 public:
  using loader = malloc_route (*)();
  using storer = void (*)(malloc_route const& route);

  file_with_route(backend kind, loader load_route, storer store_route);
  file_with_route(file_with_route const&) = delete;
  file_with_route& operator=(file_with_route const&) = delete;
  ~file_with_route();

  [[nodiscard]] backend backend_kind() const { return backend_kind_; }
  [[nodiscard]] malloc_route load() const { return load_(); }
  void store(malloc_route const& route) const { store_(route); }

 private:
  backend backend_kind_;
  loader load_;
  storer store_;
};

}  // namespace quarry::inline QUARRY_ABI
