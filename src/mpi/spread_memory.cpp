// SPDX-License-Identifier: Apache-2.0
#include "spread_memory.hpp"

#include "device_memory.hpp"

#include "platform/cuda_calls.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

using cuda::driver;
using cuda::properties_of;

constexpr char user[] = "the ranks' state on the GPU";

/// Throws out_of_memory or resource_failed unless an allocation of `size` bytes has succeeded.
void check_allocation(cudaError_t status, char const* call, bytes size) {
  if (status == cudaErrorMemoryAllocation)
    throw out_of_memory{user, size,
                        "other programs use the GPU; wait for them, or run with fewer ranks"};
  check(status, call);
}

}  // namespace

spread_memory::spread_memory(std::vector<gpu_part> const& parts, bytes element) {
  gpu_part const& last = parts.back();
  bytes const size = (last.first_rank + last.ranks) * element;
  if (size == 0) return;
  if (parts.size() == 1) {
    void* address = nullptr;
    check_allocation(cudaMalloc(&address, size), "cudaMalloc", size);
    address_ = reinterpret_cast<std::uint64_t>(address);
  } else {
    auto const properties = properties_of(0);
    std::size_t page = 0;
    cuda::check(
        driver::functions().granularity(&page, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM), user,
        "cuMemGetAllocationGranularity", 0);
    // The second GPU's first element begins a page: a page has thousands of small elements.
    shift_ = (page - parts[1].first_rank * element % page) % page;
    reserved_ = (shift_ + size + page - 1) / page * page;
    CUdeviceptr address = 0;
    cuda::check(driver::functions().reserve(&address, reserved_, page, 0, 0), user,
                "cuMemAddressReserve", size);
    address_ = address;
    try {
      map(parts, element, page);
    } catch (...) {
      release();
      throw;
    }
  }
  cudaError_t const zeroed = cudaMemset(data(), 0, size);
  if (zeroed != cudaSuccess) release();
  check(zeroed, "cudaMemset");
}

void spread_memory::map(std::vector<gpu_part> const& parts, bytes element, bytes page) {
  auto const& functions = driver::functions();
  for (gpu_part const& part : parts) {
    bytes const end = shift_ + (part.first_rank + part.ranks) * element;
    bool const is_last = &part == &parts.back();
    bytes const rounded = is_last ? reserved_ : (end + page / 2) / page * page;
    if (rounded <= mapped_) continue;
    bytes const size = rounded - mapped_;
    auto const properties = properties_of(part.device);
    CUmemGenericAllocationHandle handle = 0;
    check_allocation(static_cast<cudaError_t>(functions.create(&handle, size, &properties, 0)),
                     "cuMemCreate", size);
    auto const status = functions.map(address_ + mapped_, size, 0, handle, 0);
    functions.release(handle);  // the mapping keeps the memory
    cuda::check(status, user, "cuMemMap", size);
    mapped_ = rounded;
  }
  std::vector<CUmemAccessDesc> access;
  for (gpu_part const& part : parts)
    access.push_back({properties_of(part.device).location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE});
  cuda::check(functions.set_access(address_, reserved_, access.data(), access.size()), user,
              "cuMemSetAccess", reserved_);
}

void spread_memory::release() noexcept {
  if (reserved_ == 0) {
    (void)cudaFree(data());
    return;
  }
  if (mapped_ != 0) (void)driver::functions().unmap(address_, mapped_);
  (void)driver::functions().release_range(address_, reserved_);
}

spread_memory::~spread_memory() { release(); }

}  // namespace quarry::inline QUARRY_ABI::mpi
