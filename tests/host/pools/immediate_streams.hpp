// SPDX-License-Identifier: Apache-2.0
// CUDA's stream handles without CUDA. All work ends at once, and every number is a stream.
#pragma once

#include "quarry/host/pools/stream_order.hpp"
#include "quarry/host/resources/cuda_resources.hpp"

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

}  // namespace quarry::test
