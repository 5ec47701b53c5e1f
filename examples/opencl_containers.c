/* SPDX-License-Identifier: Apache-2.0 */
/* Containers from C: the host makes a map of prices, a kernel looks them up and pushes what it found
 * into a vector, and the host reads the vector. */
#include "quarry/opencl/c_containers.h"

#include <stdio.h>
#include <stdlib.h>

enum { no_device = 77, item_count = 1000 };

static char const* const kernels =
    "__kernel void look_up(quarry_heap heap, __global quarry_map* prices, __global quarry_vector* "
    "found) {\n"
    "  quarry_ref const entry = quarry_map_find(heap, prices, (uint)get_global_id(0));\n"
    "  if (entry == 0u) return;  // the map does not have this key\n"
    "  uint const index = quarry_vector_push(heap, found, 1u);\n"
    "  if (index == QUARRY_NONE) return;  // the heap is full, and counts this fault\n"
    "  *(__global uint*)quarry_vector_at(heap, found, index) = *quarry_map_value(heap, entry);\n"
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

/* A buffer of the device with the bytes of a struct. */
static cl_mem buffer_of(cl_context context, void* data, size_t size) {
  cl_int status = CL_SUCCESS;
  cl_mem const buffer = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, size, data, &status);
  check_cl(status, "clCreateBuffer");
  return buffer;
}

int main(void) {
  cl_platform_id platform = NULL;
  cl_device_id device = NULL;
  cl_context context;
  cl_command_queue queue;
  cl_program program = NULL;
  cl_kernel kernel;
  cl_mem heap_buffer = NULL, maps, vectors;
  cl_int status = CL_SUCCESS;
  size_t const items = item_count;
  quarry_opencl_heap* heap = NULL;
  quarry_opencl_map prices;
  quarry_opencl_vector found = {0};
  uint32_t values[item_count], count, i;
  unsigned long sum = 0;
  quarry_opencl_usage usage;
  void* base = NULL;

  if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
      clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS) {
    fprintf(stderr, "opencl_containers_in_c: no OpenCL device was found\n");
    return no_device;
  }
  context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
  check_cl(status, "clCreateContext");
  queue = clCreateCommandQueueWithProperties(context, device, NULL, &status);
  check_cl(status, "clCreateCommandQueueWithProperties");
  check(quarry_opencl_heap_create(context, device, queue, NULL, &heap));
  check(quarry_opencl_heap_buffer(heap, &heap_buffer));
  check(quarry_opencl_build(context, device, kernels, NULL, &program));

  check(quarry_opencl_heap_map(heap, &base));
  check(quarry_opencl_map_init(heap, &prices, 1024));
  for (i = 0; i < item_count; i += 2) check(quarry_opencl_map_set(heap, &prices, i, 10 * i));
  check(quarry_opencl_heap_unmap(heap));
  found.element_bytes = sizeof(uint32_t);
  maps = buffer_of(context, &prices, sizeof prices);
  vectors = buffer_of(context, &found, sizeof found);

  kernel = clCreateKernel(program, "look_up", &status);
  check_cl(status, "clCreateKernel");
  check_cl(clSetKernelArg(kernel, 0, sizeof heap_buffer, &heap_buffer), "clSetKernelArg");
  check_cl(clSetKernelArg(kernel, 1, sizeof maps, &maps), "clSetKernelArg");
  check_cl(clSetKernelArg(kernel, 2, sizeof vectors, &vectors), "clSetKernelArg");
  check_cl(clEnqueueNDRangeKernel(queue, kernel, 1, NULL, &items, NULL, 0, NULL, NULL),
           "clEnqueueNDRangeKernel");
  check_cl(clEnqueueReadBuffer(queue, vectors, CL_TRUE, 0, sizeof found, &found, 0, NULL, NULL),
           "clEnqueueReadBuffer");

  check(quarry_opencl_heap_map(heap, &base));
  count = found.size; /* at most one element for each work-item */
  check(quarry_opencl_vector_read(heap, &found, 0, count, values));
  check(quarry_opencl_vector_clear(heap, &found));
  check(quarry_opencl_map_destroy(heap, &prices));
  check(quarry_opencl_heap_unmap(heap));
  for (i = 0; i < count; ++i) sum += values[i];
  check(quarry_opencl_heap_get_usage(heap, &usage));
  printf("%u prices, their sum is %lu; %lu allocations are left\n", (unsigned)count, sum,
         (unsigned long)usage.allocations_in_use);

  check(quarry_opencl_heap_destroy(heap));
  clReleaseKernel(kernel);
  clReleaseProgram(program);
  clReleaseMemObject(maps);
  clReleaseMemObject(vectors);
  clReleaseCommandQueue(queue);
  clReleaseContext(context);
  return sum == 2495000 && usage.allocations_in_use == 0 ? 0 : 1;
}
