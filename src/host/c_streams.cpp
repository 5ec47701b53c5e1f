// SPDX-License-Identifier: Apache-2.0
#include "host/c_options.hpp"
#include "host/c_status.hpp"
#include "quarry/host/pools/cuda_streams.hpp"
#include "quarry/host/pools/stream_pool.hpp"
#include "quarry/host/resources/cuda_resources.hpp"

#include <algorithm>
#include <memory>

namespace quarry::inline QUARRY_ABI::c_api {

/// A stream pool. Guarded by: the mutex of its handle's slot.
struct device_stream_pool : stream_pool<device_resource, cuda_streams> {
  static constexpr auto kind = handle_kind::stream_pool;
  using use = exclusive_use;
  using stream_pool::stream_pool;
};

template <>
struct handle_object<quarry_stream_pool> {
  using type = device_stream_pool;
};

}  // namespace quarry::inline QUARRY_ABI::c_api

using quarry::c_api::add_handle;
using quarry::c_api::destroy;
using quarry::c_api::device_stream_pool;
using quarry::c_api::fail;
using quarry::c_api::guarded;
using quarry::c_api::with;

namespace {

quarry::cuda_stream stream_of(void* stream) { return static_cast<quarry::cuda_stream>(stream); }

}  // namespace

quarry_status quarry_stream_pool_create(quarry_pool_options const* options,
                                        quarry_stream_pool** pool) {
  if (pool != nullptr) *pool = nullptr;
  return guarded([&] {
    if (pool == nullptr)
      throw quarry::bad_argument{"quarry_stream_pool_create: where the result goes is null"};
    auto const wanted = quarry::c_api::read_options("quarry_stream_pool_create", options);
    if (wanted.red_zone != 0 || wanted.keeps_backtraces != 0)
      throw quarry::bad_argument{
          "quarry_stream_pool_create: stream pools have no red zones and no backtraces"};
    quarry::stream_pool_options const usual;
    quarry::stream_pool_options const stream_options{
        .first_block = wanted.first_block,
        .next_block = wanted.next_block,
        .growth_percent = wanted.growth_percent,
        .alignment = std::max<quarry::bytes>(wanted.alignment, usual.alignment),
        .max_bytes = wanted.max_bytes != 0 ? wanted.max_bytes : usual.max_bytes,
        .name = wanted.name != nullptr ? wanted.name : ""};
    *pool = add_handle<quarry_stream_pool>(
        std::make_unique<device_stream_pool>(quarry::device_resource{wanted.device},
                                             quarry::cuda_streams{wanted.device}, stream_options));
    return QUARRY_OK;
  });
}

quarry_status quarry_stream_pool_destroy(quarry_stream_pool* pool) {
  return destroy(pool, "quarry_stream_pool_destroy");
}

quarry_status quarry_stream_pool_allocate(quarry_stream_pool* pool, uint64_t size, void* stream,
                                          void** memory) {
  if (memory != nullptr) *memory = nullptr;
  return with(pool, "quarry_stream_pool_allocate", memory != nullptr,
              [&](device_stream_pool& target) {
                *memory = target.allocate(size, stream_of(stream));
                return QUARRY_OK;
              });
}

quarry_status quarry_stream_pool_deallocate(quarry_stream_pool* pool, void* memory, void* stream) {
  return with(pool, "quarry_stream_pool_deallocate", true, [&](device_stream_pool& target) {
    if (target.deallocate(memory, stream_of(stream))) return QUARRY_OK;
    return fail(QUARRY_NOT_IN_USE,
                "quarry_stream_pool_deallocate: the address is not in use in this pool");
  });
}

quarry_status quarry_stream_pool_share(quarry_stream_pool* pool, void* stream) {
  return with(pool, "quarry_stream_pool_share", true, [&](device_stream_pool& target) {
    target.share(stream_of(stream));
    return QUARRY_OK;
  });
}

quarry_status quarry_stream_pool_forget(quarry_stream_pool* pool, void* stream) {
  return with(pool, "quarry_stream_pool_forget", true, [&](device_stream_pool& target) {
    target.forget(stream_of(stream));
    return QUARRY_OK;
  });
}

quarry_status quarry_stream_pool_release(quarry_stream_pool* pool) {
  return with(pool, "quarry_stream_pool_release", true, [&](device_stream_pool& target) {
    target.release();
    return QUARRY_OK;
  });
}

quarry_status quarry_stream_pool_get_counts(quarry_stream_pool* pool, quarry_pool_counts* counts) {
  return with(pool, "quarry_stream_pool_get_counts", counts != nullptr,
              [&](device_stream_pool& target) {
                auto const found = target.counts();
                *counts = {found.reserved,        found.peak_reserved,      found.allocated,
                           found.peak_allocated,  found.allocations_in_use, found.blocks_allocated,
                           found.blocks_returned, found.invalid_frees};
                return QUARRY_OK;
              });
}
