// SPDX-License-Identifier: Apache-2.0
#include "quarry/platform/cuda_pages.hpp"

#include "platform/no_cuda.hpp"

namespace quarry::inline QUARRY_ABI {

cuda_pages::cuda_pages(int device) : device_{device} { refuse_without_cuda("cuda_pages"); }
std::uint64_t cuda_pages::reserve(bytes) { refuse_without_cuda("cuda_pages"); }
void cuda_pages::release(std::uint64_t, bytes) noexcept {}
void cuda_pages::map(std::uint64_t, bytes) { refuse_without_cuda("cuda_pages"); }
void cuda_pages::move(std::uint64_t, std::uint64_t, bytes) { refuse_without_cuda("cuda_pages"); }
void cuda_pages::unmap(std::uint64_t, bytes) noexcept {}

}  // namespace quarry::inline QUARRY_ABI
