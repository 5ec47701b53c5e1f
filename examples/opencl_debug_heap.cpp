// SPDX-License-Identifier: Apache-2.0
// A kernel writes past one allocation and does not free another one. A debug heap reports both.
#include "quarry/opencl/heap.hpp"

#include <iostream>

namespace {

constexpr char const* kernels = R"opencl(
__kernel void overrun(quarry_heap heap) {
  quarry_ref const text = quarry_malloc(heap, 5);
  quarry_ref const leaked = quarry_malloc(heap, 1000);
  for (uint i = 0; i <= 5; ++i) ((__global uchar*)quarry_at(heap, text))[i] = 0;  // one too many
  quarry_free(heap, text);
}
)opencl";

int run(cl::Device const& device) {
  cl::Context const context{device};
  cl::CommandQueue const queue{context, device};
  quarry::opencl::heap heap{context, device, queue, {.bytes = 16 << 20, .debug = true}};
  cl::Program const program = heap.build(kernels);

  cl::Kernel overrun{program, "overrun"};
  overrun.setArg(0, heap.buffer());
  queue.enqueueNDRangeKernel(overrun, cl::NullRange, 1, 1);
  if (auto const faults = heap.faults(); !faults.first.empty()) std::cerr << faults.first << '\n';
  for (auto const& allocation : heap.live_allocations())
    std::cerr << "not freed: reference " << allocation.reference << ", "
              << allocation.requested_size << " bytes, allocation " << allocation.number
              << " of work-item " << allocation.work_item << '\n';
  return heap.faults().overrun == 1 && heap.live_allocations().size() == 1 ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run(cl::Device::getDefault());
  } catch (std::exception const& error) {
    std::cerr << "opencl_debug_heap: " << error.what() << '\n';
    return 77;  // no device
  }
}
