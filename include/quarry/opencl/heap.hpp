// SPDX-License-Identifier: Apache-2.0
// OpenCL heaps on the host: making, growing and checking them.
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/opencl/heap_usage.hpp"
#include "quarry/opencl/live_allocation.hpp"
#include "quarry/opencl/on_host.hpp"
#include "quarry/opencl/program.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace quarry::inline QUARRY_ABI::opencl {

struct heap_options {
  /// The size of the buffer. Metadata take 1 to 4 % of `max_bytes`, or of `bytes` if that is more;
  /// below 1 MiB they take a larger share.
  quarry::bytes bytes = 64_MiB;
  quarry::bytes max_bytes = 0;  ///< limit for `grow`, below 64 GiB; 0: the heap cannot grow
  /// The number of hints of each size class: a power of two up to 65,536. Neighbouring work-items
  /// share a hint, which says where they allocate next. With more hints, fewer work-items meet at
  /// one word. 0: 64, or 16,384 on GPUs; fewer in small heaps.
  std::uint32_t hints = 0;
  /// A debug heap: each allocation takes 16 bytes more, and a free reports writes past the
  /// requested bytes. It checks only in programs that are built with QUARRY_DEBUG, as `heap::build`
  /// builds them.
  bool debug = false;
};

/// The faults of kernels, and of the host's calls on a mapped heap: counts of each kind, which stop
/// at about 2^31, and the first fault.
struct heap_faults {
  std::uint64_t out_of_memory = 0, double_free = 0, interior_reference = 0, foreign_reference = 0;
  std::uint64_t overrun = 0;  ///< found by frees in a debug heap
  std::string first;          ///< a sentence about the first fault; empty if there was no fault
};

/// A heap in a buffer of a device. Kernels take `buffer()` as their argument of type
/// `quarry_heap`, which is `__global quarry_heap_state*`.
///
/// Copies are references to the same heap, as copies of OpenCL's own objects are. If a copy grows,
/// the buffer of all copies changes. The buffer is freed after the last copy of the heap and the
/// last copy of `buffer()`.
///
/// Kernels and these functions must not run at the same time. Each function that reads or writes
/// the heap waits for the queue first. Two threads must not call functions of one heap at the same
/// time, on whichever copy. All functions that wait for the queue throw `opencl_error`. While a
/// `mapped_heap` exists, the functions from `grow` on throw `bad_argument` and change nothing,
/// because OpenCL does not define commands on a mapped buffer.
class QUARRY_API heap {
 public:
  /// Throws `bad_argument` if `bytes` or `max_bytes` is 64 GiB or more, or `hints` is out of range.
  /// Throws `bad_argument` also if `bytes` exceeds the device's largest buffer, or has no room for
  /// the metadata and one span (16 pages). Throws `opencl_error`.
  heap(cl::Context const& context, cl::Device const& device, cl::CommandQueue queue,
       heap_options const& options = {});
  heap(heap const&) = default;  // a move copies, so every heap has a buffer
  heap& operator=(heap const&) = default;
  ~heap() = default;

  [[nodiscard]] cl::Buffer const& buffer() const;
  [[nodiscard]] cl::CommandQueue const& queue() const;
  [[nodiscard]] bytes size() const;
  [[nodiscard]] bool is_debug() const;

  /// Builds a program as `opencl::build` does, with QUARRY_DEBUG defined if this is a debug heap.
  [[nodiscard]] cl::Program build(std::string_view source,
                                  std::string const& more_options = {}) const;

  /// Moves the heap into a buffer of `size` bytes. References stay valid. `buffer()` changes, so
  /// set the kernels' arguments again. Throws `bad_argument` and changes nothing if `size` is less
  /// than `size()`, or more than `max_bytes` or the device's largest buffer. Throws `opencl_error`
  /// if the device has no memory for both buffers. O(size).
  void grow(bytes size);

  /// Makes all memory free. All earlier references become invalid.
  void reset();
  [[nodiscard]] heap_faults faults() const;
  void clear_faults();
  /// Reads all metadata: O(size of the heap).
  [[nodiscard]] heap_usage usage() const;
  /// Checks the heap's invariants, and that no kernel wrote through a null reference or into the
  /// heap's state. Returns a description of the problem, or an empty text. O(size of the heap).
  [[nodiscard]] std::string audit() const;
  /// Returns the allocations that are not freed, in the order of their references, but at most
  /// `max_count`. Finds overruns in debug heaps. `usage()` counts all allocations. O(size of the
  /// heap).
  [[nodiscard]] std::vector<live_allocation> live_allocations(std::size_t max_count = 1000) const;

 private:
  friend class mapped_heap;
  struct shared_state;
  [[nodiscard]] shared_state& unmapped(char const* function) const;

  std::shared_ptr<shared_state> state_;
};

/// A heap in the host's address space, for the functions of quarry/opencl/on_host.hpp. Between two
/// kernels the host can allocate, and read and change the kernels' data.
///
/// Kernels must not run until `unmap` or the destructor, which wait for the device. On devices with
/// separate memory, mapping and unmapping copy the whole heap. The heap may be destroyed before
/// this object.
class QUARRY_API mapped_heap {
 public:
  /// Waits for the queue. Throws `bad_argument` if the heap is already mapped. Throws `bad_state`
  /// if a kernel overwrote the heap's state, since the functions of on_host.hpp would then write to
  /// wrong addresses. Throws `opencl_error`.
  explicit mapped_heap(heap const& heap);
  mapped_heap(mapped_heap const&) = delete;
  mapped_heap& operator=(mapped_heap const&) = delete;
  ~mapped_heap();

  /// The argument `heap` of the functions. Valid until `unmap`.
  [[nodiscard]] opencl_c::quarry_heap get() const {
    return static_cast<opencl_c::quarry_heap>(memory_);
  }
  /// Returns the heap to the device. Throws `opencl_error`.
  void unmap();

 private:
  std::shared_ptr<heap::shared_state> heap_;
  void* memory_;
};

}  // namespace quarry::inline QUARRY_ABI::opencl
