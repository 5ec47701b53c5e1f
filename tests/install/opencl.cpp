// SPDX-License-Identifier: Apache-2.0
// A user's OpenCL program: a kernel of its own that allocates, on each device that there is.
#include <quarry/opencl/csr.hpp>
#include <quarry/opencl/heap.hpp>

#include <cstdio>
#include <vector>

int main() {
  std::vector<cl::Platform> platforms;
  try {
    cl::Platform::get(&platforms);
  } catch (cl::Error const&) {
    return 0;  // there is no device
  }
  for (auto const& platform : platforms) {
    std::vector<cl::Device> devices;
    platform.getDevices(CL_DEVICE_TYPE_ALL, &devices);
    for (auto const& device : devices) {
      cl::Context const context{device};
      cl::CommandQueue const queue{context, device};
      quarry::opencl::heap const heap{context, device, queue, {.bytes = 1 << 20}};
      auto const program = quarry::opencl::build(
          context, device, "__kernel void use(quarry_heap heap) { quarry_malloc(heap, 100); }");
      cl::Kernel kernel{program, "use"};
      kernel.setArg(0, heap.buffer());
      queue.enqueueNDRangeKernel(kernel, cl::NullRange, 10, 1);
      queue.finish();
      if (heap.usage().allocations_in_use != 10) {
        std::puts("the kernel's allocations are not there");
        return 1;
      }
    }
  }
}
