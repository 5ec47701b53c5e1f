// SPDX-License-Identifier: Apache-2.0
// Pools as CCCL's memory resources (cuda::mr), for containers of CCCL and RMM and for code that
// uses their interfaces. Needs the headers of the CUDA toolkit; a host compiler suffices.
#pragma once

#include "quarry/host/pools/locked_stream_pool.hpp"

#ifndef LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#endif
#include <cuda/memory_resource>
#include <cuda/stream_ref>

#include <atomic>
#include <concepts>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace quarry::inline QUARRY_ABI {

#if CCCL_VERSION >= 3'002'000
/// The properties that `cuda::mr::any_resource` and `cuda::buffer` take if none are named.
template <class... Properties>
struct named_properties {
  using default_queries = ::cuda::mr::properties_list<Properties...>;
};
#else  // CCCL before 3.2 has no properties_list
template <class... Properties>
struct named_properties {};
#endif

/// A stream-ordered source of memory, which threads may share. Sizes are in bytes; alignments are
/// powers of two. `allocate_sync` returns memory that any stream may use at once. `deallocate_sync`
/// frees memory that no stream uses any more. Allocations throw as a `memory_resource` does.
template <class Source>
concept stream_memory_source =
    requires(Source& source, void* pointer, bytes size, bytes alignment, cuda_stream stream) {
      { source.allocate(size, alignment, stream) } -> std::same_as<void*>;
      { source.deallocate(pointer, size, alignment, stream) } noexcept;
      { source.allocate_sync(size, alignment) } -> std::same_as<void*>;
      { source.deallocate_sync(pointer, size, alignment) } noexcept;
    };

/// Failures as users of CCCL expect them. A bad alignment is a `std::invalid_argument`
/// (`bad_argument`), as with CCCL's own resources. Every other failure is a `std::bad_alloc`
/// (`out_of_memory`), including those that the driver reports.
struct cccl_failures {
  /// Returns the result of `work()`, which allocates `size` bytes. Translates what it throws.
  template <class Work>
  [[nodiscard]] static void* translate(bytes size, Work const& work) {
    try {
      return work();
    } catch (std::bad_alloc const&) {
      throw;
    } catch (std::invalid_argument const&) {
      throw;
    } catch (std::exception const& failure) {
      throw out_of_memory{"cuda_memory_resource", size, failure.what()};
    }
  }
};

// Files that are compiled with per-thread default streams, where `cudaStream_t{}` is the thread's
// own stream, get classes of their own. So files compiled either way can be linked together.
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
inline namespace per_thread_default_stream {
#else
inline namespace legacy_default_stream {
#endif

/// A `cuda::mr` resource over the source that `Holder` points to, a pointer or a `std::shared_ptr`.
/// It is both a stream-ordered and a synchronous resource. Two resources are equal if they have the
/// same source.
///
/// It has the names of CCCL 3.0 (`allocate_async`) and the names since 3.1 (`allocate` with the
/// stream first, `allocate_sync`). `Failures` decides what allocations throw (see `cccl_failures`).
/// `Properties` are CCCL's properties of the memory, for instance `cuda::mr::device_accessible`.
/// Threads may share it.
template <class Holder, class Failures, class... Properties>
class stream_memory : public named_properties<Properties...> {
 public:
  using owner = typename std::pointer_traits<Holder>::element_type;
  static_assert(stream_memory_source<owner>);
  static constexpr std::size_t default_alignment = 256;

  /// Allocates in stream order.
  [[nodiscard]] void* allocate(::cuda::stream_ref stream, std::size_t size,
                               std::size_t alignment = default_alignment) {
    return Failures::translate(
        size, [&] { return source_->allocate(size, alignment, named(stream.get())); });
  }
  void deallocate(::cuda::stream_ref stream, void* pointer, std::size_t size,
                  std::size_t alignment = default_alignment) noexcept {
    source_->deallocate(pointer, size, alignment, named(stream.get()));
  }
  /// Allocates memory that any stream may use at once. Waits until no earlier work uses it.
  [[nodiscard]] void* allocate_sync(std::size_t size, std::size_t alignment = default_alignment) {
    return Failures::translate(size, [&] { return source_->allocate_sync(size, alignment); });
  }
  /// Frees memory that no work uses any more.
  void deallocate_sync(void* pointer, std::size_t size,
                       std::size_t alignment = default_alignment) noexcept {
    source_->deallocate_sync(pointer, size, alignment);
  }

  // The same functions by the names of CCCL 3.0.
  [[nodiscard]] void* allocate_async(std::size_t size, std::size_t alignment,
                                     ::cuda::stream_ref stream) {
    return allocate(stream, size, alignment);
  }
  [[nodiscard]] void* allocate_async(std::size_t size, ::cuda::stream_ref stream) {
    return allocate(stream, size);
  }
  void deallocate_async(void* pointer, std::size_t size, std::size_t alignment,
                        ::cuda::stream_ref stream) noexcept {
    deallocate(stream, pointer, size, alignment);
  }
  void deallocate_async(void* pointer, std::size_t size, ::cuda::stream_ref stream) noexcept {
    deallocate(stream, pointer, size);
  }
  [[nodiscard]] void* allocate(std::size_t size, std::size_t alignment = default_alignment) {
    return allocate_sync(size, alignment);
  }
  void deallocate(void* pointer, std::size_t size,
                  std::size_t alignment = default_alignment) noexcept {
    deallocate_sync(pointer, size, alignment);
  }

  [[nodiscard]] owner& source() const { return *source_; }

  friend bool operator==(stream_memory const& a, stream_memory const& b) noexcept {
    return a.source_ == b.source_;
  }
  template <class Property>
    requires(std::is_same_v<Property, Properties> || ...)
  friend constexpr void get_property(stream_memory const&, Property) noexcept {}

 protected:
  explicit stream_memory(Holder source) : source_{std::move(source)} {}
  [[nodiscard]] Holder const& holder() const { return source_; }

 private:
  /// The stream as sources name it: to a source, the null stream is the legacy default stream.
  [[nodiscard]] static cuda_stream named(cuda_stream stream) {
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
    if (stream == nullptr) return cudaStreamPerThread;
#endif
    return stream;
  }

  Holder source_;
};

/// Refers to a source, which must outlive this object and its copies.
template <class Source, class Failures, class... Properties>
class stream_memory_ref : public stream_memory<Source*, Failures, Properties...> {
 public:
  stream_memory_ref(Source& source)  // NOLINT: implicit by intention
      : stream_memory<Source*, Failures, Properties...>{&source} {}
};

/// Shares a source with its copies. The last copy destroys the source. If `Failures` has
/// `process_is_exiting()` and that returns true, the source is not destroyed, because the libraries
/// that it calls may be unloaded already. A moved-from object may only be assigned and destroyed.
template <class Source, class Failures, class... Properties>
class shared_stream_memory
    : public stream_memory<std::shared_ptr<Source>, Failures, Properties...> {
  using base = stream_memory<std::shared_ptr<Source>, Failures, Properties...>;

 public:
  /// Constructs the source. Throws what its constructor throws.
  template <class... Arguments>
    requires(!std::derived_from<std::remove_cvref_t<Arguments>, base> && ...) &&
            std::constructible_from<Source, Arguments...>
  explicit shared_stream_memory(Arguments&&... arguments)
      : base{leaking(std::make_shared<Source>(std::forward<Arguments>(arguments)...))} {}
  /// Shares an existing source. Throws `bad_argument` if `source` is null.
  explicit shared_stream_memory(std::shared_ptr<Source> source)
      : base{leaking(checked(std::move(source)))} {}

  /// The source, for resources that share it with other properties or failures.
  [[nodiscard]] std::shared_ptr<Source> const& shared() const { return base::holder(); }

 private:
  static std::shared_ptr<Source> checked(std::shared_ptr<Source> source) {
    if (source == nullptr) throw bad_argument{"shared_stream_memory: the source is a null pointer"};
    return source;
  }
  /// A list of sources that are not destroyed. It keeps leak checkers from reporting them.
  struct left_source {
    std::shared_ptr<Source> source;
    left_source* next = nullptr;
  };
  static inline std::atomic<left_source*> left_{nullptr};

  /// A pointer to the same source that does not destroy it while the process is exiting.
  static std::shared_ptr<Source> leaking(std::shared_ptr<Source> source) {
    if constexpr (requires { Failures::process_is_exiting(); }) {
      auto* const owner = new left_source{std::move(source)};
      return {owner->source.get(), [owner](Source*) {
                if (Failures::process_is_exiting())
                  owner->next = left_.exchange(owner);
                else
                  delete owner;
              }};
    } else {
      return source;
    }
  }
};

}  // inline namespace, named after the default stream

/// A stream pool as a `cuda::mr` resource, which threads may share. Refers to a pool that must
/// outlive it.
template <class Resource, class... Properties>
using cuda_memory_resource =
    stream_memory_ref<locked_stream_pool<Resource>, cccl_failures, Properties...>;
/// The same, but it owns the pool together with its copies. Its constructor takes the pool's
/// arguments: resource, `cuda_streams` and options.
template <class Resource, class... Properties>
using shared_cuda_memory_resource =
    shared_stream_memory<locked_stream_pool<Resource>, cccl_failures, Properties...>;

/// Resources for device memory, and for pinned and managed memory, which the host can access, too.
using cuda_device_memory = cuda_memory_resource<device_resource, ::cuda::mr::device_accessible>;
using cuda_pinned_memory = cuda_memory_resource<pinned_resource, ::cuda::mr::device_accessible,
                                                ::cuda::mr::host_accessible>;
using cuda_managed_memory = cuda_memory_resource<managed_resource, ::cuda::mr::device_accessible,
                                                 ::cuda::mr::host_accessible>;
using shared_cuda_device_memory =
    shared_cuda_memory_resource<device_resource, ::cuda::mr::device_accessible>;
using shared_cuda_pinned_memory =
    shared_cuda_memory_resource<pinned_resource, ::cuda::mr::device_accessible,
                                ::cuda::mr::host_accessible>;
using shared_cuda_managed_memory =
    shared_cuda_memory_resource<managed_resource, ::cuda::mr::device_accessible,
                                ::cuda::mr::host_accessible>;

}  // namespace quarry::inline QUARRY_ABI
