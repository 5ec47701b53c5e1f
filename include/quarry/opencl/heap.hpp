// SPDX-License-Identifier: Apache-2.0
// The host's side of OpenCL heaps: devices, programs with the heap's sources, and heaps.
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/core/errors.hpp"
#include "quarry/core/export.hpp"
#include "quarry/opencl/heap_usage.hpp"

#ifndef CL_HPP_TARGET_OPENCL_VERSION
#define CL_HPP_TARGET_OPENCL_VERSION 300
#endif
#ifndef CL_HPP_MINIMUM_OPENCL_VERSION
#define CL_HPP_MINIMUM_OPENCL_VERSION 110
#endif
#ifndef CL_HPP_ENABLE_EXCEPTIONS
#define CL_HPP_ENABLE_EXCEPTIONS
#endif
#include <CL/opencl.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace quarry::inline QUARRY_ABI::opencl {

/// A call of OpenCL failed, or a program did not build. `what()` names the call and the status, and
/// has the compiler's log.
class QUARRY_API opencl_error : public error_of<std::runtime_error> {
  using error_of::error_of;
};

/// How a device's atomics order memory; opencl/atomics.cl says what each tier uses.
enum class atomics_tier : std::uint8_t { c11 = 1, nvidia = 2, other = 3 };
[[nodiscard]] QUARRY_API atomics_tier tier_of(cl::Device const& device);

/// The OpenCL C of the heap and its containers, which `build` puts before a program's own source.
/// It defines names that begin with `quarry_` or `QUARRY_`, all of them static, and no kernel.
[[nodiscard]] QUARRY_API char const* sources() noexcept;

/// The build options that the heap's sources need on this device: the language and the tier.
[[nodiscard]] QUARRY_API std::string build_options(cl::Device const& device);

/// Builds `source`, with the heap's sources before it. Throws `opencl_error` with the build log.
[[nodiscard]] QUARRY_API cl::Program build(cl::Context const& context, cl::Device const& device,
                                           std::string_view source,
                                           std::string const& more_options = {});

struct heap_options {
  bytes size = 64_MiB;  ///< of the buffer, metadata included: 1 to 2 % of it
  /// Hints of each size class where to allocate next, a power of two; with more hints, work-items
  /// meet less at one word. 0: 64, or 16,384 on GPUs; fewer in small heaps.
  std::uint32_t places = 0;
};

/// What the kernels' faults were: counts of each kind, and the first one.
struct heap_faults {
  std::uint64_t out_of_memory = 0, double_free = 0, interior_reference = 0, foreign_reference = 0;
  std::string first;  ///< a sentence; empty if there was none
};

/// A heap in a buffer of a device. Kernels take `buffer()` as their argument of type
/// `quarry_heap`, or `__global quarry_heap_state*`.
///
/// Kernels and these functions must not run at once: each function that reads or writes the heap
/// waits for the queue first. The buffer is freed when the last copy of `buffer()` is gone.
class QUARRY_API heap {
 public:
  /// Throws `bad_argument` for sizes below one span or from 64 GiB on, and `opencl_error`.
  heap(cl::Context const& context, cl::Device const& device, cl::CommandQueue queue,
       heap_options const& options = {});

  [[nodiscard]] cl::Buffer const& buffer() const { return buffer_; }
  [[nodiscard]] bytes size() const { return size_; }

  /// Makes all memory free. References from before must not be used.
  void reset();
  [[nodiscard]] heap_faults faults() const;
  void clear_faults();
  /// Reads all metadata: O(size of the heap).
  [[nodiscard]] heap_usage usage() const;
  /// Checks the heap's invariants. Returns an empty text, or what is wrong. O(size of the heap).
  [[nodiscard]] std::string audit() const;

 private:
  cl::CommandQueue queue_;
  cl::Kernel initialise_;
  cl::Buffer buffer_;
  bytes size_ = 0;
  std::uint32_t places_ = 0;
  bool is_gpu_ = false;
};

}  // namespace quarry::inline QUARRY_ABI::opencl
