// SPDX-License-Identifier: Apache-2.0
// The same without CUDA: there is no such memory.
#include "quarry/host/cuda_pages.hpp"
#include "quarry/host/cuda_resources.hpp"

namespace quarry {
namespace {

[[noreturn]] void refuse(char const* resource) { throw resource_failed{resource, "Quarry was built without CUDA"}; }

}  // namespace

device_resource::device_resource(int device) : device_{device} { refuse("device_resource"); }
void* device_resource::allocate(bytes, bytes) { refuse("device_resource"); }
void device_resource::deallocate(void*, bytes, bytes) noexcept {}

stream_ordered_resource::stream_ordered_resource(cuda_stream stream, int device) : stream_{stream}, device_{device} { refuse("stream_ordered_resource"); }
void* stream_ordered_resource::allocate(bytes, bytes) { refuse("stream_ordered_resource"); }
void stream_ordered_resource::deallocate(void*, bytes, bytes) noexcept {}

pinned_resource::pinned_resource() { refuse("pinned_resource"); }
void* pinned_resource::allocate(bytes, bytes) { refuse("pinned_resource"); }
void pinned_resource::deallocate(void*, bytes, bytes) noexcept {}

cuda_pages::cuda_pages(int device) : device_{device} { refuse("cuda_pages"); }
std::uint64_t cuda_pages::reserve(bytes) { refuse("cuda_pages"); }
void cuda_pages::give_up(std::uint64_t, bytes) noexcept {}
void cuda_pages::map(std::uint64_t, bytes) { refuse("cuda_pages"); }
void cuda_pages::move(std::uint64_t, std::uint64_t, bytes) { refuse("cuda_pages"); }
void cuda_pages::unmap(std::uint64_t, bytes) noexcept {}

managed_resource::managed_resource() { refuse("managed_resource"); }
void* managed_resource::allocate(bytes, bytes) { refuse("managed_resource"); }
void managed_resource::deallocate(void*, bytes, bytes) noexcept {}

}  // namespace quarry
