// SPDX-License-Identifier: Apache-2.0
// CUDA's stream handles without CUDA. All work ends at once, and every number is a stream.
#pragma once

#include "quarry/host/pools/stream_order.hpp"
#include "quarry/host/pools/stream_pool.hpp"
#include "quarry/host/resources/cuda_resources.hpp"
#include "quarry/host/resources/host_resource.hpp"

#include <cstdint>

namespace quarry::test {

class immediate_streams {
 public:
  using stream = cuda_stream;
  struct event {};

  [[nodiscard]] stream_identity identity(stream handle) const {
    return {reinterpret_cast<std::uintptr_t>(handle)};
  }
  [[nodiscard]] static bool depends_on_thread(stream) noexcept { return false; }
  [[nodiscard]] event record(stream) { return {}; }
  void wait(stream, event const&) {}
  [[nodiscard]] bool is_done(event const&) noexcept { return true; }
  void finish(event const&) noexcept {}
  [[nodiscard]] bool finish(stream) noexcept { return true; }
  [[nodiscard]] bool finish_all() noexcept { return true; }
  void drop(event&) noexcept {}
};

static_assert(stream_order<immediate_streams>);

inline cuda_stream stream_number(std::uintptr_t number) {
  return reinterpret_cast<cuda_stream>(number);
}

/// A source that names the stream in each call, and cannot be moved.
struct stream_source {
  stream_source() : pool{host_resource{}, immediate_streams{}, {.first_block = 1 << 16}} {}
  stream_source(stream_source const&) = delete;
  void* allocate(bytes size, bytes alignment, cuda_stream stream) {
    return pool.allocate(size, alignment, stream);
  }
  void deallocate(void* pointer, bytes, bytes, cuda_stream stream) noexcept {
    (void)pool.deallocate(pointer, stream);
  }
  void* allocate_sync(bytes size, bytes alignment) {
    return pool.allocate(size, alignment, cuda_stream{});
  }
  void deallocate_sync(void* pointer, bytes, bytes) noexcept { (void)pool.deallocate(pointer); }
  stream_pool<host_resource, immediate_streams> pool;
};

}  // namespace quarry::test
