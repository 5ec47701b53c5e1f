// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/registry/memory_location.hpp"
#include "quarry/host/resources/allocation_log.hpp"
#include "quarry/host/resources/resource.hpp"
#include "quarry/host/resources/resource_adaptor.hpp"

#include <concepts>
#include <memory>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// Writes a line for each allocation and deallocation, in RMM's format (allocation_log). Several
/// resources may share a log.
///
/// The upstream is a resource, a pool, or a stream-ordered source, such as `locked_stream_pool` and
/// `cuda_async_pool`. With such a source each call takes the stream, too. In the log, no address is
/// allocated again before it is freed: an allocation is logged after the call, and a deallocation
/// before the call. The exception is a log that a pool and its own upstream share, because the
/// first allocation in a block has the block's address. A deallocation that the upstream then
/// refuses is in the log, too. Throws what the upstream throws.
template <class Upstream>
class logged_resource : public resource_adaptor<logged_resource<Upstream>, Upstream> {
 public:
  using log_pointer = std::shared_ptr<allocation_log>;

  /// Throws `bad_argument` if `log` is null.
  logged_resource(Upstream upstream, log_pointer log)
      : upstream_{std::move(upstream)}, log_{checked(std::move(log))} {}
  /// Constructs the upstream from `arguments`: for an upstream that cannot be moved.
  template <class... Arguments>
    requires std::constructible_from<Upstream, Arguments...>
  explicit logged_resource(log_pointer log, std::in_place_t, Arguments&&... arguments)
      : upstream_(std::forward<Arguments>(arguments)...), log_{checked(std::move(log))} {}

  [[nodiscard]] Upstream& upstream() { return upstream_; }
  [[nodiscard]] allocation_log& log() { return *log_; }

 private:
  friend resource_adaptor<logged_resource, Upstream>;
  using action = allocation_log::action;

  [[nodiscard]] static log_pointer checked(log_pointer log) {
    if (log == nullptr) throw bad_argument{"logged_resource: the log is a null pointer"};
    return log;
  }
  template <class Call>
  [[nodiscard]] void* allocate_by(Call call, bytes size, bytes alignment) {
    try {
      void* const result = call.allocate(upstream_, size, alignment);
      log_->write(action::allocate, result, size, call.handle());
      return result;
    } catch (...) {
      log_->write(action::allocate_failure, nullptr, size, call.handle());
      throw;
    }
  }
  template <class Call>
  bool deallocate_by(Call call, void* pointer, bytes size, bytes alignment) noexcept {
    log_->write(action::free, pointer, size, call.handle());
    return call.deallocate(upstream_, pointer, size, alignment);
  }

  Upstream upstream_;
  log_pointer log_;
};

template <class Upstream>
logged_resource(Upstream, std::shared_ptr<allocation_log>) -> logged_resource<Upstream>;

}  // namespace quarry::inline QUARRY_ABI
