// SPDX-License-Identifier: Apache-2.0
// Pools as resources of RMM, tested with 26.10: for rmm::mr::set_current_device_resource, RMM's
// containers and its adaptors. Needs RMM's headers, and links what RMM links.
#pragma once

#include "quarry/host/resources/cuda_memory_resource.cuh"

#include <rmm/error.hpp>
#if __has_include(<rmm/process_is_exiting.hpp>)
#include <rmm/process_is_exiting.hpp>
#endif

namespace quarry::inline QUARRY_ABI {

/// Failures as users of RMM expect them: that there is no memory is an `rmm::out_of_memory`, for
/// which RMM's failure_callback_resource_adaptor calls back; all else, bad alignments included, is
/// an `rmm::bad_alloc`. Each has Quarry's message.
struct rmm_failures {
  /// The result of `work()`, which allocates memory; or throws what stands above.
  template <class Work>
  [[nodiscard]] static void* translate(bytes, Work const& work) {
    try {
      return work();
    } catch (out_of_memory const& failure) {
      throw rmm::out_of_memory{failure.message()};
    } catch (rmm::bad_alloc const&) {  // of a source that is RMM's
      throw;
    } catch (std::exception const& failure) {
      throw rmm::bad_alloc{failure.what()};
    }
  }
#if __has_include(<rmm/process_is_exiting.hpp>)
  /// After `main` CUDA may be gone: a resource that RMM keeps until then calls it no more.
  [[nodiscard]] static bool process_is_exiting() noexcept { return rmm::process_is_exiting(); }
#endif
};

/// A stream pool that threads may share, as a resource of RMM. Owns the pool together with its
/// copies. Made with the pool's arguments: resource, `cuda_streams` and options.
template <class Resource, class... Properties>
using rmm_memory_resource =
    shared_stream_memory<locked_stream_pool<Resource>, rmm_failures, Properties...>;
/// The same, which refers to its `owner`, which outlives it.
template <class Resource, class... Properties>
using rmm_memory_resource_ref =
    stream_memory_ref<locked_stream_pool<Resource>, rmm_failures, Properties...>;

/// Of a GPU's memory; of pinned and managed memory, which the host sees, too.
using rmm_device_memory = rmm_memory_resource<device_resource, ::cuda::mr::device_accessible>;
using rmm_pinned_memory = rmm_memory_resource<pinned_resource, ::cuda::mr::device_accessible,
                                              ::cuda::mr::host_accessible>;
using rmm_managed_memory = rmm_memory_resource<managed_resource, ::cuda::mr::device_accessible,
                                               ::cuda::mr::host_accessible>;

}  // namespace quarry::inline QUARRY_ABI
