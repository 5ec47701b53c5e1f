// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/pools/placement.hpp"
#include "quarry/host/registry/memory_location.hpp"
#include "quarry/host/resources/resource.hpp"
#include "quarry/host/resources/resource_adaptor.hpp"
#include "quarry/trace/recorder.hpp"

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace quarry::inline QUARRY_ABI::trace {

/// The kind of calls that a `recorded_resource` records.
enum class recorded_role : std::uint8_t {
  allocator,  ///< a program's allocations: allocate, deallocate, fail
  upstream,   ///< the blocks that a pool takes from its resource: reserve, unreserve
};

/// A resource that reports the granted bytes of an allocation, such as `pool`.
template <class Resource>
concept tells_granted_size = requires(Resource const& resource, void const* pointer) {
  { resource.sizes_of(pointer) } -> std::same_as<std::optional<chunk_sizes>>;
};
/// A resource that reports its free bytes, such as `pool`.
template <class Resource>
concept tells_free_bytes = requires(Resource const& resource) {
  { resource.counts().reserved } -> std::convertible_to<bytes>;
  { resource.counts().granted } -> std::convertible_to<bytes>;
};

/// Records each allocation and deallocation of its upstream in a trace. Several resources may share
/// a recorder.
///
/// The upstream is a resource, a pool, or a stream-ordered source, such as `locked_stream_pool` and
/// `cuda_async_pool`. With such a source each call also takes the stream. An allocation is recorded
/// after the call, and a deallocation before the call, so the trace never shows an address as
/// allocated twice. A deallocation that the upstream then refuses is recorded, too.
/// As thread-safe as the upstream. Throws what the upstream throws.
///
/// A pool and its upstream can share a recorder and a name. A pool cannot be moved, so the resource
/// constructs it:
///
///   using blocks = recorded_resource<host_resource>;
///   recorded_resource<pool<blocks>> arrays{
///       recorder, "arrays", recorded_role::allocator, std::in_place,
///       blocks{host_resource{}, recorder, "arrays", recorded_role::upstream}};
///
/// A failure of the upstream is not recorded: the pool may find other memory. If the pool finds
/// none, its own failure is recorded.
///
/// Cost. With a null recorder, one branch for each call. Otherwise the cost of `recorder`, and of
/// the upstream's lookup of the granted size. A program without this class executes no other
/// instructions.
template <class Upstream>
class recorded_resource : public resource_adaptor<recorded_resource<Upstream>, Upstream> {
 public:
  using recorder_pointer = std::shared_ptr<recorder>;

  /// Records under the allocator's `name`. A null `target` switches recording off.
  recorded_resource(Upstream upstream, recorder_pointer target, std::string_view name,
                    recorded_role role = recorded_role::allocator)
      : upstream_{std::move(upstream)}, recorder_{std::move(target)}, role_{role} {
    set_allocator(name);
  }
  /// Constructs the upstream from `arguments`: for an upstream that cannot be moved.
  template <class... Arguments>
    requires std::constructible_from<Upstream, Arguments...>
  recorded_resource(recorder_pointer target, std::string_view name, recorded_role role,
                    std::in_place_t, Arguments&&... arguments)
      : upstream_(std::forward<Arguments>(arguments)...),
        recorder_{std::move(target)},
        role_{role} {
    set_allocator(name);
  }

  [[nodiscard]] Upstream& upstream() { return upstream_; }
  /// Null if recording is off.
  [[nodiscard]] recorder_pointer const& target() const { return recorder_; }

 private:
  friend resource_adaptor<recorded_resource, Upstream>;

  void set_allocator(std::string_view name) {
    if (recorder_ != nullptr) allocator_ = recorder_->allocator(name);
  }
  [[nodiscard]] bytes granted_size_of([[maybe_unused]] void const* pointer) const {
    if constexpr (tells_granted_size<Upstream>) {
      auto const found = upstream_.sizes_of(pointer);
      return found ? found->granted : 0;
    }
    return 0;
  }
  [[nodiscard]] bytes free_bytes() const {
    if constexpr (tells_free_bytes<Upstream>) {
      auto const counts = upstream_.counts();
      return counts.reserved - counts.granted;
    }
    return 0;
  }

  template <class Call>
  [[nodiscard]] void* allocate_by(Call call, bytes size, bytes alignment) {
    if (recorder_ == nullptr) return call.allocate(upstream_, size, alignment);
    return allocate_recorded(call, size, alignment);
  }
  template <class Call>
  bool deallocate_by(Call call, void* pointer, bytes size, bytes alignment) noexcept {
    if (recorder_ != nullptr && pointer != nullptr)
      record(role_ == recorded_role::allocator ? event_kind::deallocate : event_kind::unreserve,
             pointer, size, 0, call);
    return call.deallocate(upstream_, pointer, size, alignment);
  }

  template <class Call>
  [[nodiscard]] void* allocate_recorded(Call call, bytes size, bytes alignment) {
    void* result = nullptr;
    try {
      result = call.allocate(upstream_, size, alignment);
    } catch (...) {
      if (role_ == recorded_role::allocator)
        record(event_kind::fail, nullptr, size, free_bytes(), call);
      throw;
    }
    record(role_ == recorded_role::allocator ? event_kind::allocate : event_kind::reserve, result,
           size, granted_size_of(result), call);
    return result;
  }
  template <class Call>
  void record(event_kind kind, void const* pointer, bytes size, bytes granted, Call call) noexcept {
    recorder_->record({.address = reinterpret_cast<std::uintptr_t>(pointer),
                       .size = size,
                       .granted = granted,
                       .stream = recorder_->stream(call.handle()),
                       .allocator = allocator_,
                       .kind = kind});
  }

  Upstream upstream_;
  recorder_pointer recorder_;
  std::uint32_t allocator_ = 0;
  recorded_role role_;
};

template <class Upstream>
recorded_resource(Upstream, std::shared_ptr<recorder>, std::string_view,
                  recorded_role = recorded_role::allocator) -> recorded_resource<Upstream>;

}  // namespace quarry::inline QUARRY_ABI::trace
