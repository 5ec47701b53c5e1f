// SPDX-License-Identifier: Apache-2.0
// Programs with the heap's sources, and the memory order of a device's atomics.
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/core/export.hpp"

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

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace quarry::inline QUARRY_ABI::opencl {

/// Thrown if a call of OpenCL fails or a program does not build. `what()` has the name of the call
/// and its status, or the compiler's log.
class QUARRY_API opencl_error : public resource_failed {
 public:
  explicit opencl_error(std::string const& why) : resource_failed{"OpenCL", why} {}
};

/// The kind of atomics that order memory on a device; opencl/atomics.cl describes each tier.
enum class atomics_tier : std::uint8_t { c11 = 1, nvidia = 2, other = 3 };
[[nodiscard]] QUARRY_API atomics_tier tier_of(cl::Device const& device);

/// The OpenCL C of the heap and its containers, which `build` puts before a program's own source.
/// It defines only static names that begin with `quarry_` or `QUARRY_`, and no kernel.
[[nodiscard]] QUARRY_API char const* sources() noexcept;

/// The build options that the heap's sources need on this device: the language and the tier. On
/// NVIDIA's devices they also limit kernels to 64 registers, so that work-groups may have 1,024
/// work-items.
[[nodiscard]] QUARRY_API std::string build_options(cl::Device const& device);

/// Builds `source`, with the heap's sources before it. If `cache_folder()` has the binary of an
/// earlier build of the same sources and options for the same device and driver, loads this binary.
/// Ignores a binary that is damaged, or that it cannot read or write. PoCL has its own cache, so
/// `build` caches nothing there.
///
/// `more_options` follow `build_options(device)`, and may select a later language by -cl-std.
/// Throws `bad_argument` if they select a language below OpenCL C 2.0 on devices with C11 atomics,
/// or below 1.2 on other devices. Throws `opencl_error` with the build log.
[[nodiscard]] QUARRY_API cl::Program build(cl::Context const& context, cl::Device const& device,
                                           std::string_view source,
                                           std::string const& more_options = {});

/// The folder of cached binaries: the value of QUARRY_OPENCL_CACHE; without this variable
/// `quarry/opencl` in XDG_CACHE_HOME or ~/.cache. Empty, which turns the cache off, if
/// QUARRY_OPENCL_CACHE is empty or there is no home folder. Entries may be deleted at any time.
[[nodiscard]] QUARRY_API std::filesystem::path cache_folder();

/// Passes some 4 million messages between work-groups by the heap's release and acquire operations.
/// Returns the number of stale messages, which is 0 if the device orders memory as the heap needs.
/// A heap runs this test first if nothing documents the order of the tier's operations, once for
/// each device and driver. The cache keeps the result.
[[nodiscard]] QUARRY_API std::uint32_t count_stale_messages(cl::Context const& context,
                                                            cl::Device const& device,
                                                            cl::CommandQueue const& queue);

}  // namespace quarry::inline QUARRY_ABI::opencl
