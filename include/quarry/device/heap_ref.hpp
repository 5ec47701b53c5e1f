// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/detail/heap_internals.hpp"
#include "quarry/device/detail/malloc_path.hpp"

#include <cstring>
#include <new>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// A kernel's handle to a heap: 16 bytes, passed by value. It owns nothing, and copies refer to the
/// same heap.
///
/// Any lane may call any function at any time. Lanes that call together share one atomic operation
/// per size class (after Gallatin, algorithm 3). Pointers are aligned to 16 bytes, valid in later
/// kernels, and freed by any lane. A lane's writes before `free` happen before the next owner's
/// accesses after `malloc`.
///
/// An allocating call that finds no memory records a fault for the host and returns nullptr. It
/// searches for up to 30 ms if the heap is nearly full, else for up to 0.2 s.
class heap_ref {
 public:
  /// A ref to no heap: `malloc` returns nullptr and `free` does nothing, without a fault.
  heap_ref() = default;
  /// For `heap::ref`. `build` is the library's `heap_build`, which may differ from the kernel's.
  heap_ref(detail::heap_state* state, std::uint64_t base, std::uint32_t segment_shift,
           std::uint32_t max_segments, std::uint32_t build)
      : handle_{state, base, segment_shift, max_segments, build} {}

  /// Allocates at least `size` bytes. Returns nullptr if there is no memory. Size 0 returns a
  /// unique pointer. O(1), except for the slow paths (detail/slice_supply.hpp) and whole segments.
  [[nodiscard]] QUARRY_HD void* malloc(bytes size) const {
    if (!handle_.is_usable()) return nullptr;
    bytes const padded = detail::hardening::padded(size);
    return detail::hardening::prepare(handle_, detail::malloc_path::allocate(handle_, padded));
  }

  /// `malloc` for lanes that all request one size from one heap. It is faster, because it only
  /// checks that the requests are equal. If they differ, it acts like `malloc`.
  [[nodiscard]] QUARRY_HD void* malloc_all(bytes size) const {
    if (!handle_.is_usable()) return nullptr;
    bytes const padded = detail::hardening::padded(size);
    return detail::hardening::prepare(handle_,
                                      detail::malloc_path::allocate_together(handle_, padded));
  }

  /// Allocates `count` objects of `size` bytes, all zero. Returns nullptr if there is no memory or
  /// if the product overflows.
  [[nodiscard]] QUARRY_HD void* calloc(bytes count, bytes size) const {
    if (!handle_.is_usable()) return nullptr;
    if (size != 0 && count > ~bytes{0} / size)
      return handle_.fail(fault_kind::out_of_memory, ~bytes{0});
    void* const result = malloc(count * size);
    if (result != nullptr) std::memset(result, 0, count * size);
    return result;
  }

  /// Allocates at least `size` bytes at a multiple of `alignment`, a power of two up to the segment
  /// size. Returns nullptr if there is no memory or the alignment is not allowed.
  [[nodiscard]] QUARRY_HD void* aligned_malloc(bytes alignment, bytes size) const {
    if (!handle_.is_usable()) return nullptr;
    if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > handle_.segment_bytes())
      return handle_.fail(fault_kind::bad_alignment, alignment);
    if (alignment <= min_alignment) return malloc(size);
    // Slices of a power-of-two class are aligned to it, and segments to the segment size.
    bytes const padded = detail::hardening::padded(size);
    bytes const needed = padded < alignment ? alignment : padded;
    if (needed > handle_.largest_slice())
      return detail::hardening::prepare(handle_,
                                        detail::malloc_path::allocate_segments(handle_, needed));
    bytes const power = bytes{1} << (highest_one(needed - 1) + 1);
    void* result = detail::malloc_path::allocate(handle_, power);
    if (reinterpret_cast<std::uint64_t>(result) % alignment != 0) {  // slices of another class
      detail::free_path::free_now(handle_, result);
      result = detail::malloc_path::allocate_of_own_class(handle_, power);
    }
    return detail::hardening::prepare(handle_, result);
  }

  /// Resizes an allocation and keeps the bytes that fit. On failure returns nullptr and changes
  /// nothing. A null `pointer` allocates; size 0 shrinks to the smallest class. Moves the
  /// allocation, in O(bytes), if its size class or its number of segments changes, or if it
  /// consists of adjacent smaller slices and cannot hold `size` bytes. If there is no memory for
  /// that and the allocation can hold `size` bytes, it stays in place, and a fault is recorded.
  [[nodiscard]] QUARRY_HD void* realloc(void* pointer, bytes size) const {
    if (pointer == nullptr) return malloc(size);
    bytes const old = usable_size(pointer);
    if (old == 0) return nullptr;
    if (detail::malloc_path::fits_in_place(handle_, old, size)) return pointer;
    void* const result = malloc(size);
    if (result == nullptr) return size <= old ? pointer : nullptr;
    std::memcpy(result, pointer, old < size ? old : size);
    free(pointer);
    return result;
  }

  /// Frees an allocation; ignores nullptr. A double free, a foreign pointer and an interior pointer
  /// record a fault and change nothing. Not detected: a second free after the memory was allocated
  /// again, and, except in the hardened mode, a free of a slice that was never allocated. O(1)
  /// (after Gallatin, algorithm 4).
  QUARRY_HD void free(void* pointer) const {
    if (pointer == nullptr || !handle_.is_usable()) return;
    pointer = detail::hardening::retire(handle_, pointer);
    if (pointer != nullptr) detail::free_path::free_now(handle_, pointer);
  }

  /// Frees an allocation if it can hold `size` bytes, otherwise records `size_mismatch`.
  QUARRY_HD void free(void* pointer, bytes size) const {
    if (pointer == nullptr || !handle_.is_usable()) return;
    bytes const current_size = usable_size(pointer);
    if (current_size == 0) return;
    if (size > current_size) {
      handle_.report(fault_kind::size_mismatch, size, pointer);
      return;
    }
    free(pointer);
  }

  /// Returns the bytes that the allocation can hold. Returns 0 and records a fault if no allocation
  /// can start at `pointer`. Only the hardened mode detects that the allocation was freed.
  [[nodiscard]] QUARRY_HD bytes usable_size(void const* pointer) const {
    if (!handle_.is_usable()) return 0;
    detail::location const found = detail::locate_or_report(handle_, pointer);
    bytes const result = detail::hardening::usable(detail::size_of(handle_, found));
    if (result == 0 || !detail::hardening::was_freed(handle_, const_cast<void*>(pointer)))
      return result;
    handle_.report(fault_kind::double_free, result, pointer);
    return 0;
  }

  /// Returns whether the address lies in the heap's region.
  [[nodiscard]] QUARRY_HD bool owns(void const* pointer) const {
    return handle_.is_usable() && handle_.offset_of(pointer) < handle_.region_bytes();
  }

  /// Returns the base address of the live allocation that contains `pointer`, or nullptr if there
  /// is no such allocation. O(1); records no fault.
  [[nodiscard]] QUARRY_HD void* allocation_of(void const* pointer) const {
    if (!handle_.is_usable()) return nullptr;
    void* const base = simt::indirect_call([heap = handle_, pointer]() -> void* {
      void* const result = detail::base_of(heap, pointer);
      if (result == nullptr || detail::hardening::was_freed(heap, result)) return nullptr;
      return result;
    });
    if (base == nullptr || !simt::indirect_call(&detail::is_in_present_use, handle_, base))
      return nullptr;
    return base;
  }

  /// Allocates and constructs a T from `arguments`. Returns nullptr if there is no memory.
  template <class T, class... Arguments>
  [[nodiscard]] QUARRY_HD T* make(Arguments&&... arguments) const {
    void* const memory =
        alignof(T) <= min_alignment ? malloc(sizeof(T)) : aligned_malloc(alignof(T), sizeof(T));
    return memory == nullptr ? nullptr : ::new (memory) T(std::forward<Arguments>(arguments)...);
  }

  /// Destroys and frees an object that `make` returned; ignores nullptr.
  template <class T>
  QUARRY_HD void destroy(T* object) const {
    if (object == nullptr) return;
    object->~T();
    free(object);
  }

 private:
  friend struct detail::heap_internals;

  detail::heap_handle handle_;
};

static_assert(sizeof(heap_ref) <= 16);

}  // namespace quarry::inline QUARRY_ABI
