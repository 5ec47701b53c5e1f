// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/pools/cuda_streams.hpp"
#include "quarry/host/pools/stream_order.hpp"
#include "quarry/host/registry/memory_location.hpp"

#include <optional>

namespace quarry::python {

/// The streams of a plug-in's pool: those of CUDA, or of the host if the pool's blocks are host
/// memory. The host's work ends at once, and each handle is a stream. So a pool over host memory
/// needs no GPU.
class plugin_streams {
 public:
  using stream = cuda_stream;
  using event = cuda_streams::event;

  /// Throws `resource_failed` if the blocks are not host memory and CUDA does not work.
  plugin_streams(memory_location blocks, int device) {
    if (blocks.kind != memory_kind::host) cuda_.emplace(device);
  }

  [[nodiscard]] stream_identity identity(stream handle) const {
    if (cuda_) return cuda_->identity(handle);
    return {reinterpret_cast<std::uintptr_t>(handle)};
  }
  [[nodiscard]] bool depends_on_thread(stream handle) const noexcept {
    return cuda_ && cuda_streams::depends_on_thread(handle);
  }
  [[nodiscard]] event record(stream handle) { return cuda_ ? cuda_->record(handle) : event{}; }
  void wait(stream later, event const& earlier) {
    if (cuda_) cuda_->wait(later, earlier);
  }
  [[nodiscard]] bool is_done(event const& recorded) noexcept {
    return !cuda_ || cuda_->is_done(recorded);
  }
  void finish(event const& recorded) noexcept {
    if (cuda_) cuda_->finish(recorded);
  }
  [[nodiscard]] bool finish(stream handle) noexcept { return !cuda_ || cuda_->finish(handle); }
  [[nodiscard]] bool finish_all() noexcept { return !cuda_ || cuda_->finish_all(); }
  void drop(event& dropped) noexcept {
    if (cuda_) cuda_->drop(dropped);
  }

 private:
  std::optional<cuda_streams> cuda_;
};

static_assert(stream_order<plugin_streams>);

}  // namespace quarry::python
