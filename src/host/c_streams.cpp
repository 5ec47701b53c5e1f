// SPDX-License-Identifier: Apache-2.0
#include "c_status.hpp"
#include "quarry/host/cuda_resources.hpp"
#include "quarry/host/cuda_streams.hpp"
#include "quarry/host/stream_pool.hpp"

#include <algorithm>
#include <memory>

using quarry::c_api::fail;
using quarry::c_api::guarded;
using quarry::c_api::with;

/// Guarded by: `mutex`.
struct quarry_stream_pool {
  static constexpr char const* noun = "pool";

  quarry_stream_pool(int device, quarry::stream_pool_options const& options)
      : pool{quarry::device_resource{device}, quarry::cuda_streams{device}, options} {}

  quarry::stream_pool<quarry::device_resource, quarry::cuda_streams> pool;
  std::mutex mutex;
};

namespace {

quarry::cuda_stream stream_of(void* stream) { return static_cast<quarry::cuda_stream>(stream); }

}  // namespace

quarry_status quarry_stream_pool_create(quarry_pool_options const* options,
                                        quarry_stream_pool** pool) {
  if (pool != nullptr) *pool = nullptr;
  return guarded([&] {
    if (pool == nullptr)
      throw quarry::bad_argument{"quarry_stream_pool_create: where the result goes is null"};
    quarry_pool_options wanted = quarry_pool_default_options();
    if (options != nullptr) wanted = *options;
    quarry::stream_pool_options const usual;
    quarry::stream_pool_options const all{
        .first_block = wanted.first_block,
        .next_block = wanted.next_block,
        .growth = wanted.growth_percent,
        .alignment = std::max<quarry::bytes>(wanted.alignment, usual.alignment),
        .most = wanted.most != 0 ? wanted.most : usual.most,
        .name = wanted.name != nullptr ? wanted.name : ""};
    *pool = std::make_unique<quarry_stream_pool>(wanted.device, all).release();
    return QUARRY_OK;
  });
}

void quarry_stream_pool_destroy(quarry_stream_pool* pool) { delete pool; }

quarry_status quarry_stream_pool_allocate(quarry_stream_pool* pool, uint64_t size, void* stream,
                                          void** memory) {
  if (memory != nullptr) *memory = nullptr;
  return with(pool, "quarry_stream_pool_allocate", memory != nullptr, [&] {
    *memory = pool->pool.allocate(size, stream_of(stream));
    return QUARRY_OK;
  });
}

quarry_status quarry_stream_pool_deallocate(quarry_stream_pool* pool, void* memory, void* stream) {
  return with(pool, "quarry_stream_pool_deallocate", true, [&] {
    if (pool->pool.deallocate(memory, stream_of(stream))) return QUARRY_OK;
    return fail(QUARRY_NOT_IN_USE,
                "quarry_stream_pool_deallocate: the address is not in use in this pool");
  });
}

quarry_status quarry_stream_pool_share(quarry_stream_pool* pool, void* stream) {
  return with(pool, "quarry_stream_pool_share", true, [&] {
    pool->pool.share(stream_of(stream));
    return QUARRY_OK;
  });
}

quarry_status quarry_stream_pool_forget(quarry_stream_pool* pool, void* stream) {
  return with(pool, "quarry_stream_pool_forget", true, [&] {
    pool->pool.forget(stream_of(stream));
    return QUARRY_OK;
  });
}

quarry_status quarry_stream_pool_release(quarry_stream_pool* pool) {
  return with(pool, "quarry_stream_pool_release", true, [&] {
    pool->pool.release();
    return QUARRY_OK;
  });
}

quarry_status quarry_stream_pool_get_counts(quarry_stream_pool* pool, quarry_pool_counts* counts) {
  return with(pool, "quarry_stream_pool_get_counts", counts != nullptr, [&] {
    auto const all = pool->pool.counts();
    *counts = {all.held,        all.most_held,    all.live,         all.most_live,
               all.pieces_live, all.blocks_taken, all.blocks_given, all.refused};
    return QUARRY_OK;
  });
}
