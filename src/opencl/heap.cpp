// SPDX-License-Identifier: Apache-2.0
#include "quarry/opencl/heap.hpp"

#include "opencl/heap_plan.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

namespace quarry::inline QUARRY_ABI::opencl {

namespace {

[[noreturn]] void fail(cl::Error const& error) {
  throw opencl_error{std::string{"OpenCL: "} + error.what() + " returned " +
                     std::to_string(error.err())};
}

/// Calls `call`, and throws opencl_error for what OpenCL's C++ bindings throw.
template <class Call>
auto checked(Call const& call) {
  try {
    return call();
  } catch (cl::Error const& error) {
    fail(error);
  }
}

constexpr char const* own_kernels =
    "__kernel void quarry_initialise_heap(quarry_heap heap) {"
    "  quarry_initialise(heap, (uint)get_global_id(0), (uint)get_global_size(0)); }";

bool has_feature(cl::Device const& device, std::string_view name) {
  for (auto const& feature : device.getInfo<CL_DEVICE_OPENCL_C_FEATURES>())
    if (name == feature.name) return true;
  return false;
}

std::string_view name_of_fault(std::uint32_t kind) {
  constexpr std::array<std::string_view, QUARRY_FAULT_KINDS> names{
      "no fault",           "out of memory",     "double free",
      "interior reference", "foreign reference", "stalled"};
  return kind < names.size() ? names[kind] : "unknown fault";
}

}  // namespace

atomics_tier tier_of(cl::Device const& device) {
  return checked([&] {
    constexpr cl_uint nvidia = 0x10DE;
    if (device.getInfo<CL_DEVICE_VENDOR_ID>() == nvidia) return atomics_tier::nvidia;
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
  auto const tier = tier_of(device);
  std::string language = "CL1.2";
  if (tier == atomics_tier::c11) {
    auto const version = checked([&] { return device.getInfo<CL_DEVICE_VERSION>(); });
    language = version[7] == '2' ? "CL2.0" : "CL3.0";
  }
  std::string options =
      "-cl-std=" + language + " -DQUARRY_TIER=" + std::to_string(static_cast<int>(tier));
  // With more registers, kernels could not run in the largest work-groups, of 1024 work-items.
  if (tier == atomics_tier::nvidia) options += " -cl-nv-maxrregcount=64";
  return options;
}

cl::Program build(cl::Context const& context, cl::Device const& device, std::string_view source,
                  std::string const& more_options) {
  cl::Program program;
  try {
    program = cl::Program{
        context, cl::Program::Sources{sources(), "#line 1 \"program\"\n" + std::string{source}}};
    program.build(device, (build_options(device) + " " + more_options).c_str());
    return program;
  } catch (cl::Error const& error) {
    if (error.err() != CL_BUILD_PROGRAM_FAILURE) fail(error);
    throw opencl_error{"OpenCL program does not build:\n" +
                       program.getBuildInfo<CL_PROGRAM_BUILD_LOG>(device)};
  }
}

heap::heap(cl::Context const& context, cl::Device const& device, cl::CommandQueue queue,
           heap_options const& options)
    : queue_{std::move(queue)}, size_{options.size}, places_{options.places} {
  checked([&] {
    is_gpu_ = (device.getInfo<CL_DEVICE_TYPE>() & CL_DEVICE_TYPE_GPU) != 0;
    (void)plan_heap(size_, places_, is_gpu_);
    auto const largest = device.getInfo<CL_DEVICE_MAX_MEM_ALLOC_SIZE>();
    if (size_ > largest)
      throw bad_argument{"opencl::heap: " + std::to_string(size_) +
                         " bytes exceed the device's largest buffer (" + std::to_string(largest) +
                         " bytes)"};
    initialise_ = cl::Kernel{build(context, device, own_kernels), "quarry_initialise_heap"};
    buffer_ = cl::Buffer{context, CL_MEM_READ_WRITE, size_};
  });
  reset();
}

void heap::reset() {
  checked([&] {
    auto const plan = plan_heap(size_, places_, is_gpu_);
    queue_.enqueueWriteBuffer(buffer_, CL_TRUE, 0, sizeof plan, &plan);
    initialise_.setArg(0, buffer_);
    std::size_t const items = std::clamp<std::size_t>(plan.words / 64 / 64 * 64, 64, 65536);
    queue_.enqueueNDRangeKernel(initialise_, cl::NullRange, items, 64);
    queue_.finish();
  });
}

heap_faults heap::faults() const {
  return checked([&] {
    quarry_heap_state state;
    queue_.enqueueReadBuffer(buffer_, CL_TRUE, 0, sizeof state, &state);
    auto const* const counts = state.fault_counts;
    heap_faults faults{counts[QUARRY_OUT_OF_MEMORY],
                       counts[QUARRY_DOUBLE_FREE],
                       counts[QUARRY_INTERIOR_REFERENCE],
                       counts[QUARRY_FOREIGN_REFERENCE],
                       {}};
    if (state.fault_kind != 0) {
      faults.first = std::string{"quarry: "} + std::string{name_of_fault(state.fault_kind)} +
                     " by group " + std::to_string(state.fault_group) + " work-item " +
                     std::to_string(state.fault_item);
      if (state.fault_kind == QUARRY_OUT_OF_MEMORY) {
        faults.first += state.fault_bytes == QUARRY_NONE
                            ? ", 4 GiB or more requested"
                            : ", " + std::to_string(state.fault_bytes) + " bytes requested";
      } else {
        faults.first += ", reference " + std::to_string(state.fault_reference);
      }
    }
    return faults;
  });
}

void heap::clear_faults() {
  checked([&] {
    constexpr std::size_t first = offsetof(quarry_heap_state, fault_kind);
    std::vector<std::byte> const zeros(sizeof(quarry_heap_state) - first);
    queue_.enqueueWriteBuffer(buffer_, CL_TRUE, first, zeros.size(), zeros.data());
  });
}

namespace {

/// A copy of a heap's metadata.
std::vector<std::uint32_t> read(cl::CommandQueue const& queue, cl::Buffer const& buffer) {
  return checked([&] {
    quarry_heap_state state;
    queue.enqueueReadBuffer(buffer, CL_TRUE, 0, sizeof state, &state);
    std::vector<std::uint32_t> words(state.words);
    queue.enqueueReadBuffer(buffer, CL_TRUE, 0, words.size() * 4, words.data());
    return words;
  });
}

}  // namespace

heap_usage heap::usage() const { return usage_of(read(queue_, buffer_).data()); }
std::string heap::audit() const { return audit_of(read(queue_, buffer_).data()); }

}  // namespace quarry::inline QUARRY_ABI::opencl
