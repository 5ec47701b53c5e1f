// SPDX-License-Identifier: Apache-2.0
// A fake CUDA driver and runtime with two devices or more. The fake only records calls, so that
// their callers can be tested without a GPU. Include it in one source file of a program that does
// not link CUDA's runtime.
#pragma once

#include "quarry/core/bytes.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace quarry::test {

/// Refuses the same errors as the real driver: mapping unreserved or mapped addresses, unmapping a
/// part of a mapping, and releasing a handle that is in use.
struct fake_cuda {
  static constexpr bytes granularity = 4096;
  struct mapping {
    bytes size;
    std::uint64_t handle;
    std::set<int> devices;  // that can access it
    friend bool operator==(mapping const&, mapping const&) = default;
  };

  int device = 0;
  int devices = 2;
  std::set<std::pair<int, int>> apart;  // the first device cannot use the memory of the second
  int calls_that_work = -1;  // calls that succeed before the first failure; negative: all succeed
  CUresult failure = CUDA_ERROR_OUT_OF_MEMORY;
  int mistakes = 0;
  bool mappings_keep_memory = false;  // a handle may be released before its mapping, as in CUDA
  std::uint64_t next_address = std::uint64_t{1} << 40, next_handle = 1;
  std::map<std::uint64_t, bytes> ranges, handles;
  std::map<std::uint64_t, int> homes;   // of handles: the device that has the memory
  std::set<std::uint64_t> allocations;  // of cudaMalloc
  std::map<std::uint64_t, mapping> mappings;
  std::map<CUstream_st*, int> streams;  // and their devices

  static fake_cuda& instance() {
    static fake_cuda singleton;
    return singleton;
  }

  bool fails() {
    if (calls_that_work == 0) return true;
    if (calls_that_work > 0) --calls_that_work;
    return false;
  }
  CUresult expect(bool holds) {
    mistakes += holds ? 0 : 1;
    return holds ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  [[nodiscard]] bool is_reserved(std::uint64_t address, bytes size) const {
    auto const next_range = ranges.upper_bound(address);
    if (next_range == ranges.begin()) return false;
    auto const& [base, length] = *std::prev(next_range);
    return address + size <= base + length;
  }
  [[nodiscard]] bool is_unmapped(std::uint64_t address, bytes size) const {
    auto const next_mapping = mappings.lower_bound(address + size);
    return next_mapping == mappings.begin() ||
           std::prev(next_mapping)->first + std::prev(next_mapping)->second.size <= address;
  }
  /// Whether whole, adjacent mappings cover exactly this range.
  [[nodiscard]] bool is_tiled(std::uint64_t address, bytes size) const {
    std::uint64_t next = address;
    while (next < address + size && mappings.contains(next)) next += mappings.at(next).size;
    return next == address + size;
  }

  static CUresult reserve(CUdeviceptr* base, std::size_t size, std::size_t alignment, CUdeviceptr,
                          unsigned long long) {
    auto& gpu = instance();
    if (gpu.fails()) return gpu.failure;
    gpu.next_address = (gpu.next_address + alignment - 1) / alignment * alignment;
    *base = gpu.next_address;
    gpu.ranges.emplace(*base, size);
    gpu.next_address += size + granularity;
    return gpu.expect(size % granularity == 0);
  }
  static CUresult release_range(CUdeviceptr base, std::size_t size) {
    auto& gpu = instance();
    auto const found = gpu.ranges.find(base);
    bool const is_whole = found != gpu.ranges.end() && found->second == size;
    if (is_whole) gpu.ranges.erase(found);
    return gpu.expect(is_whole && gpu.is_unmapped(base, size));
  }
  static CUresult create(CUmemGenericAllocationHandle* handle, std::size_t size,
                         CUmemAllocationProp const* properties, unsigned long long) {
    auto& gpu = instance();
    if (gpu.fails()) return gpu.failure;
    *handle = gpu.next_handle++;
    gpu.handles.emplace(*handle, size);
    gpu.homes.emplace(*handle, properties->location.id);
    return gpu.expect(size % granularity == 0);
  }
  static CUresult release(CUmemGenericAllocationHandle handle) {
    auto& gpu = instance();
    bool is_used = false;
    for (auto const& entry : gpu.mappings) is_used |= entry.second.handle == handle;
    return gpu.expect(gpu.handles.erase(handle) == 1 && (!is_used || gpu.mappings_keep_memory));
  }
  static CUresult map(CUdeviceptr address, std::size_t size, std::size_t,
                      CUmemGenericAllocationHandle handle, unsigned long long) {
    auto& gpu = instance();
    if (gpu.fails()) return gpu.failure;
    bool const is_valid = gpu.handles.contains(handle) && gpu.handles.at(handle) == size &&
                          gpu.is_reserved(address, size) && gpu.is_unmapped(address, size);
    if (is_valid) gpu.mappings.emplace(address, mapping{size, handle, {}});
    return gpu.expect(is_valid);
  }
  static CUresult unmap(CUdeviceptr address, std::size_t size) {
    auto& gpu = instance();
    bool const is_valid = size != 0 && gpu.is_tiled(address, size);
    if (is_valid)
      gpu.mappings.erase(gpu.mappings.find(address), gpu.mappings.lower_bound(address + size));
    return gpu.expect(is_valid);
  }
  static CUresult set_access(CUdeviceptr address, std::size_t size, CUmemAccessDesc const* access,
                             std::size_t count) {
    auto& gpu = instance();
    if (gpu.fails()) return gpu.failure;
    bool const is_valid = gpu.is_tiled(address, size);
    for (auto entry = gpu.mappings.find(address); is_valid && size != 0; ++entry) {
      for (std::size_t i = 0; i < count; ++i) entry->second.devices.insert(access[i].location.id);
      size -= entry->second.size;
    }
    return gpu.expect(is_valid);
  }
  static CUresult get_granularity(std::size_t* result, CUmemAllocationProp const*,
                                  CUmemAllocationGranularity_flags) {
    *result = granularity;
    return CUDA_SUCCESS;
  }
};

}  // namespace quarry::test

extern "C" {
inline cudaError_t fake_entry_point(char const* name, void** function) {
  using quarry::test::fake_cuda;
  static std::map<std::string, void*> const functions{
      {"cuMemAddressReserve", reinterpret_cast<void*>(&fake_cuda::reserve)},
      {"cuMemAddressFree", reinterpret_cast<void*>(&fake_cuda::release_range)},
      {"cuMemCreate", reinterpret_cast<void*>(&fake_cuda::create)},
      {"cuMemRelease", reinterpret_cast<void*>(&fake_cuda::release)},
      {"cuMemMap", reinterpret_cast<void*>(&fake_cuda::map)},
      {"cuMemUnmap", reinterpret_cast<void*>(&fake_cuda::unmap)},
      {"cuMemSetAccess", reinterpret_cast<void*>(&fake_cuda::set_access)},
      {"cuMemGetAllocationGranularity", reinterpret_cast<void*>(&fake_cuda::get_granularity)}};
  auto const found = functions.find(name);
  *function = found == functions.end() ? nullptr : found->second;
  return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(char const* name, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* status) {
  *status = cudaDriverEntryPointSuccess;
  return fake_entry_point(name, function);
}
cudaError_t cudaGetDevice(int* device) {
  *device = quarry::test::fake_cuda::instance().device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  quarry::test::fake_cuda::instance().device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = quarry::test::fake_cuda::instance().devices;
  return cudaSuccess;
}
cudaError_t cudaDeviceCanAccessPeer(int* can_access, int device, int peer) {
  *can_access = quarry::test::fake_cuda::instance().apart.contains({device, peer}) ? 0 : 1;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  auto& gpu = quarry::test::fake_cuda::instance();
  if (gpu.fails()) return cudaErrorMemoryAllocation;
  *stream = reinterpret_cast<cudaStream_t>(gpu.next_handle++);
  gpu.streams.emplace(*stream, gpu.device);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  auto& gpu = quarry::test::fake_cuda::instance();
  auto const found = gpu.streams.find(stream);
  (void)gpu.expect(found != gpu.streams.end() && found->second == gpu.device);
  if (found != gpu.streams.end()) gpu.streams.erase(found);
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** address, std::size_t size) {
  auto& gpu = quarry::test::fake_cuda::instance();
  if (gpu.fails()) return cudaErrorMemoryAllocation;
  gpu.allocations.insert(gpu.next_address);
  *address = reinterpret_cast<void*>(gpu.next_address);
  gpu.next_address += size;
  return cudaSuccess;
}
cudaError_t cudaMemset(void*, int, std::size_t) {
  return quarry::test::fake_cuda::instance().fails() ? cudaErrorUnknown : cudaSuccess;
}
cudaError_t cudaFree(void* address) {
  auto& gpu = quarry::test::fake_cuda::instance();
  if (address != nullptr)
    (void)gpu.expect(gpu.allocations.erase(reinterpret_cast<std::uint64_t>(address)) == 1);
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
char const* cudaGetErrorString(cudaError_t status) {
  return status == cudaErrorMemoryAllocation ? "out of memory" : "another error";
}
char const* cudaGetErrorName(cudaError_t) { return "cudaErrorOfTheFake"; }
}
