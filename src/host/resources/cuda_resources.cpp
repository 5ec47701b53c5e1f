// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/resources/cuda_resources.hpp"

#include "host/resources/cuda_allocation.hpp"
#include "platform/cuda_calls.hpp"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstring>
#include <optional>

namespace quarry::inline QUARRY_ABI {

using cuda::at_least_one;
using cuda::check;
using cuda::check_device;
using cuda::device_guard;
using cuda::relaxed_captures;

namespace {

using pointer_query = CUresult (*)(unsigned, CUpointer_attribute*, void**, CUdeviceptr);

/// The driver's query function, or nullptr while the process has not loaded the driver. Does not
/// load the driver, and does not call the runtime, which would load and initialise it. That takes
/// time and memory, and a driver that is not loaded has not allocated the memory.
///
/// Searches for the driver without the dynamic linker's lock that a plugin's constructors hold.
/// Takes that lock once in a process, when it has found the driver.
pointer_query query_of_driver() {
  // Relaxed suffices: the value is an address of code, and no other data is published with it.
  static std::atomic<pointer_query> found{nullptr};
  if (pointer_query const known = found.load(std::memory_order_relaxed)) return known;
  auto const is_driver = [](dl_phdr_info* object, std::size_t, void*) {
    return std::strstr(object->dlpi_name, "libcuda.so") != nullptr ? 1 : 0;
  };
  if (dl_iterate_phdr(is_driver, nullptr) == 0) return nullptr;
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);  // never closed once found
  if (driver == nullptr) return nullptr;
  auto const ask = reinterpret_cast<pointer_query>(dlsym(driver, "cuPointerGetAttributes"));
  if (ask == nullptr) dlclose(driver);
  found.store(ask, std::memory_order_relaxed);
  return ask;
}

/// The location of memory according to CUDA; host memory if CUDA does not know the address, such as
/// pageable memory. Returns nullopt if the process does not use CUDA.
std::optional<memory_location> location_by_cuda(void const* memory) {
  pointer_query const ask = query_of_driver();
  unsigned type = 0, is_managed = 0;
  int device = 0;
  CUpointer_attribute wanted[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void* answers[] = {&type, &is_managed, &device};
  if (ask == nullptr ||
      ask(3, wanted, answers, reinterpret_cast<CUdeviceptr>(memory)) != CUDA_SUCCESS)
    return std::nullopt;
  if (type == 0) return memory_location{};  // CUDA does not know the address
  if (is_managed != 0) return memory_location{memory_kind::managed};
  if (type == CU_MEMORYTYPE_HOST) return memory_location{memory_kind::pinned};
  return memory_location{memory_kind::device, static_cast<std::uint8_t>(device)};
}

std::string text_of(memory_location location) {
  return name_of(location.kind) +
         (location.is_touchable() ? "" : " " + std::to_string(location.device));
}

}  // namespace

void check_location(char const* resource, void const* memory, memory_location stated) {
  auto const known = location_by_cuda(memory);
  if (!known) return;
  // CUDA reports registered and mapped host memory as pinned. A resource may state another kind of
  // touchable memory for it.
  bool const is_cudas = stated.kind == memory_kind::pinned || stated.kind == memory_kind::managed;
  bool const agrees = !stated.is_touchable() ? *known == stated
                      : is_cudas             ? known->kind == stated.kind
                                             : known->is_touchable();
  if (agrees) return;
  throw resource_failed{resource, "it allocated memory of the kind " + text_of(*known) +
                                      ", but its stated location is " + text_of(stated)};
}

device_resource::device_resource(int device) : device_{device} {
  check_device("device_resource", device);
}

void* device_resource::allocate(bytes size, bytes alignment) {
  cuda::check_alignment(alignment, "device_resource", size);
  device_guard const guard{device_};
  relaxed_captures const captures;
  void* result = nullptr;
  check(cudaMalloc(&result, at_least_one(size)), "device_resource", "cudaMalloc", size);
  return result;
}
void device_resource::deallocate(void* pointer, bytes, bytes) noexcept {
  device_guard const guard{device_};
  relaxed_captures const captures;
  cudaFree(pointer);
}

stream_ordered_resource::stream_ordered_resource(cuda_stream stream, int device)
    : stream_{stream}, device_{device} {
  check_device("stream_ordered_resource", device);
}

void* stream_ordered_resource::allocate(bytes size, bytes alignment) {
  cuda::check_alignment(alignment, "stream_ordered_resource", size);
  device_guard const guard{device_};
  void* result = nullptr;
  check(cudaMallocAsync(&result, at_least_one(size), stream_), "stream_ordered_resource",
        "cudaMallocAsync", size);
  return result;
}
void stream_ordered_resource::deallocate(void* pointer, bytes, bytes) noexcept {
  device_guard const guard{device_};
  cudaFreeAsync(pointer, stream_);
}

void stream_ordered_resource::synchronize() {
  device_guard const guard{device_};
  check(cudaStreamSynchronize(stream_), "stream_ordered_resource: cudaStreamSynchronize");
}

pinned_resource::pinned_resource() { check_device("pinned_resource", 0); }

void* pinned_resource::allocate(bytes size, bytes alignment) {
  cuda::check_alignment(alignment, "pinned_resource", size);
  relaxed_captures const captures;
  void* result = nullptr;
  check(cudaMallocHost(&result, at_least_one(size)), "pinned_resource", "cudaMallocHost", size);
  return result;
}
void pinned_resource::deallocate(void* pointer, bytes, bytes) noexcept {
  relaxed_captures const captures;
  cudaFreeHost(pointer);
}

managed_resource::managed_resource() { check_device("managed_resource", 0); }

void* managed_resource::allocate(bytes size, bytes alignment) {
  cuda::check_alignment(alignment, "managed_resource", size);
  relaxed_captures const captures;
  void* result = nullptr;
  check(cudaMallocManaged(&result, at_least_one(size), cudaMemAttachGlobal), "managed_resource",
        "cudaMallocManaged", size);
  return result;
}
void managed_resource::deallocate(void* pointer, bytes, bytes) noexcept {
  relaxed_captures const captures;
  cudaFree(pointer);
}

}  // namespace quarry::inline QUARRY_ABI
