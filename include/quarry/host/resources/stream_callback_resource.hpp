// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/detail/callback_memory.hpp"
#include "quarry/host/registry/memory_location.hpp"
#include "quarry/host/resources/cuda_resources.hpp"
#include "quarry/host/resources/resource.hpp"

#include <functional>
#include <optional>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// Stream-ordered memory that functions of the user allocate and free. Use it where a
/// stream-ordered source is expected, such as in `shared_stream_memory`, or below adaptors.
///
/// The functions get the stream of the call. nullopt stands for `allocate_sync`, whose memory any
/// stream may use at once, and for `deallocate_sync`, whose memory no stream uses any more.
/// `allocate` returns nullptr if it has no memory; its exceptions propagate. `deallocate` must not
/// throw. Threads may share this resource if they may share the functions.
///
/// `location` states where the memory lies, as for a `callback_resource`.
class stream_callback_resource {
 public:
  using stream_of_call = std::optional<cuda_stream>;
  using allocate_function =
      std::function<void*(bytes size, bytes alignment, stream_of_call stream)>;
  using deallocate_function =
      std::function<void(void* pointer, bytes size, bytes alignment, stream_of_call stream)>;

  /// Throws `bad_argument` if a function is empty.
  stream_callback_resource(allocate_function allocate, deallocate_function deallocate,
                           memory_location location)
      : allocate_{std::move(allocate)}, deallocate_{std::move(deallocate)}, location_{location} {
    if (!allocate_ || !deallocate_)
      throw bad_argument{
          "stream_callback_resource: the allocating or the freeing function is empty"};
  }

  [[nodiscard]] void* allocate(bytes size, bytes alignment, cuda_stream stream) {
    return allocate_by(size, alignment, stream);
  }
  void deallocate(void* pointer, bytes size, bytes alignment, cuda_stream stream) noexcept {
    deallocate_(pointer, size, alignment, stream);
  }
  [[nodiscard]] void* allocate_sync(bytes size, bytes alignment) {
    return allocate_by(size, alignment, std::nullopt);
  }
  void deallocate_sync(void* pointer, bytes size, bytes alignment) noexcept {
    deallocate_(pointer, size, alignment, std::nullopt);
  }
  [[nodiscard]] memory_location location() const { return location_; }

 private:
  [[nodiscard]] void* allocate_by(bytes size, bytes alignment, stream_of_call stream) {
    check_power_of_two("stream_callback_resource", alignment);
    void* const memory = allocate_(size, alignment, stream);
    return detail::checked_callback_memory("stream_callback_resource", memory, size, alignment,
                                           location_,
                                           [&] { deallocate_(memory, size, alignment, stream); });
  }

  allocate_function allocate_;
  deallocate_function deallocate_;
  memory_location location_;
};

}  // namespace quarry::inline QUARRY_ABI
