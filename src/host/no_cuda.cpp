// SPDX-License-Identifier: Apache-2.0
// The CUDA resources in a build without CUDA: every call is refused.
#include "platform/no_cuda.hpp"
#include "host/cuda_operations.hpp"
#include "quarry/host/pools/cuda_async_pool.hpp"
#include "quarry/host/pools/cuda_stream_pool.hpp"
#include "quarry/host/pools/cuda_streams.hpp"
#include "quarry/host/resources/cuda_resources.hpp"
#include "quarry/host/resources/sam_headroom_resource.hpp"

namespace quarry::inline QUARRY_ABI {

device_resource::device_resource(int device) : device_{device} {
  refuse_without_cuda("device_resource");
}
void* device_resource::allocate(bytes, bytes) { refuse_without_cuda("device_resource"); }
void device_resource::deallocate(void*, bytes, bytes) noexcept {}

stream_ordered_resource::stream_ordered_resource(cuda_stream stream, int device)
    : stream_{stream}, device_{device} {
  refuse_without_cuda("stream_ordered_resource");
}
void* stream_ordered_resource::allocate(bytes, bytes) {
  refuse_without_cuda("stream_ordered_resource");
}
void stream_ordered_resource::deallocate(void*, bytes, bytes) noexcept {}

void stream_ordered_resource::synchronize() {}

pinned_resource::pinned_resource() { refuse_without_cuda("pinned_resource"); }
void* pinned_resource::allocate(bytes, bytes) { refuse_without_cuda("pinned_resource"); }
void pinned_resource::deallocate(void*, bytes, bytes) noexcept {}

void check_location(char const*, void const*, memory_location) {}

cuda_streams::cuda_streams(int device) : device_{device} { refuse_without_cuda("cuda_streams"); }
cuda_streams::~cuda_streams() = default;
stream_identity cuda_streams::identity(stream) const { refuse_without_cuda("cuda_streams"); }
cuda_streams::event cuda_streams::record(stream) { refuse_without_cuda("cuda_streams"); }
void cuda_streams::wait(stream, event const&) { refuse_without_cuda("cuda_streams"); }
bool cuda_streams::is_done(event const&) noexcept { return true; }
void cuda_streams::finish(event const&) noexcept {}
bool cuda_streams::finish(stream) noexcept { return true; }
bool cuda_streams::finish_all() noexcept { return true; }
void cuda_streams::drop(event&) noexcept {}

cuda_stream_pool::cuda_stream_pool(std::size_t size, int device, stream_kind)
    : device_{device}, turns_{size} {
  refuse_without_cuda("cuda_stream_pool");
}
cuda_stream_pool::~cuda_stream_pool() = default;

sam_headroom_resource::sam_headroom_resource(bytes headroom, int device)
    : headroom_{headroom}, device_{device} {
  refuse_without_cuda("sam_headroom_resource");
}
void* sam_headroom_resource::allocate(bytes, bytes) {
  refuse_without_cuda("sam_headroom_resource");
}

managed_resource::managed_resource() { refuse_without_cuda("managed_resource"); }
void* managed_resource::allocate(bytes, bytes) { refuse_without_cuda("managed_resource"); }
void managed_resource::deallocate(void*, bytes, bytes) noexcept {}

cuda_async_view::cuda_async_view(cuda_memory_pool pool, memory_location location,
                                 cuda_stream stream)
    : pool_{pool}, location_{location}, stream_{stream} {
  refuse_without_cuda("cuda_async_view");
}
cuda_async_view cuda_async_view::default_pool(int, cuda_stream) {
  refuse_without_cuda("cuda_async_view");
}
void* cuda_async_view::allocate(bytes, bytes) { refuse_without_cuda("cuda_async_view"); }
void cuda_async_view::deallocate(void*, bytes, bytes) noexcept {}
void* cuda_async_view::allocate(bytes, bytes, cuda_stream) {
  refuse_without_cuda("cuda_async_view");
}
void cuda_async_view::deallocate(void*, bytes, bytes, cuda_stream) noexcept {}
void* cuda_async_view::allocate_sync(bytes, bytes) { refuse_without_cuda("cuda_async_view"); }
void cuda_async_view::deallocate_sync(void*, bytes, bytes) noexcept {}
void cuda_async_view::synchronize() {}
bytes cuda_async_view::reserved() const { return 0; }
bytes cuda_async_view::allocated() const { return 0; }
void cuda_async_view::release(bytes) {}
std::uint64_t cuda_async_view::invalid_frees() const { return 0; }

cuda_async_pool::cuda_async_pool(cuda_async_options const&, cuda_stream) {
  refuse_without_cuda("cuda_async_pool");
}
cuda_async_pool::~cuda_async_pool() = default;

namespace cuda {

void copy(void*, void const*, bytes, memory_location) { refuse_without_cuda("copy"); }
void copy(void*, void const*, bytes, cuda_stream) { refuse_without_cuda("copy on a stream"); }
void fill(void*, unsigned char, bytes, memory_location) { refuse_without_cuda("fill"); }
void fill(void*, unsigned char, bytes, cuda_stream) { refuse_without_cuda("fill on a stream"); }
void prefetch(void const*, bytes, memory_location, cuda_stream) { refuse_without_cuda("prefetch"); }
void advise(void*, bytes, memory_advice, memory_location) { refuse_without_cuda("advise"); }

}  // namespace cuda
}  // namespace quarry::inline QUARRY_ABI
