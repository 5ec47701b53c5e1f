// SPDX-License-Identifier: Apache-2.0
// Pools as resources of RMM, for rmm::mr::set_current_device_resource, RMM's containers and its
// adaptors. Tested with RMM 26.10. Needs RMM's headers and the libraries that RMM links.
#pragma once

#include "quarry/host/interop/cuda_memory_resource.cuh"

#include <rmm/error.hpp>
#if __has_include(<rmm/process_is_exiting.hpp>)
#include <rmm/process_is_exiting.hpp>
#endif

namespace quarry::inline QUARRY_ABI {

/// Failures as users of RMM expect them. Exhausted memory is an `rmm::out_of_memory`, for which
/// RMM's failure_callback_resource_adaptor calls back. Every other failure, including a bad
/// alignment, is an `rmm::bad_alloc`. Each exception has Quarry's message.
struct rmm_failures {
  /// Returns the result of `work()`, which allocates memory. Translates what it throws.
  template <class Work>
  [[nodiscard]] static void* translate(bytes, Work const& work) {
    try {
      return work();
    } catch (out_of_memory const& failure) {
      throw rmm::out_of_memory{failure.message()};
    } catch (rmm::bad_alloc const&) {  // thrown by a source of RMM
      throw;
    } catch (std::exception const& failure) {
      throw rmm::bad_alloc{failure.what()};
    }
  }
#if __has_include(<rmm/process_is_exiting.hpp>)
  /// Whether `main` has returned. Then CUDA may be unloaded, and a resource that RMM still keeps
  /// must not call it.
  [[nodiscard]] static bool process_is_exiting() noexcept { return rmm::process_is_exiting(); }
#endif
};

/// A stream pool as a resource of RMM, which threads may share. Owns the pool together with its
/// copies. Its constructor takes the pool's arguments: resource, `cuda_streams` and options.
template <class Resource, class... Properties>
using rmm_memory_resource =
    shared_stream_memory<locked_stream_pool<Resource>, rmm_failures, Properties...>;
/// The same, but it refers to a pool that must outlive it.
template <class Resource, class... Properties>
using rmm_memory_resource_ref =
    stream_memory_ref<locked_stream_pool<Resource>, rmm_failures, Properties...>;

/// Resources for device memory, and for pinned and managed memory, which the host can access, too.
using rmm_device_memory = rmm_memory_resource<device_resource, ::cuda::mr::device_accessible>;
using rmm_pinned_memory = rmm_memory_resource<pinned_resource, ::cuda::mr::device_accessible,
                                              ::cuda::mr::host_accessible>;
using rmm_managed_memory = rmm_memory_resource<managed_resource, ::cuda::mr::device_accessible,
                                               ::cuda::mr::host_accessible>;

}  // namespace quarry::inline QUARRY_ABI
