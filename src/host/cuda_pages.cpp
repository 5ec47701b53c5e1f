// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/cuda_pages.hpp"

#include "host/cuda_calls.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>

namespace quarry::inline QUARRY_ABI {
namespace {

using cuda::check;

/// The driver's functions, found when first used, so that programs link without the driver's
/// library.
struct driver {
  decltype(&::cuMemAddressReserve) reserve;
  decltype(&::cuMemAddressFree) free_range;
  decltype(&::cuMemCreate) create;
  decltype(&::cuMemRelease) release;
  decltype(&::cuMemMap) map;
  decltype(&::cuMemUnmap) unmap;
  decltype(&::cuMemSetAccess) set_access;
  decltype(&::cuMemGetAllocationGranularity) granularity;

  static driver const& functions() {
    static driver const all{
        cuda::driver_function<decltype(reserve)>("cuMemAddressReserve"),
        cuda::driver_function<decltype(free_range)>("cuMemAddressFree"),
        cuda::driver_function<decltype(create)>("cuMemCreate"),
        cuda::driver_function<decltype(release)>("cuMemRelease"),
        cuda::driver_function<decltype(map)>("cuMemMap"),
        cuda::driver_function<decltype(unmap)>("cuMemUnmap"),
        cuda::driver_function<decltype(set_access)>("cuMemSetAccess"),
        cuda::driver_function<decltype(granularity)>("cuMemGetAllocationGranularity")};
    return all;
  }
};

CUmemAllocationProp properties_on(int device) {
  CUmemAllocationProp how{};
  how.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  how.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  return how;
}

/// Returns, as a code, whether the GPU may use all of a mapped range now.
CUresult allow(int device, std::uint64_t address, bytes size) {
  CUmemAccessDesc access{};
  access.location = properties_on(device).location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return driver::functions().set_access(address, size, &access, 1);
}

[[noreturn]] void refuse(CUresult found, char const* call, bytes size) {
  if (found == CUDA_ERROR_OUT_OF_MEMORY) throw out_of_memory{"cuda_pages", size, call};
  throw resource_failed{call, "CUresult " + std::to_string(static_cast<int>(found))};
}

}  // namespace

cuda_pages::cuda_pages(int device) : device_{device} {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (device < 0 || device >= count)
    throw bad_argument{"cuda_pages: there is no device " + std::to_string(device) + " among " +
                       std::to_string(count)};
  int before = 0;
  check(cudaGetDevice(&before), "cudaGetDevice");
  check(cudaInitDevice(device, 0, 0), "cudaInitDevice");
  auto const how = properties_on(device);
  std::size_t page = 0;
  auto const found = driver::functions().granularity(&page, &how, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (found != CUDA_SUCCESS) refuse(found, "cuMemGetAllocationGranularity", 0);
  page_ = page;
}

std::uint64_t cuda_pages::reserve(bytes size) {
  CUdeviceptr base = 0;
  auto const found = driver::functions().reserve(&base, size, page_, 0, 0);
  if (found != CUDA_SUCCESS) refuse(found, "cuMemAddressReserve", size);
  return base;
}

void cuda_pages::give_up(std::uint64_t address, bytes size) noexcept {
  driver::functions().free_range(address, size);
}

void cuda_pages::map(std::uint64_t address, bytes size) {
  auto const& cu = driver::functions();
  auto const how = properties_on(device_);
  handles_.reserve(handles_.size() + size / page_);
  CUresult found = CUDA_SUCCESS;
  bytes done = 0;
  for (; done < size; done += page_) {
    CUmemGenericAllocationHandle handle = 0;
    found = cu.create(&handle, page_, &how, 0);
    if (found != CUDA_SUCCESS) break;
    found = cu.map(address + done, page_, 0, handle, 0);
    if (found != CUDA_SUCCESS) {
      cu.release(handle);
      break;
    }
    try {
      handles_[address + done] = handle;
    } catch (...) {
      cu.unmap(address + done, page_);
      cu.release(handle);
      unmap(address, done);
      throw;
    }
  }
  if (found == CUDA_SUCCESS) found = allow(device_, address, size);
  if (found == CUDA_SUCCESS) return;
  unmap(address, done);
  refuse(found, "cuMemCreate and cuMemMap", size);
}

void cuda_pages::move(std::uint64_t from, std::uint64_t to, bytes size) {
  auto const& cu = driver::functions();
  cuda::on_device const here{device_};
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  CUresult found = CUDA_SUCCESS;
  bytes done = 0;
  for (; done < size && found == CUDA_SUCCESS; done += page_) {  // while mapped at both addresses
    found = cu.map(to + done, page_, 0, handles_.at(from + done), 0);
  }
  if (found != CUDA_SUCCESS) done -= page_;
  if (found == CUDA_SUCCESS) found = allow(device_, to, size);
  if (found != CUDA_SUCCESS) {
    if (done != 0) cu.unmap(to, done);
    refuse(found, "cuMemMap of pages that move", size);
  }
  cu.unmap(from, size);
  for (bytes at = 0; at < size; at += page_) {
    auto page = handles_.extract(from + at);
    page.key() = to + at;
    handles_.insert(std::move(page));
  }
}

void cuda_pages::unmap(std::uint64_t address, bytes size) noexcept {
  if (size == 0) return;
  auto const& cu = driver::functions();
  cuda::on_device const here{device_};
  cudaDeviceSynchronize();
  cu.unmap(address, size);
  for (bytes at = 0; at < size; at += page_) {
    auto const page = handles_.find(address + at);
    cu.release(page->second);
    handles_.erase(page);
  }
}

}  // namespace quarry::inline QUARRY_ABI
