// SPDX-License-Identifier: Apache-2.0
// The host's side of OpenCL heaps.
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/opencl/heap_usage.hpp"
#include "quarry/opencl/live_allocation.hpp"
#include "quarry/opencl/on_host.hpp"
#include "quarry/opencl/program.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quarry::inline QUARRY_ABI::opencl {

struct heap_options {
  bytes size = 64_MiB;  ///< of the buffer, metadata included: 1 to 4 % of `max_size`
  bytes max_size = 0;   ///< how far `grow` can grow it, below 64 GiB; 0: not at all
  /// Hints of each size class where to allocate next, a power of two; with more hints, work-items
  /// meet less at one word. 0: 64, or 16,384 on GPUs; fewer in small heaps.
  std::uint32_t places = 0;
  /// A debug heap: each allocation takes 16 bytes more, and a free reports writes behind the
  /// requested bytes. Only in programs that are built with QUARRY_DEBUG, as `heap::build` does.
  bool debug = false;
};

/// What the kernels' faults were: counts of each kind, and the first one.
struct heap_faults {
  std::uint64_t out_of_memory = 0, double_free = 0, interior_reference = 0, foreign_reference = 0;
  std::uint64_t overrun = 0;  ///< found by frees in a debug heap
  std::string first;          ///< a sentence; empty if there was none
};

/// A heap in a buffer of a device. Kernels take `buffer()` as their argument of type
/// `quarry_heap`, which is `__global quarry_heap_state*`.
///
/// Kernels and these functions must not run at once: each function that reads or writes the heap
/// waits for the queue first. The buffer is freed when the last copy of `buffer()` is gone.
class QUARRY_API heap {
 public:
  /// Throws `bad_argument` for sizes below one span or from 64 GiB on, and `opencl_error`.
  heap(cl::Context const& context, cl::Device const& device, cl::CommandQueue queue,
       heap_options const& options = {});

  [[nodiscard]] cl::Buffer const& buffer() const { return buffer_; }
  [[nodiscard]] cl::CommandQueue const& queue() const { return queue_; }
  [[nodiscard]] bytes size() const { return options_.size; }
  [[nodiscard]] bool is_debug() const { return options_.debug; }

  /// Builds a program as `opencl::build` does, with QUARRY_DEBUG defined if this is a debug heap.
  [[nodiscard]] cl::Program build(std::string_view source,
                                  std::string const& more_options = {}) const;

  /// Moves the heap into a buffer of `size` bytes. References stay valid; `buffer()` is another one
  /// afterwards, so set the kernels' arguments again. Throws `bad_argument`, and changes nothing,
  /// if `size` is less than `size()` or more than `max_size`; `opencl_error` if the device has no
  /// memory for both buffers. O(size).
  void grow(bytes size);

  /// Makes all memory free. References from before must not be used.
  void reset();
  [[nodiscard]] heap_faults faults() const;
  void clear_faults();
  /// Reads all metadata: O(size of the heap).
  [[nodiscard]] heap_usage usage() const;
  /// Checks the heap's invariants, and that no kernel wrote through a null reference or into the
  /// heap's state. Returns an empty text, or what is wrong. O(size of the heap).
  [[nodiscard]] std::string audit() const;
  /// Returns the allocations that are not freed, in the order of their references, but at most
  /// `max_count`. Finds overruns in debug heaps. `usage()` counts all. O(size of the heap).
  [[nodiscard]] std::vector<live_allocation> live_allocations(std::size_t max_count = 1000) const;

 private:
  [[nodiscard]] opencl_c::quarry_heap_state plan() const;
  void refuse_more_than_device_has(bytes size) const;

  cl::Context context_;
  cl::Device device_;
  cl::CommandQueue queue_;
  cl::Kernel initialise_, add_pages_;
  cl::Buffer buffer_;
  heap_options options_;
  bool is_gpu_ = false;
};

/// A heap in the host's address space, for the functions of quarry/opencl/on_host.hpp: between two
/// kernels the host allocates, and reads and changes what kernels built.
///
/// Kernels must not run until `unmap` or the destructor, which wait for the device. On devices with
/// memory of their own both ways copy the whole heap.
class QUARRY_API mapped_heap {
 public:
  /// Waits for the queue. Throws `opencl_error`.
  explicit mapped_heap(heap const& heap);
  mapped_heap(mapped_heap const&) = delete;
  mapped_heap& operator=(mapped_heap const&) = delete;
  ~mapped_heap();

  /// What kernels call `heap`. Valid until `unmap`.
  [[nodiscard]] opencl_c::quarry_heap get() const {
    return static_cast<opencl_c::quarry_heap>(memory_);
  }
  /// Gives the heap back to the device. Throws `opencl_error`.
  void unmap();

 private:
  cl::CommandQueue queue_;
  cl::Buffer buffer_;
  void* memory_;
};

}  // namespace quarry::inline QUARRY_ABI::opencl
