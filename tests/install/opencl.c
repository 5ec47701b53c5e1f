/* SPDX-License-Identifier: Apache-2.0 */
/* A user's OpenCL program in C. It also checks that quarry::opencl shares the last error and the
 * table of handles with quarry::quarry, since each may be a shared library. */
#include <quarry/opencl/c_api.h>
#include <stdio.h>
#include <string.h>

static int failed(char const* call) {
  printf("%s: %s\n", call, quarry_last_error());
  return 1;
}

int main(void) {
  cl_platform_id platform = NULL;
  cl_device_id device = NULL;
  cl_context context;
  cl_command_queue queue;
  quarry_opencl_heap_options options = quarry_opencl_heap_default_options();
  quarry_opencl_heap* heap = NULL;
  quarry_opencl_usage usage;
  void* base = NULL;
  quarry_opencl_ref reference = 0;

  if (quarry_opencl_heap_create(NULL, NULL, NULL, NULL, &heap) != QUARRY_BAD_ARGUMENT ||
      strcmp(quarry_last_error(), "quarry_opencl_heap_create: the context is null") != 0)
    return failed("the last error is not shared");
  if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
      clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, NULL) != CL_SUCCESS)
    return 0; /* there is no device */
  context = clCreateContext(NULL, 1, &device, NULL, NULL, NULL);
  queue = clCreateCommandQueueWithProperties(context, device, NULL, NULL);
  options.bytes = 1 << 20;
  if (quarry_opencl_heap_create(context, device, queue, &options, &heap) != QUARRY_OK)
    return failed("create");
  if (quarry_pool_release((quarry_pool*)heap) != QUARRY_BAD_ARGUMENT ||
      strstr(quarry_last_error(), "is an OpenCL heap, not a pool") == NULL)
    return failed("the handles are not shared");
  if (quarry_opencl_heap_map(heap, &base) != QUARRY_OK ||
      quarry_opencl_heap_allocate(heap, 100, &reference) != QUARRY_OK)
    return failed("allocate");
  memset(quarry_opencl_at(base, reference), 1, 100);
  if (quarry_opencl_heap_unmap(heap) != QUARRY_OK ||
      quarry_opencl_heap_get_usage(heap, &usage) != QUARRY_OK || usage.allocations_in_use != 1)
    return failed("the host's allocation is not there");
  if (quarry_opencl_heap_destroy(heap) != QUARRY_OK) return failed("destroy");
  clReleaseCommandQueue(queue);
  clReleaseContext(context);
  return 0;
}
