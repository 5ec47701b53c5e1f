// SPDX-License-Identifier: Apache-2.0
// Work-items allocate nodes of a list; the host reads the list and frees it. The first OpenCL
// program to copy.
#include "quarry/opencl/heap.hpp"

#include <cstdio>
#include <iostream>

namespace {

constexpr char const* kernels = R"opencl(
typedef struct node { quarry_ref next; uint square; } node;

__kernel void collect(quarry_heap heap, __global quarry_ref* list) {
  quarry_ref const fresh = quarry_malloc(heap, sizeof(node));
  if (fresh == 0) return;  // the heap is full, and has recorded it
  ((__global node*)quarry_at(heap, fresh))->square = get_global_id(0) * get_global_id(0);
  quarry_list_push(heap, list, fresh);
}
)opencl";

/// The same struct on the host.
struct node {
  quarry::opencl_c::quarry_ref next;
  cl_uint square;
};

int run(cl::Device const& device) {
  using namespace quarry::opencl_c;  // the functions of kernels, for the host

  cl::Context const context{device};
  cl::CommandQueue const queue{context, device};
  quarry::opencl::heap heap{context, device, queue, {.bytes = 16 << 20}};
  cl::Program const program = quarry::opencl::build(context, device, kernels);

  cl_uint list = 0;
  cl::Buffer const head{context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof list, &list};
  cl::Kernel collect{program, "collect"};
  collect.setArg(0, heap.buffer());
  collect.setArg(1, head);
  queue.enqueueNDRangeKernel(collect, cl::NullRange, 1000, cl::NullRange);
  queue.enqueueReadBuffer(head, CL_TRUE, 0, sizeof list, &list);
  if (auto const faults = heap.faults(); !faults.first.empty()) std::cerr << faults.first << '\n';

  unsigned long long sum = 0;
  {
    quarry::opencl::mapped_heap const mapped{heap};
    for (auto ref = list; ref != 0; ref = quarry_list_next(mapped.get(), ref))
      sum += static_cast<node const*>(quarry_at(mapped.get(), ref))->square;
    quarry_list_clear(mapped.get(), &list);
  }
  std::printf("sum of squares: %llu; %llu allocations are left\n", sum,
              static_cast<unsigned long long>(heap.usage().allocations_in_use));
  return sum == 332'833'500 && heap.audit().empty() ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run(cl::Device::getDefault());
  } catch (std::exception const& error) {
    std::cerr << "first_opencl_heap: " << error.what() << '\n';
    return 77;  // no device
  }
}
