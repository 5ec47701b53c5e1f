// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/sam_headroom_resource.hpp"

#include "host/cuda_operations.hpp"
#include "platform/cuda_calls.hpp"

namespace quarry::inline QUARRY_ABI {

sam_headroom_resource::sam_headroom_resource(bytes headroom, int device)
    : headroom_{headroom}, device_{device} {
  cuda::check_device("sam_headroom_resource", device);
  int is_accessible = 0;
  cuda::check(cudaDeviceGetAttribute(&is_accessible, cudaDevAttrPageableMemoryAccess, device),
              "sam_headroom_resource: cudaDeviceGetAttribute");
  if (is_accessible == 0)
    throw resource_failed{
        "sam_headroom_resource",
        "GPU " + std::to_string(device) + " cannot access pageable memory; use managed_resource"};
}

void* sam_headroom_resource::allocate(bytes size, bytes alignment) {
  check_power_of_two("sam_headroom_resource", alignment);
  bytes const granted_alignment = std::max<bytes>(alignment, 256);
  void* const result = host_resource{}.allocate(size, granted_alignment);
  try {
    std::size_t free = 0, total = 0;
    {
      cuda::device_guard const guard{device_};
      cuda::check(cudaMemGetInfo(&free, &total), "sam_headroom_resource: cudaMemGetInfo");
    }
    bytes const on_gpu = detail::part_beyond_headroom(size, free, headroom_);
    memory_location const gpu{memory_kind::device, static_cast<std::uint8_t>(device_)};
    if (on_gpu != 0) cuda::advise(result, on_gpu, memory_advice::preferred_here, gpu);
    if (on_gpu != size) {
      cuda::advise(static_cast<char*>(result) + on_gpu, size - on_gpu,
                   memory_advice::preferred_here, {});
    }
  } catch (...) {
    host_resource{}.deallocate(result, size, granted_alignment);
    throw;
  }
  return result;
}

}  // namespace quarry::inline QUARRY_ABI
