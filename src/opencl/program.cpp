// SPDX-License-Identifier: Apache-2.0
#include "quarry/opencl/program.hpp"

#include "opencl/calls.hpp"
#include "opencl/file_cache.hpp"

#include <cstdio>
#include <cstdlib>
#include <optional>

namespace quarry::inline QUARRY_ABI::opencl {

namespace {

bool has_feature(cl::Device const& device, std::string_view name) {
  for (auto const& feature : device.getInfo<CL_DEVICE_OPENCL_C_FEATURES>())
    if (name == feature.name) return true;
  return false;
}

/// What a binary or a result of a device depends on, beside the sources.
std::string name_of_device(cl::Device const& device) {
  cl::Platform const platform{device.getInfo<CL_DEVICE_PLATFORM>()};
  std::string name;
  for (auto const& part :
       {platform.getInfo<CL_PLATFORM_NAME>(), platform.getInfo<CL_PLATFORM_VERSION>(),
        device.getInfo<CL_DEVICE_NAME>(), device.getInfo<CL_DEVICE_VERSION>(),
        device.getInfo<CL_DRIVER_VERSION>()})
    name += part + '\n';
  return name;
}

std::string build_log(cl::Program const& program, cl::Device const& device) {
  return program.getBuildInfo<CL_PROGRAM_BUILD_LOG>(device);
}

/// The folder of this device's binaries; empty if they are not cached here. PoCL keeps what it
/// compiles in a cache of its own. If it were asked for a binary, it would compile each kernel for
/// groups of any size, and at the first launch once more for the size of the launch.
std::filesystem::path binaries_of(cl::Device const& device) {
  cl::Platform const platform{device.getInfo<CL_DEVICE_PLATFORM>()};
  if (platform.getInfo<CL_PLATFORM_NAME>() == "Portable Computing Language") return {};
  return cache_folder();
}

/// Versions of OpenCL C, as numbers: 120 is 1.2. The sources need at least `least` on this device.
struct language {
  unsigned least, usual;
};
language language_for(cl::Device const& device) {
  if (tier_of(device) != atomics_tier::c11) return {120, 120};
  auto const version = checked([&] { return device.getInfo<CL_DEVICE_VERSION>(); });
  return {200, version[7] == '2' ? 200u : 300u};
}
std::string name_of(unsigned version) {
  return "CL" + std::to_string(version / 100) + "." + std::to_string(version / 10 % 10);
}

/// The last language that the options name, such as "CL1.2"; nothing if they name none.
std::optional<std::string> language_in(std::string_view options) {
  constexpr std::string_view option = "-cl-std=";
  auto const at = options.rfind(option);
  if (at == std::string_view::npos) return std::nullopt;
  auto const name = options.substr(at + option.size());
  return std::string{name.substr(0, name.find_first_of(" \t\n\""))};
}

/// What the heap's sources need but for the language.
std::string tier_options(atomics_tier tier) {
  std::string options = "-DQUARRY_TIER=" + std::to_string(static_cast<int>(tier));
  if (tier == atomics_tier::nvidia) options += " -cl-nv-maxrregcount=64";
  return options;
}

/// The build options with the user's. A language that the user names replaces the usual one. Throws
/// `bad_argument` if the sources do not build in it.
std::string merged_options(cl::Device const& device, std::string const& more_options) {
  auto const named = language_in(more_options);
  if (!named) return build_options(device) + " " + more_options;
  auto const [least, usual] = language_for(device);
  unsigned major = 0, minor = 0;
  bool const is_number = std::sscanf(named->c_str(), "CL%1u.%1u", &major, &minor) == 2;
  if (!is_number || major * 100 + minor * 10 < least)
    throw bad_argument{"opencl::build: the heap's sources do not build with -cl-std=" + *named +
                       "; on this device they need " + name_of(least) +
                       " or later. Remove this option to get " + name_of(usual)};
  return tier_options(tier_of(device)) + " " + more_options;
}

/// The program of a cached binary; an empty one if there is none that this device takes.
cl::Program load(cl::Context const& context, cl::Device const& device,
                 std::filesystem::path const& folder, std::string const& key,
                 std::string const& options) {
  auto const cached = load_entry(folder, key);
  if (!cached) return {};
  try {
    cl::Program program{context, {device}, {{cached->begin(), cached->end()}}};
    program.build(device, options.c_str());
    return program;
  } catch (cl::Error const&) {
    return {};
  }
}

constexpr char const* litmus = R"opencl(
// Groups 2i write messages, groups 2i + 1 read them. No group waits for another one.
__kernel void quarry_litmus(__global uint* data, __global uint* flags, __global uint* stale,
                            uint rounds) {
  uint const pair = (uint)(get_group_id(0) / 2u * get_local_size(0) + get_local_id(0));
  __global uint* const message = data + pair * 64u;
  __global uint* const flag = flags + pair * 64u;
  uint bad = 0u;
  for (uint round = 1u; round <= rounds; ++round) {
    if (get_group_id(0) % 2u == 0u) {
      *message = round;
      quarry_store_release(flag, round);
    } else {
      uint const before = *message;  // a cache may keep this
      uint const sent = quarry_load_acquire(flag);
      bad += *message < sent || *message < before ? 1u : 0u;
    }
  }
  if (bad != 0u) (void)quarry_add_relaxed(stale, bad);
}
)opencl";

}  // namespace

atomics_tier tier_of(cl::Device const& device) {
  return checked([&] {
    constexpr cl_uint nvidia = 0x10DE, compute_capability_major = 0x4000, volta = 7;
    if (device.getInfo<CL_DEVICE_VENDOR_ID>() == nvidia) {
      cl_uint major = 0;
      clGetDeviceInfo(device(), compute_capability_major, sizeof major, &major, nullptr);
      return major >= volta ? atomics_tier::nvidia : atomics_tier::other;
    }
    auto const version = device.getInfo<CL_DEVICE_VERSION>();  // "OpenCL 3.0 ..."
    char const major = version.size() > 7 ? version[7] : '1';
    if (major == '2') return atomics_tier::c11;
    if (major >= '3' && has_feature(device, "__opencl_c_atomic_order_acq_rel") &&
        has_feature(device, "__opencl_c_atomic_scope_device"))
      return atomics_tier::c11;
    return atomics_tier::other;
  });
}

std::string build_options(cl::Device const& device) {
  return "-cl-std=" + name_of(language_for(device).usual) + " " + tier_options(tier_of(device));
}

std::filesystem::path cache_folder() {
  if (auto const* const own = std::getenv("QUARRY_OPENCL_CACHE")) return own;
  if (auto const* const cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != 0)
    return std::filesystem::path{cache} / "quarry/opencl";
  if (auto const* const home = std::getenv("HOME"); home != nullptr && *home != 0)
    return std::filesystem::path{home} / ".cache/quarry/opencl";
  return {};
}

cl::Program build(cl::Context const& context, cl::Device const& device, std::string_view source,
                  std::string const& more_options) {
  std::string const options = merged_options(device, more_options);
  cl::Program program;
  try {
    std::string const own = "#line 1 \"program\"\n" + std::string{source};
    std::string const key = name_of_device(device) + options + '\n' + std::string{sources()} + own;
    auto const folder = binaries_of(device);
    program = load(context, device, folder, key, options);
    if (program() != nullptr) return program;
    program = cl::Program{context, cl::Program::Sources{sources(), own}};
    program.build(device, options.c_str());
    if (folder.empty()) return program;
    auto const binaries = program.getInfo<CL_PROGRAM_BINARIES>();
    auto const devices = program.getInfo<CL_PROGRAM_DEVICES>();
    for (std::size_t i = 0; i < devices.size(); ++i)
      if (devices[i]() == device() && !binaries[i].empty())
        store_entry(folder, key, {binaries[i].begin(), binaries[i].end()});
    return program;
  } catch (cl::Error const& error) {
    if (error.err() == CL_INVALID_BUILD_OPTIONS)
      throw opencl_error{"the device refuses the build options '" + options +
                         "' (CL_INVALID_BUILD_OPTIONS)"};
    if (error.err() != CL_BUILD_PROGRAM_FAILURE) fail(error);
    auto const named = language_in(more_options);
    throw opencl_error{"the program does not build" +
                       (named ? " with -cl-std=" + *named +
                                    ", an option of the caller; without this option, build uses " +
                                    name_of(language_for(device).usual)
                              : "") +
                       ":\n" + build_log(program, device)};
  }
}

std::uint32_t count_stale_messages(cl::Context const& context, cl::Device const& device,
                                   cl::CommandQueue const& queue) {
  return checked([&] {
    std::string const key =
        "stale messages\n" + name_of_device(device) + build_options(device) + sources() + litmus;
    if (auto const known = load_entry(cache_folder(), key))
      return static_cast<std::uint32_t>(std::stoul(*known));
    constexpr cl_uint groups = 32, local = 64, rounds = 4096;
    constexpr std::size_t size = std::size_t{groups} / 2 * local * 64 * 4;
    cl::Buffer const data{context, CL_MEM_READ_WRITE, size},
        flags{context, CL_MEM_READ_WRITE, size}, stale{context, CL_MEM_READ_WRITE, 4};
    for (auto const* const buffer : {&data, &flags})
      queue.enqueueFillBuffer(*buffer, cl_uint{0}, 0, size);
    queue.enqueueFillBuffer(stale, cl_uint{0}, 0, 4);
    cl::Kernel kernel{build(context, device, litmus), "quarry_litmus"};
    kernel.setArg(0, data);
    kernel.setArg(1, flags);
    kernel.setArg(2, stale);
    kernel.setArg(3, rounds);
    queue.enqueueNDRangeKernel(kernel, cl::NullRange, std::size_t{groups} * local, local);
    std::uint32_t count = 0;
    queue.enqueueReadBuffer(stale, CL_TRUE, 0, 4, &count);
    store_entry(cache_folder(), key, std::to_string(count));
    return count;
  });
}

}  // namespace quarry::inline QUARRY_ABI::opencl
