// SPDX-License-Identifier: Apache-2.0
// Programs with the heap's sources, and what a device's atomics can do.
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

/// A call of OpenCL failed, or a program did not build. `what()` names the call and the status, and
/// has the compiler's log.
class QUARRY_API opencl_error : public resource_failed {
 public:
  explicit opencl_error(std::string const& why) : resource_failed{"OpenCL", why} {}
};

/// How a device's atomics order memory; opencl/atomics.cl says what each tier uses.
enum class atomics_tier : std::uint8_t { c11 = 1, nvidia = 2, other = 3 };
[[nodiscard]] QUARRY_API atomics_tier tier_of(cl::Device const& device);

/// The OpenCL C of the heap and its containers, which `build` puts before a program's own source.
/// It defines names that begin with `quarry_` or `QUARRY_`, all of them static, and no kernel.
[[nodiscard]] QUARRY_API char const* sources() noexcept;

/// The build options that the heap's sources need on this device: the language and the tier. On
/// NVIDIA's devices also a limit of 64 registers, so that kernels run in groups of 1,024.
[[nodiscard]] QUARRY_API std::string build_options(cl::Device const& device);

/// Builds `source`, with the heap's sources before it, or loads the binary of an earlier build of
/// the same sources and options for the same device and driver from `cache_folder()`. A binary that
/// is damaged, or cannot be read or written, is no error. PoCL has a cache of its own instead.
///
/// `more_options` follow `build_options(device)`, and may name a later language by -cl-std. Throws
/// `bad_argument` if they name an older one than the heap's sources need: OpenCL C 2.0 on devices
/// with C11 atomics, else 1.2. Throws `opencl_error` with the build log.
[[nodiscard]] QUARRY_API cl::Program build(cl::Context const& context, cl::Device const& device,
                                           std::string_view source,
                                           std::string const& more_options = {});

/// Where binaries are kept: the folder that the environment names in QUARRY_OPENCL_CACHE; else
/// `quarry/opencl` in XDG_CACHE_HOME or ~/.cache. Empty, which switches the cache off, if
/// QUARRY_OPENCL_CACHE is empty or there is no home. Entries may be deleted at any time.
[[nodiscard]] QUARRY_API std::filesystem::path cache_folder();

/// Passes messages between work-groups by the heap's release and acquire operations, some 4 million
/// times. Returns how many messages were stale: 0 if the device orders memory as the heap needs. A
/// heap runs this test first where the tier's operations are not documented to do that, once for
/// each device and driver; the cache keeps the result.
[[nodiscard]] QUARRY_API std::uint32_t count_stale_messages(cl::Context const& context,
                                                            cl::Device const& device,
                                                            cl::CommandQueue const& queue);

}  // namespace quarry::inline QUARRY_ABI::opencl
