/* SPDX-License-Identifier: Apache-2.0 */
/* An OpenCL heap from C: a kernel builds a list of nodes that it allocates, the host reads the
 * list, and another kernel frees the nodes. */
#include "quarry/opencl/c_api.h"

#include <stdio.h>
#include <stdlib.h>

enum { no_device = 77, item_count = 1000 };

/* A node has a value and the reference of the next node; kernels and the host agree on that. */
typedef struct node {
  quarry_opencl_ref next;
  uint32_t value;
} node;

static char const* const kernels =
    "typedef struct node {\n"
    "  quarry_ref next;\n"
    "  uint value;\n"
    "} node;\n"
    "__kernel void build_list(quarry_heap heap, __global quarry_ref* first) {\n"
    "  quarry_ref const reference = quarry_malloc(heap, sizeof(node));\n"
    "  if (reference == 0u) return;  // the heap is full, and counts this fault\n"
    "  __global node* const added = (__global node*)quarry_at(heap, reference);\n"
    "  added->value = (uint)get_global_id(0);\n"
    "  added->next = atomic_xchg((volatile __global uint*)first, reference);\n"
    "}\n"
    "__kernel void free_list(quarry_heap heap, __global quarry_ref* first) {\n"
    "  quarry_ref reference = *first;\n"
    "  while (reference != 0u) {\n"
    "    quarry_ref const next = ((__global node*)quarry_at(heap, reference))->next;\n"
    "    quarry_free(heap, reference);\n"
    "    reference = next;\n"
    "  }\n"
    "}\n";

static void check(quarry_status status) {
  if (status == QUARRY_OK) return;
  fprintf(stderr, "%s\n", quarry_last_error());
  exit(1);
}
static void check_cl(cl_int status, char const* call) {
  if (status == CL_SUCCESS) return;
  fprintf(stderr, "%s returned %d\n", call, status);
  exit(1);
}

/* Returns a device of any type, or null if there is no device. */
static cl_device_id find_device(void) {
  cl_platform_id platforms[16];
  cl_uint count = 0;
  cl_uint i;
  if (clGetPlatformIDs(16, platforms, &count) != CL_SUCCESS) return NULL;
  for (i = 0; i < count && i < 16; ++i) {
    cl_device_id device = NULL;
    if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 1, &device, NULL) == CL_SUCCESS)
      return device;
  }
  return NULL;
}

static void run(cl_command_queue queue, cl_program program, char const* name, size_t items,
                cl_mem heap, cl_mem first) {
  cl_int status = CL_SUCCESS;
  cl_kernel const kernel = clCreateKernel(program, name, &status);
  check_cl(status, "clCreateKernel");
  check_cl(clSetKernelArg(kernel, 0, sizeof heap, &heap), "clSetKernelArg");
  check_cl(clSetKernelArg(kernel, 1, sizeof first, &first), "clSetKernelArg");
  check_cl(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL),
           "clEnqueueNDRangeKernel");
  clReleaseKernel(kernel);
}

/* Returns the number of nodes with distinct values in the list, or -1 if a value is wrong. */
static int count_nodes(quarry_opencl_heap* heap, quarry_opencl_ref first) {
  char is_counted[item_count] = {0};
  void* base = NULL;
  int count = 0;
  check(quarry_opencl_heap_map(heap, &base));
  while (count >= 0 && first != 0) {
    node const* const current = (node const*)quarry_opencl_at(base, first);
    if (current->value >= item_count || is_counted[current->value]) {
      count = -1;
    } else {
      is_counted[current->value] = 1;
      ++count;
    }
    first = current->next;
  }
  check(quarry_opencl_heap_unmap(heap));
  return count;
}

int main(void) {
  cl_int status = CL_SUCCESS;
  cl_device_id device = find_device();
  cl_context context;
  cl_command_queue queue;
  cl_program program = NULL;
  cl_mem first, buffer = NULL;
  quarry_opencl_ref reference = 0;
  quarry_opencl_heap_options options = quarry_opencl_heap_default_options();
  quarry_opencl_heap* heap = NULL;
  quarry_opencl_usage built, freed;
  int count;

  if (device == NULL) {
    fprintf(stderr, "opencl_heap: no OpenCL device was found\n");
    return no_device;
  }
  context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
  check_cl(status, "clCreateContext");
  queue = clCreateCommandQueueWithProperties(context, device, NULL, &status);
  check_cl(status, "clCreateCommandQueueWithProperties");
  first = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, sizeof reference, &reference, &status);
  check_cl(status, "clCreateBuffer");

  options.bytes = 1 << 20;
  check(quarry_opencl_heap_create(context, device, queue, &options, &heap));
  check(quarry_opencl_heap_buffer(heap, &buffer));
  check(quarry_opencl_build(context, device, kernels, NULL, &program));

  run(queue, program, "build_list", item_count, buffer, first);
  check_cl(
      clEnqueueReadBuffer(queue, first, CL_TRUE, 0, sizeof reference, &reference, 0, NULL, NULL),
      "clEnqueueReadBuffer");
  count = count_nodes(heap, reference);
  check(quarry_opencl_heap_get_usage(heap, &built));
  run(queue, program, "free_list", 1, buffer, first);
  check(quarry_opencl_heap_get_usage(heap, &freed));
  check(quarry_opencl_heap_audit(heap));

  printf("%d nodes in %lu allocations, and %lu allocations at the end\n", count,
         (unsigned long)built.allocations_in_use, (unsigned long)freed.allocations_in_use);
  check(quarry_opencl_heap_destroy(heap));
  clReleaseProgram(program);
  clReleaseMemObject(first);
  clReleaseCommandQueue(queue);
  clReleaseContext(context);
  return count == item_count && built.allocations_in_use == item_count && freed.allocations_in_use == 0 ? 0 : 1;
}
