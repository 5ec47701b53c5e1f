// SPDX-License-Identifier: Apache-2.0
// The calls that an adaptor passes to its upstream: without a stream, stream-ordered, or for any
// stream at once.
#pragma once

#include "quarry/core/bytes.hpp"

#include <concepts>

namespace quarry::inline QUARRY_ABI {

/// A resource or a pool whose calls take no stream.
template <class Resource>
concept takes_plain_calls =
    requires(Resource& resource, void* pointer, bytes size, bytes alignment) {
      resource.allocate(size, alignment);
      resource.deallocate(pointer, size, alignment);
    };
/// A stream-ordered source of memory, such as `locked_stream_pool` and `cuda_async_pool`.
template <class Resource, class Stream>
concept takes_stream_calls =
    requires(Resource& resource, void* pointer, bytes size, bytes alignment, Stream stream) {
      resource.allocate(size, alignment, stream);
      resource.deallocate(pointer, size, alignment, stream);
    };
/// A source of memory that any stream may use at once.
template <class Resource>
concept takes_sync_calls =
    requires(Resource& resource, void* pointer, bytes size, bytes alignment) {
      resource.allocate_sync(size, alignment);
      resource.deallocate_sync(pointer, size, alignment);
    };

namespace detail {

/// What a deallocation by `free` has returned: false if the upstream says so, as a pool does that
/// refuses a pointer; true also if the upstream says nothing.
template <class Free>
bool has_freed(Free const& free) noexcept {
  if constexpr (std::same_as<decltype(free()), bool>) {
    return free();
  } else {
    free();
    return true;
  }
}

}  // namespace detail

/// A call without a stream. `deallocate` returns false if the upstream says that it has refused the
/// pointer, and so do those of the other calls.
struct plain_call {
  template <class Upstream>
  [[nodiscard]] void* allocate(Upstream& upstream, bytes size, bytes alignment) const {
    return upstream.allocate(size, alignment);
  }
  template <class Upstream>
  bool deallocate(Upstream& upstream, void* pointer, bytes size, bytes alignment) const noexcept {
    return detail::has_freed([&] { return upstream.deallocate(pointer, size, alignment); });
  }
  /// The stream that a log shows.
  [[nodiscard]] static void const* handle() { return nullptr; }
};

/// A stream-ordered call in `stream`.
template <class Stream>
struct stream_call {
  Stream stream;

  template <class Upstream>
  [[nodiscard]] void* allocate(Upstream& upstream, bytes size, bytes alignment) const {
    return upstream.allocate(size, alignment, stream);
  }
  template <class Upstream>
  bool deallocate(Upstream& upstream, void* pointer, bytes size, bytes alignment) const noexcept {
    return detail::has_freed([&] { return upstream.deallocate(pointer, size, alignment, stream); });
  }
  [[nodiscard]] Stream handle() const { return stream; }
};

/// A call for any stream at once.
struct sync_call {
  template <class Upstream>
  [[nodiscard]] void* allocate(Upstream& upstream, bytes size, bytes alignment) const {
    return upstream.allocate_sync(size, alignment);
  }
  template <class Upstream>
  bool deallocate(Upstream& upstream, void* pointer, bytes size, bytes alignment) const noexcept {
    return detail::has_freed([&] { return upstream.deallocate_sync(pointer, size, alignment); });
  }
  [[nodiscard]] static void const* handle() { return nullptr; }
};

/// The public functions of an `Adaptor`: the same kinds of calls as its `Upstream` has.
///
/// `Adaptor` derives from this class and has two functions, which may be private if this class is a
/// friend: `allocate_by(call, size, alignment)` and, noexcept, `deallocate_by(call, pointer, size,
/// alignment)`. They call the upstream by the functions of `call`, which is a `plain_call`, a
/// `stream_call` or a `sync_call`.
///
/// `deallocate_by` returns what `call.deallocate` returns: false if the upstream has refused the
/// pointer. It also returns false if the adaptor itself refuses the pointer. If it returns nothing,
/// that counts as true. The public deallocations return this result to the adaptors above.
template <class Adaptor, class Upstream>
class resource_adaptor {
 public:
  [[nodiscard]] void* allocate(bytes size, bytes alignment)
    requires takes_plain_calls<Upstream>
  {
    return self().allocate_by(plain_call{}, size, alignment);
  }
  bool deallocate(void* pointer, bytes size, bytes alignment) noexcept
    requires takes_plain_calls<Upstream>
  {
    return deallocate_with(plain_call{}, pointer, size, alignment);
  }

  /// Allocates in stream order.
  template <class Stream>
    requires takes_stream_calls<Upstream, Stream>
  [[nodiscard]] void* allocate(bytes size, bytes alignment, Stream stream) {
    return self().allocate_by(stream_call<Stream>{stream}, size, alignment);
  }
  template <class Stream>
    requires takes_stream_calls<Upstream, Stream>
  bool deallocate(void* pointer, bytes size, bytes alignment, Stream stream) noexcept {
    return deallocate_with(stream_call<Stream>{stream}, pointer, size, alignment);
  }

  /// Allocates memory that any stream may use at once.
  [[nodiscard]] void* allocate_sync(bytes size, bytes alignment)
    requires takes_sync_calls<Upstream>
  {
    return self().allocate_by(sync_call{}, size, alignment);
  }
  /// Frees memory that no work uses any more.
  bool deallocate_sync(void* pointer, bytes size, bytes alignment) noexcept
    requires takes_sync_calls<Upstream>
  {
    return deallocate_with(sync_call{}, pointer, size, alignment);
  }

 private:
  friend Adaptor;  // only the adaptor may derive from this
  resource_adaptor() = default;
  [[nodiscard]] Adaptor& self() { return static_cast<Adaptor&>(*this); }
  template <class Call>
  bool deallocate_with(Call call, void* pointer, bytes size, bytes alignment) noexcept {
    return detail::has_freed([&] { return self().deallocate_by(call, pointer, size, alignment); });
  }
};

}  // namespace quarry::inline QUARRY_ABI
