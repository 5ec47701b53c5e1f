// SPDX-License-Identifier: Apache-2.0
// Tests on every OpenCL device of the machine. Each case runs in a child process that ends 60
// seconds after the build of its program, so a kernel that hangs fails its case. PoCL compiles in
// that time, for each size of work-group, which takes 20 seconds if other programs use the cores.
//
// QUARRY_OPENCL_SCALE (1) divides the sizes of heaps and the numbers of work-items and operations,
// and multiplies the seconds, for devices that interpret kernels. `make test-opencl` sets it.
#pragma once

#include "quarry/opencl/heap.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

namespace quarry::test {

inline unsigned scale() {
  auto const* const text = std::getenv("QUARRY_OPENCL_SCALE");
  return text == nullptr ? 1u : static_cast<unsigned>(std::clamp(std::atoi(text), 1, 64));
}
template <class Count>
Count scaled(Count full) {
  return static_cast<Count>(full / scale());
}
inline void end_after(unsigned seconds) { alarm(seconds * scale()); }

/// Groups of `local` work-items: `items` work-items, scaled, and at least one group.
inline std::size_t groups_for(std::size_t items, std::size_t local) {
  return std::max<std::size_t>(scaled(items) / local, 1);
}

inline std::vector<cl::Device> all_devices() {
  std::vector<cl::Platform> platforms;
  try {
    cl::Platform::get(&platforms);
  } catch (cl::Error const&) {
    return {};
  }
  std::vector<cl::Device> devices;
  for (auto const& platform : platforms) {
    std::vector<cl::Device> some;
    try {
      platform.getDevices(CL_DEVICE_TYPE_ALL, &some);
    } catch (cl::Error const&) {
    }
    devices.insert(devices.end(), some.begin(), some.end());
  }
  return devices;
}

/// One device with a heap and the kernels above.
struct fixture {
  cl::Device device;
  cl::Context context{device};
  cl::CommandQueue queue{context, device};
  opencl::heap heap;
  cl::Program program;

  fixture(cl::Device const& chosen, bytes size, char const* kernels, bytes max_size = 0,
          bool debug = false)
      : device{chosen},
        heap{context, device, queue, {.bytes = size, .max_bytes = max_size, .debug = debug}},
        program{heap.build(kernels)} {
    end_after(60);
  }

  template <class... Arguments>
  void run(char const* name, std::size_t groups, std::size_t local, Arguments const&... arguments) {
    cl::Kernel kernel{program, name};
    cl_uint index = 0;
    kernel.setArg(index++, heap.buffer());
    (kernel.setArg(index++, arguments), ...);
    queue.enqueueNDRangeKernel(kernel, cl::NullRange, groups * local, local);
    queue.finish();
  }
  std::vector<cl_uint> read(cl::Buffer const& buffer, std::size_t count) {
    std::vector<cl_uint> words(count);
    queue.enqueueReadBuffer(buffer, CL_TRUE, 0, count * 4, words.data());
    return words;
  }
};

/// Runs `body` in a child process for each device that `is_suitable`. `body` returns a description
/// of errors, empty if there are none. Skips the test, and prints `reason`, if no device is
/// suitable.
inline void on_each_device(
    std::function<std::string(cl::Device const&)> const& body,
    std::function<bool(cl::Device const&)> const& is_suitable =
        [](cl::Device const&) { return true; },
    std::string const& reason = "no OpenCL device") {
  int channel[2];
  ASSERT_EQ(pipe(channel), 0);
  pid_t const child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {  // this process has not used OpenCL, whose threads a fork would lose
    setenv("QUARRY_OPENCL_CACHE", "opencl-test-cache", 0);
    end_after(100);
    std::string problem = "no device";
    for (auto const& device : all_devices()) {
      try {
        if (!is_suitable(device)) continue;
        problem = body(device);
        if (!problem.empty()) problem = device.getInfo<CL_DEVICE_NAME>() + ": " + problem;
      } catch (cl::Error const& error) {
        problem = std::string{error.what()} + " returned " + std::to_string(error.err());
      } catch (std::exception const& error) {
        problem = error.what();
      }
      if (!problem.empty()) break;
      end_after(100);
    }
    auto const written = write(channel[1], problem.data(), problem.size());
    _exit(written == static_cast<ssize_t>(problem.size()) ? 0 : 1);
  }
  close(channel[1]);
  std::string problem(4096, 0);
  std::string all;
  for (ssize_t got = 0; (got = ::read(channel[0], problem.data(), problem.size())) > 0;)
    all.append(problem, 0, static_cast<std::size_t>(got));
  close(channel[0]);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (all == "no device") GTEST_SKIP() << reason;
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
      << "the child ended by signal " << WTERMSIG(status) << " (14: its watchdog)";
  EXPECT_EQ(all, "");
}

/// The sizes of work-groups that the tests try: some sizes that the device supports, at most 2,048
/// divided by QUARRY_OPENCL_SCALE. If the scale is 1, also the device's largest size.
inline std::vector<std::size_t> group_sizes(cl::Device const& device) {
  std::size_t const largest = device.getInfo<CL_DEVICE_MAX_WORK_GROUP_SIZE>();
  std::vector<std::size_t> sizes;
  for (std::size_t const size : {1, 7, 32, 64, 192, 256, 1024})
    if (size < largest && size <= scaled<std::size_t>(2048)) sizes.push_back(size);
  if (scale() == 1) sizes.push_back(largest);
  return sizes;
}

}  // namespace quarry::test
