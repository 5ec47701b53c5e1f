// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include "quarry/core/errors.hpp"

#include "platform/on_device.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <string>

namespace quarry::inline QUARRY_ABI {
namespace {

using cuda::on_device;

void check(cudaError_t status, char const* call) {
  if (status != cudaSuccess) throw resource_failed{call, cudaGetErrorString(status)};
}

/// The driver's virtual memory functions, found at run time so that programs link without the
/// driver's library.
class driver {
 public:
  static driver const& instance() {
    static driver const functions;
    return functions;
  }

  decltype(&::cuMemAddressReserve) reserve;
  decltype(&::cuMemAddressFree) free_range;
  decltype(&::cuMemCreate) create;
  decltype(&::cuMemRelease) release;
  decltype(&::cuMemMap) map;
  decltype(&::cuMemUnmap) unmap;
  decltype(&::cuMemSetAccess) set_access;
  decltype(&::cuMemGetAllocationGranularity) granularity;
  decltype(&::cuGetErrorString) error_string;

  void check(CUresult status, char const* call) const {
    if (status == CUDA_SUCCESS) return;
    char const* text = "unknown error";
    error_string(status, &text);
    throw resource_failed{call, text};
  }

 private:
  driver() {
    find("cuMemAddressReserve", reserve);
    find("cuMemAddressFree", free_range);
    find("cuMemCreate", create);
    find("cuMemRelease", release);
    find("cuMemMap", map);
    find("cuMemUnmap", unmap);
    find("cuMemSetAccess", set_access);
    find("cuMemGetAllocationGranularity", granularity);
    find("cuGetErrorString", error_string);
  }

  template <class Function>
  static void find(char const* name, Function& function) {
    void* address = nullptr;
    cudaDriverEntryPointQueryResult found{};
    quarry::check(
        cudaGetDriverEntryPointByVersion(name, &address, 12000, cudaEnableDefault, &found), name);
    if (found != cudaDriverEntryPointSuccess)
      throw resource_failed{name, "the CUDA driver lacks it"};
    function = reinterpret_cast<Function>(address);
  }
};

/// A range of virtual addresses of one device; each `map` gives it one physical allocation. Every
/// call works whatever device is current, and leaves it so.
class cuda_memory final : public heap_memory {
 public:
  cuda_memory(int device, bytes reserved, bytes alignment) : device_{device}, reserved_{reserved} {
    on_device const here{device_};
    check(cudaFree(nullptr), "CUDA initialisation");
    auto const& cu = driver::instance();
    auto const how = properties();
    cu.check(cu.granularity(&granularity_, &how, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
             "cuMemGetAllocationGranularity");
    reserved_ = rounded(reserved);
    cu.check(cu.reserve(&region_, reserved_, alignment, 0, 0),
             "cuMemAddressReserve of a heap's region");
    if (region_ % alignment != 0) {
      cu.free_range(region_, reserved_);
      throw resource_failed{"cuMemAddressReserve", "the range is not aligned to a segment"};
    }
  }
  cuda_memory(cuda_memory const&) = delete;
  cuda_memory& operator=(cuda_memory const&) = delete;
  ~cuda_memory() override {
    on_device const here{device_};
    auto const& cu = driver::instance();
    for (auto const& [begin, mapped] : parts_) {
      cu.unmap(region_ + begin, mapped.size);
      cu.release(mapped.handle);
    }
    cu.free_range(region_, reserved_);
    for (void* const address : metadata_) cudaFree(address);
  }

  void* region() const override { return reinterpret_cast<void*>(region_); }

  void map(bytes begin, bytes end) override {
    on_device const here{device_};
    auto const& cu = driver::instance();
    begin = std::max(begin, mapped_);  // the granularity may have given more than was asked for
    end = rounded(end);
    if (begin >= end) return;
    for (bytes at = begin; at < end; at += part_bytes) map_part(at, std::min(end - at, part_bytes));
    mapped_ = end;
    CUmemAccessDesc access{};
    access.location = properties().location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    cu.check(cu.set_access(region_ + begin, end - begin, &access, 1),
             "cuMemSetAccess of a heap's memory");
  }

  void unmap(bytes begin, bytes end) override {
    on_device const here{device_};
    auto const& cu = driver::instance();
    for (auto at = parts_.lower_bound(begin); at != parts_.end() && at->first < end;
         at = parts_.erase(at)) {
      cu.check(cu.unmap(region_ + at->first, at->second.size), "cuMemUnmap of a heap's memory");
      cu.release(at->second.handle);
      mapped_ = std::min(mapped_, at->first);
    }
  }

  bytes unmappable_from(bytes begin, bytes end) const override {
    auto const found = parts_.lower_bound(begin);
    return found == parts_.end() ? end : std::min(found->first, end);
  }

  void* metadata(bytes size) override {
    on_device const here{device_};
    void* address = nullptr;
    check(cudaMalloc(&address, size), "cudaMalloc of a heap's metadata");
    metadata_.insert(address);
    return address;
  }
  void release(void* address) override {
    on_device const here{device_};
    cudaFree(address);
    metadata_.erase(address);
  }

  std::shared_ptr<void> detached(bytes size) override {
    on_device const here{device_};
    void* address = nullptr;
    check(cudaMalloc(&address, size), "cudaMalloc of a heap's state");
    return {address, [](void* memory) { cudaFree(memory); }};
  }

  void zero(void* to, bytes size) override {
    on_device const here{device_};
    check(cudaMemsetAsync(to, 0, size, nullptr), "cudaMemsetAsync");
  }
  void upload(void* to, void const* from, bytes size) override {
    on_device const here{device_};
    check(cudaMemcpy(to, from, size, cudaMemcpyHostToDevice), "cudaMemcpy to a heap's metadata");
  }
  void download(void* to, void const* from, bytes size) override {
    on_device const here{device_};
    check(cudaMemcpy(to, from, size, cudaMemcpyDeviceToHost), "cudaMemcpy from a heap's metadata");
  }
  void synchronize() override {
    on_device const here{device_};
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }

 private:
  struct part {
    bytes size;
    CUmemGenericAllocationHandle handle;
  };

  static constexpr bytes part_bytes = 1_GiB;  // what shrinking returns at a time

  void map_part(bytes at, bytes size) {
    auto const& cu = driver::instance();
    auto const how = properties();
    part added{size, {}};
    cu.check(cu.create(&added.handle, size, &how, 0), "cuMemCreate of a heap's memory");
    if (auto const status = cu.map(region_ + at, size, 0, added.handle, 0);
        status != CUDA_SUCCESS) {
      cu.release(added.handle);
      cu.check(status, "cuMemMap of a heap's memory");
    }
    parts_.emplace(at, added);
  }

  [[nodiscard]] CUmemAllocationProp properties() const {
    CUmemAllocationProp how{};
    how.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    how.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    how.location.id = device_;
    return how;
  }
  [[nodiscard]] bytes rounded(bytes size) const {
    return (size + granularity_ - 1) / granularity_ * granularity_;
  }

  int device_;
  bytes reserved_;
  bytes mapped_ = 0;  // from the start on
  std::size_t granularity_ = 1;
  CUdeviceptr region_ = 0;
  std::map<bytes, part> parts_;
  std::set<void*> metadata_;
};

}  // namespace

std::shared_ptr<heap_memory> make_cuda_memory(int device, bytes reserved, bytes alignment) {
  if (!has_cuda_device())
    throw resource_failed{"heap", "no CUDA device was found; ask for backend::cpu"};
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  if (device == current_device) check(cudaGetDevice(&device), "cudaGetDevice");
  if (device < 0 || device >= count) {
    throw bad_argument{"heap_options: device is " + std::to_string(device) + ", of " +
                       std::to_string(count)};
  }
  return std::make_shared<cuda_memory>(device, reserved, alignment);
}

bool has_cuda_device() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

}  // namespace quarry::inline QUARRY_ABI
