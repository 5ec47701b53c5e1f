// SPDX-License-Identifier: Apache-2.0
// The same without CUDA: there is no such memory.
#include "host/cuda_operations.hpp"
#include "quarry/host/cuda_pages.hpp"
#include "quarry/host/pools/cuda_async_pool.hpp"
#include "quarry/host/pools/cuda_streams.hpp"
#include "quarry/host/resources/cuda_resources.hpp"

namespace quarry::inline QUARRY_ABI {
namespace {

[[noreturn]] void refuse(char const* resource) {
  throw resource_failed{resource, "Quarry was built without CUDA"};
}

}  // namespace

device_resource::device_resource(int device) : device_{device} { refuse("device_resource"); }
void* device_resource::allocate(bytes, bytes) { refuse("device_resource"); }
void device_resource::deallocate(void*, bytes, bytes) noexcept {}

stream_ordered_resource::stream_ordered_resource(cuda_stream stream, int device)
    : stream_{stream}, device_{device} {
  refuse("stream_ordered_resource");
}
void* stream_ordered_resource::allocate(bytes, bytes) { refuse("stream_ordered_resource"); }
void stream_ordered_resource::deallocate(void*, bytes, bytes) noexcept {}

void stream_ordered_resource::synchronize() {}

pinned_resource::pinned_resource() { refuse("pinned_resource"); }
void* pinned_resource::allocate(bytes, bytes) { refuse("pinned_resource"); }
void pinned_resource::deallocate(void*, bytes, bytes) noexcept {}

void check_place(char const*, void const*, memory_location) {}

cuda_pages::cuda_pages(int device) : device_{device} { refuse("cuda_pages"); }
std::uint64_t cuda_pages::reserve(bytes) { refuse("cuda_pages"); }
void cuda_pages::give_up(std::uint64_t, bytes) noexcept {}
void cuda_pages::map(std::uint64_t, bytes) { refuse("cuda_pages"); }
void cuda_pages::move(std::uint64_t, std::uint64_t, bytes) { refuse("cuda_pages"); }
void cuda_pages::unmap(std::uint64_t, bytes) noexcept {}

cuda_streams::cuda_streams(int device) : device_{device} { refuse("cuda_streams"); }
cuda_streams::~cuda_streams() = default;
stream_identity cuda_streams::identity(stream) const { refuse("cuda_streams"); }
cuda_streams::event cuda_streams::record(stream) { refuse("cuda_streams"); }
void cuda_streams::wait(stream, event const&) { refuse("cuda_streams"); }
bool cuda_streams::is_done(event const&) noexcept { return true; }
void cuda_streams::finish(event const&) noexcept {}
bool cuda_streams::finish(stream) noexcept { return true; }
bool cuda_streams::finish_all() noexcept { return true; }
void cuda_streams::drop(event&) noexcept {}

managed_resource::managed_resource() { refuse("managed_resource"); }
void* managed_resource::allocate(bytes, bytes) { refuse("managed_resource"); }
void managed_resource::deallocate(void*, bytes, bytes) noexcept {}

cuda_async_view::cuda_async_view(cuda_memory_pool pool, memory_location location,
                                 cuda_stream stream)
    : pool_{pool}, place_{location}, stream_{stream} {
  refuse("cuda_async_view");
}
cuda_async_view cuda_async_view::default_pool(int, cuda_stream) { refuse("cuda_async_view"); }
void* cuda_async_view::allocate(bytes, bytes) { refuse("cuda_async_view"); }
void cuda_async_view::deallocate(void*, bytes, bytes) noexcept {}
void* cuda_async_view::allocate(bytes, bytes, cuda_stream) { refuse("cuda_async_view"); }
void cuda_async_view::deallocate(void*, bytes, bytes, cuda_stream) noexcept {}
void* cuda_async_view::allocate_sync(bytes, bytes) { refuse("cuda_async_view"); }
void cuda_async_view::deallocate_sync(void*, bytes, bytes) noexcept {}
void cuda_async_view::synchronize() {}
bytes cuda_async_view::reserved() const { return 0; }
bytes cuda_async_view::allocated() const { return 0; }
void cuda_async_view::release(bytes) {}
std::uint64_t cuda_async_view::invalid_frees() const { return 0; }

cuda_async_pool::cuda_async_pool(cuda_async_options const&, cuda_stream) {
  refuse("cuda_async_pool");
}
cuda_async_pool::~cuda_async_pool() = default;

namespace cuda {

void copy(void*, void const*, bytes, memory_location) { refuse("copy"); }
void copy(void*, void const*, bytes, cuda_stream) { refuse("copy on a stream"); }
void fill(void*, unsigned char, bytes, memory_location) { refuse("fill"); }
void fill(void*, unsigned char, bytes, cuda_stream) { refuse("fill on a stream"); }
void prefetch(void const*, bytes, memory_location, cuda_stream) { refuse("prefetch"); }
void advise(void*, bytes, memory_advice, memory_location) { refuse("advise"); }

}  // namespace cuda
}  // namespace quarry::inline QUARRY_ABI
