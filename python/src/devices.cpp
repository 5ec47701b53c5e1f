// SPDX-License-Identifier: Apache-2.0
// The GPUs that this build can use.
#ifdef QUARRY_PYTHON_CUDA
#include <cuda_runtime_api.h>
#endif

#include "plain_class.hpp"

#include <nanobind/stl/vector.h>

namespace quarry::python {
namespace {

struct device_info {
  std::string name;
  std::uint64_t memory = 0;
  std::string architecture;
};

std::vector<device_info> cuda_devices() {
  std::vector<device_info> result;
#ifdef QUARRY_PYTHON_CUDA
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return result;  // no driver, or no GPU
  for (int number = 0; number < count; ++number) {
    cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, number) != cudaSuccess) continue;
    result.push_back({properties.name, properties.totalGlobalMem,
                      "sm_" + std::to_string(properties.major) + std::to_string(properties.minor)});
  }
#endif
  return result;
}

}  // namespace

void add_devices(nb::module_& core) {
  plain_class<device_info>{core, "Device", "A GPU."}
      .add("name", &device_info::name)
      .add("memory", &device_info::memory, "Bytes of its memory.")
      .add("architecture", &device_info::architecture);
  core.def("cuda_devices", cuda_devices, without_gil{},
           "The CUDA devices; empty without a driver, or if the build is without CUDA.");
#ifdef QUARRY_PYTHON_CUDA
  core.attr("has_cuda") = true;
#else
  core.attr("has_cuda") = false;
#endif
}

}  // namespace quarry::python
