// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/host/pools/stream_order.hpp"
#include "quarry/host/resources/cuda_resources.hpp"

#include <cstdint>
#include <utility>
#include <vector>

struct CUevent_st;

namespace quarry::inline QUARRY_ABI {

/// CUDA's streams and events of one GPU. In a build without CUDA the constructor throws
/// `resource_failed`.
///
/// `nullptr` and cudaStreamLegacy are the legacy default stream of that GPU. cudaStreamPerThread is
/// the calling thread's default stream. The library takes `nullptr` for the legacy default stream.
/// So a program that is compiled with per-thread default streams must pass `cudaStreamPerThread`. A
/// stream has another identity in each capture, because CUDA does not return the id of a stream
/// that is being captured.
class QUARRY_API cuda_streams {
 public:
  using stream = cuda_stream;
  struct event {
    CUevent_st* handle;
  };

  explicit cuda_streams(int device = 0);
  cuda_streams(cuda_streams&& other) noexcept
      : device_{other.device_},
        unused_{std::exchange(other.unused_, {})},
        made_{std::exchange(other.made_, 0)} {}
  cuda_streams& operator=(cuda_streams&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(unused_, other.unused_);
    std::swap(made_, other.made_);
    return *this;
  }
  ~cuda_streams();

  [[nodiscard]] stream_identity identity(stream handle) const;
  [[nodiscard]] static bool depends_on_thread(stream handle) noexcept {
    return reinterpret_cast<std::uintptr_t>(handle) == 2;  // cudaStreamPerThread
  }
  /// Throws `bad_argument` while the stream is being captured.
  [[nodiscard]] event record(stream handle);
  void wait(stream later, event const& earlier);
  [[nodiscard]] bool is_done(event const& recorded) noexcept;
  void finish(event const& recorded) noexcept;
  [[nodiscard]] bool finish(stream handle) noexcept;
  [[nodiscard]] bool finish_all() noexcept;
  void drop(event& recorded) noexcept;

 private:
  int device_;
  std::vector<CUevent_st*> unused_;  // events to record again
  std::size_t made_ = 0;             // the number of events
};

static_assert(stream_order<cuda_streams>);

}  // namespace quarry::inline QUARRY_ABI
