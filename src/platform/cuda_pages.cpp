// SPDX-License-Identifier: Apache-2.0
#include "quarry/platform/cuda_pages.hpp"

#include "platform/cuda_address_space.hpp"
#include "platform/cuda_calls.hpp"

namespace quarry::inline QUARRY_ABI {

using namespace detail;

cuda_pages::cuda_pages(int device)
    : device_{device}, space_{std::make_shared<cuda_address_space>("cuda_pages", device)} {
  page_ = space_->granularity();
}

std::uint64_t cuda_pages::reserve(bytes size) { return space_->reserve(size, page_); }
void cuda_pages::release(std::uint64_t address, bytes size) noexcept {
  space_->release(address, size);
}
void cuda_pages::map(std::uint64_t address, bytes size) { space_->map(address, size, page_); }

void cuda_pages::move(std::uint64_t source, std::uint64_t target, bytes size) {
  cuda::device_guard const guard{device_};
  cuda::check(cudaDeviceSynchronize(), "cuda_pages: cudaDeviceSynchronize");
  space_->move(source, target, size);
}

void cuda_pages::unmap(std::uint64_t address, bytes size) noexcept {
  if (size == 0) return;
  cuda::device_guard const guard{device_};
  cudaDeviceSynchronize();
  space_->unmap(address, size);
}

}  // namespace quarry::inline QUARRY_ABI
