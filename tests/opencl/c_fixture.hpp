// SPDX-License-Identifier: Apache-2.0
// For tests of the C API on OpenCL devices.
#pragma once

#include "opencl/devices.hpp"
#include "quarry/opencl/c_api.h"

#include <cstdint>
#include <string>

namespace quarry::test {

/// The first expectation that failed. A child process returns the text to its test.
class expectations {
 public:
  void expect(bool holds, std::string const& name) {
    if (!holds && problem_.empty())
      problem_ = name + " does not hold; last error: " + quarry_last_error();
  }
  void expect_ok(quarry_status status, std::string const& name) {
    expect(status == QUARRY_OK, name + " == QUARRY_OK (it is " + std::to_string(status) + ")");
  }
  /// Expects `status`, and that the last error has `text`.
  void expect_refused(quarry_status got, quarry_status status, std::string const& text) {
    std::string const error = quarry_last_error();
    expect(got == status && error.find(text) != std::string::npos,
           "status " + std::to_string(status) + " with '" + text + "' (the status is " +
               std::to_string(got) + ')');
  }
  [[nodiscard]] std::string const& problem() const { return problem_; }

 private:
  std::string problem_;
};

#define QUARRY_EXPECT(all, condition) (all).expect((condition), #condition)
#define QUARRY_EXPECT_OK(all, call) (all).expect_ok((call), #call)

/// A context and a queue of a device, and a heap of the C API in them.
struct c_fixture {
  cl::Device device;
  cl::Context context{device};
  cl::CommandQueue queue{context, device};
  expectations all;
  quarry_opencl_heap* heap = nullptr;

  explicit c_fixture(cl::Device const& chosen, bytes size = 1_MiB, bytes max_size = 0,
                     bool debug = false)
      : device{chosen} {
    quarry_opencl_heap_options options = quarry_opencl_heap_default_options();
    options.bytes = size;
    options.max_bytes = max_size;
    options.debug = debug ? 1 : 0;
    QUARRY_EXPECT_OK(all, quarry_opencl_heap_create(context(), device(), queue(), &options, &heap));
  }
  c_fixture(c_fixture const&) = delete;
  c_fixture& operator=(c_fixture const&) = delete;
  ~c_fixture() { quarry_opencl_heap_destroy(heap); }

  /// Runs kernel `name` of `source` once, with the heap's buffer as its first argument.
  template <class... Arguments>
  void run(char const* source, char const* name, std::size_t items, Arguments const&... arguments) {
    cl_program built = nullptr;
    QUARRY_EXPECT_OK(all, quarry_opencl_build(context(), device(), source, nullptr, &built));
    if (built == nullptr) return;
    cl::Kernel kernel{cl::Program{built}, name};  // releases the program
    cl_mem buffer = nullptr;
    QUARRY_EXPECT_OK(all, quarry_opencl_heap_buffer(heap, &buffer));
    kernel.setArg(0, sizeof buffer, &buffer);
    cl_uint index = 1;
    (kernel.setArg(index++, arguments), ...);
    queue.enqueueNDRangeKernel(kernel, cl::NullRange, items);
    queue.finish();
  }
  [[nodiscard]] quarry_opencl_usage usage() {
    quarry_opencl_usage usage;
    QUARRY_EXPECT_OK(all, quarry_opencl_heap_get_usage(heap, &usage));
    return usage;
  }
  [[nodiscard]] quarry_opencl_faults faults() {
    quarry_opencl_faults faults;
    QUARRY_EXPECT_OK(all, quarry_opencl_heap_get_faults(heap, &faults));
    return faults;
  }
};

}  // namespace quarry::test
