// SPDX-License-Identifier: Apache-2.0
// Shared by the OpenCL benchmarks: a device with a heap, and the times of kernels.
#pragma once

#include "harness.hpp"

#include "quarry/opencl/heap.hpp"

namespace bench {

/// A device with a heap of `heap_size` bytes.
struct opencl_session {
  cl::Device device;
  std::string name;
  bytes heap_size;
  cl::Context context{device};
  cl::CommandQueue queue{context, device, CL_QUEUE_PROFILING_ENABLE};
  quarry::opencl::heap heap{context, device, queue, {.bytes = heap_size}};

  opencl_session(cl::Device const& chosen, bytes size)
      : device{chosen}, name{chosen.getInfo<CL_DEVICE_NAME>()}, heap_size{size} {}

  [[nodiscard]] bool is_gpu() const {
    return (device.getInfo<CL_DEVICE_TYPE>() & CL_DEVICE_TYPE_GPU) != 0;
  }

  /// Runs the kernel and returns its duration by the device's clock.
  double ms(cl::Kernel& kernel, std::size_t items, std::size_t local) {
    cl::Event done;
    queue.enqueueNDRangeKernel(kernel, cl::NullRange, items, local, nullptr, &done);
    done.wait();
    return 1e-6 * static_cast<double>(done.getProfilingInfo<CL_PROFILING_COMMAND_END>() -
                                      done.getProfilingInfo<CL_PROFILING_COMMAND_START>());
  }

  void zero(cl::Buffer const& buffer, std::size_t words) {
    queue.enqueueFillBuffer(buffer, cl_uint{0}, 0, words * 4);
    queue.finish();
  }
  std::vector<cl_uint> read(cl::Buffer const& buffer, std::size_t words) {
    std::vector<cl_uint> values(words);
    queue.enqueueReadBuffer(buffer, CL_TRUE, 0, words * 4, values.data());
    return values;
  }
};

/// Calls `body(device)` for each device whose name contains the program's argument, or for all
/// devices. Returns the exit status for `main`. scripts/run_bench.sh asks for the allocators, and
/// then runs the program once, for all devices.
template <class Body>
int for_each_opencl_device(int argc, char** argv, Body const& body) {
  std::string const argument = argc > 1 ? argv[1] : "";
  if (argument == "--allocators") {
    std::puts("quarry");
    return 0;
  }
  std::string const wanted = argument == "quarry" ? "" : argument;
  try {
    std::vector<cl::Platform> platforms;
    cl::Platform::get(&platforms);
    for (auto const& platform : platforms) {
      std::vector<cl::Device> devices;
      platform.getDevices(CL_DEVICE_TYPE_ALL, &devices);
      for (auto const& device : devices) {
        if (device.getInfo<CL_DEVICE_NAME>().find(wanted) != std::string::npos) body(device);
      }
    }
    return 0;
  } catch (cl::Error const& error) {
    std::fprintf(stderr, "error: %s returned %d\n", error.what(), error.err());
  } catch (std::exception const& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
  }
  return 1;
}

}  // namespace bench
