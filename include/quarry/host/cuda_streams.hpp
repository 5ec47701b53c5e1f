// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/cuda_resources.hpp"
#include "quarry/host/stream_order.hpp"

#include <vector>

struct CUevent_st;

namespace quarry {

/// CUDA's streams and events of one GPU. In a build without CUDA the constructor throws `resource_failed`.
class cuda_streams {
 public:
  using stream = cuda_stream;
  struct event {
    CUevent_st* handle;
  };

  explicit cuda_streams(int device = 0);
  cuda_streams(cuda_streams&& other) noexcept = default;
  cuda_streams& operator=(cuda_streams&& other) noexcept = default;
  ~cuda_streams();

  [[nodiscard]] event record(stream on);
  void wait(stream later, event const& earlier);
  [[nodiscard]] bool is_done(event const& one) noexcept;
  void finish(event const& one) noexcept;
  void finish(stream one) noexcept;
  void drop(event& one) noexcept;

 private:
  int device_;
  std::vector<CUevent_st*> unused_;  // to be recorded again
};

static_assert(stream_order<cuda_streams>);

}  // namespace quarry
