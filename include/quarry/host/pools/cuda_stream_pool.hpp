// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/host/resources/cuda_resources.hpp"

#include <atomic>
#include <cstddef>
#include <vector>

namespace quarry::inline QUARRY_ABI {

namespace detail {

/// Hands out the numbers 0 to count - 1 in turn, to any thread. When the counter of turns wraps,
/// after 2^64 calls, some numbers may be skipped once.
class round_robin {
 public:
  explicit round_robin(std::size_t count) : count_{count} {}
  [[nodiscard]] std::size_t next() noexcept { return turns_.fetch_add(1) % count_; }

 private:
  std::size_t count_;
  std::atomic<std::size_t> turns_{0};
};

}  // namespace detail

/// Whether work of the legacy default stream and work of a stream wait for each other.
enum class stream_kind { sync_default, non_blocking };

/// Streams of one GPU that many callers share, like RMM's class of this name. `stream()` returns
/// the streams in turn, so two callers may get the same stream. Threads may share it.
class QUARRY_API cuda_stream_pool {
 public:
  static constexpr std::size_t default_size = 16;

  /// Makes `size` streams. Throws `bad_argument` if `size` is 0 or the device does not exist, and
  /// `resource_failed` if CUDA refuses, or in a build without CUDA.
  explicit cuda_stream_pool(std::size_t size = default_size, int device = 0,
                            stream_kind kind = stream_kind::sync_default);
  cuda_stream_pool(cuda_stream_pool const&) = delete;
  cuda_stream_pool& operator=(cuda_stream_pool const&) = delete;
  /// Destroys the streams. CUDA completes their work first, without a wait here.
  ~cuda_stream_pool();

  /// The next stream.
  [[nodiscard]] cuda_stream stream() noexcept { return streams_[turns_.next()]; }
  /// The stream of number `id` modulo `size()`.
  [[nodiscard]] cuda_stream stream(std::size_t id) const noexcept {
    return streams_[id % streams_.size()];
  }
  [[nodiscard]] std::size_t size() const noexcept { return streams_.size(); }

 private:
  int device_;
  std::vector<cuda_stream> streams_;
  detail::round_robin turns_;
};

}  // namespace quarry::inline QUARRY_ABI
