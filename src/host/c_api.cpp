// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/c_api.h"

#include "host/c_options.hpp"
#include "host/c_status.hpp"
#include "quarry/host/pools/pool.hpp"
#include "quarry/host/registry/operations.hpp"
#include "quarry/host/resources/cuda_resources.hpp"
#include "quarry/host/resources/file_resource.hpp"
#include "quarry/host/resources/host_resource.hpp"

#include <fstream>
#include <iostream>
#include <memory>
#include <optional>

namespace quarry::inline QUARRY_ABI::c_api {

/// A pool over any resource. Guarded by: the mutex of its handle's slot.
struct any_pool {
  static constexpr auto kind = handle_kind::pool;
  using use = exclusive_use;

  virtual ~any_pool() = default;
  virtual void* allocate(bytes size) = 0;
  virtual bool deallocate(void* memory) = 0;
  virtual void release() = 0;
  [[nodiscard]] virtual std::optional<bytes> size_of(void const* memory) const = 0;
  [[nodiscard]] virtual pool_counts counts() const = 0;
  virtual bool label(void* memory, char const* name) = 0;
  [[nodiscard]] virtual allocator_id id() const = 0;
};

template <>
struct handle_object<quarry_pool> {
  using type = any_pool;
};

}  // namespace quarry::inline QUARRY_ABI::c_api

namespace quarry::inline QUARRY_ABI {
namespace {

using c_api::any_pool;

static_assert(static_cast<int>(memory_kind::host) == QUARRY_HOST &&
              static_cast<int>(memory_kind::device) == QUARRY_DEVICE &&
              static_cast<int>(memory_kind::pinned) == QUARRY_PINNED &&
              static_cast<int>(memory_kind::managed) == QUARRY_MANAGED &&
              static_cast<int>(memory_kind::file) == QUARRY_FILE &&
              static_cast<int>(memory_kind::shared) == QUARRY_SHARED);

template <class Resource>
class pool_over final : public any_pool {
 public:
  pool_over(Resource resource, pool_options const& options) : pool_{std::move(resource), options} {}

  void* allocate(bytes size) override { return pool_.allocate(size); }
  bool deallocate(void* memory) override { return pool_.deallocate(memory); }
  void release() override { pool_.release(); }
  [[nodiscard]] std::optional<bytes> size_of(void const* memory) const override {
    return pool_.size_of(memory);
  }
  [[nodiscard]] pool_counts counts() const override { return pool_.counts(); }
  bool label(void* memory, char const* name) override { return pool_.label(memory, name, {}); }
  [[nodiscard]] allocator_id id() const override { return pool_.id(); }

 private:
  pool<Resource> pool_;
};

template <class Resource>
std::unique_ptr<any_pool> make(Resource resource, pool_options const& options) {
  return std::make_unique<pool_over<Resource>>(std::move(resource), options);
}

std::unique_ptr<any_pool> make(uint32_t resource, quarry_pool_options const& wanted) {
  pool_options const usual;
  pool_options const options{
      .first_block = wanted.first_block,
      .next_block = wanted.next_block,
      .growth_percent = wanted.growth_percent,
      .alignment = wanted.alignment != 0 ? wanted.alignment : usual.alignment,
      .max_bytes = wanted.max_bytes != 0 ? wanted.max_bytes : usual.max_bytes,
      .name = wanted.name != nullptr ? wanted.name : "",
      .red_zone = wanted.red_zone,
      .keeps_backtraces = wanted.keeps_backtraces != 0};
  switch (resource) {
    case QUARRY_HOST:
      return make(host_resource{}, options);
    case QUARRY_DEVICE:
      return make(device_resource{wanted.device}, options);
    case QUARRY_PINNED:
      return make(pinned_resource{}, options);
    case QUARRY_MANAGED:
      return make(managed_resource{}, options);
    case QUARRY_FILE:
      if (wanted.directory == nullptr)
        throw bad_argument{"quarry_pool_create: QUARRY_FILE needs options with a directory"};
      return make(file_resource{wanted.directory}, options);
    case QUARRY_SHARED:
      throw bad_argument{"quarry_pool_create: QUARRY_SHARED has no pools; use quarry_segment_open"};
  }
  throw bad_argument{"quarry_pool_create: there is no resource " + std::to_string(resource)};
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI

using quarry::c_api::add_handle;
using quarry::c_api::any_pool;
using quarry::c_api::destroy;
using quarry::c_api::fail;
using quarry::c_api::guarded;
using quarry::c_api::with;

quarry_status quarry_pool_fill_options(quarry_pool_options* options, uint64_t size) {
  return guarded([&] {
    quarry::c_api::fill_sized("quarry_pool_fill_options", options, size, quarry::c_api::min_options,
                              quarry::c_api::default_options());
    return QUARRY_OK;
  });
}

quarry_status quarry_pool_create(uint32_t resource, quarry_pool_options const* options,
                                 quarry_pool** pool) {
  if (pool != nullptr) *pool = nullptr;
  return guarded([&] {
    if (pool == nullptr)
      throw quarry::bad_argument{"quarry_pool_create: where the result goes is null"};
    *pool = add_handle<quarry_pool>(
        quarry::make(resource, quarry::c_api::read_options("quarry_pool_create", options)));
    return QUARRY_OK;
  });
}

quarry_status quarry_pool_destroy(quarry_pool* pool) {
  return destroy(pool, "quarry_pool_destroy");
}

quarry_status quarry_pool_allocate(quarry_pool* pool, uint64_t size, void** memory) {
  if (memory != nullptr) *memory = nullptr;
  return with(pool, "quarry_pool_allocate", memory != nullptr, [&](any_pool& target) {
    *memory = target.allocate(size);
    return QUARRY_OK;
  });
}

quarry_status quarry_pool_deallocate(quarry_pool* pool, void* memory) {
  return with(pool, "quarry_pool_deallocate", true, [&](any_pool& target) {
    if (target.deallocate(memory)) return QUARRY_OK;
    return fail(QUARRY_NOT_IN_USE,
                "quarry_pool_deallocate: the address is not in use in this pool");
  });
}

quarry_status quarry_pool_release(quarry_pool* pool) {
  return with(pool, "quarry_pool_release", true, [&](any_pool& target) {
    target.release();
    return QUARRY_OK;
  });
}

quarry_status quarry_pool_size_of(quarry_pool* pool, void const* memory, uint64_t* size) {
  return with(pool, "quarry_pool_size_of", size != nullptr, [&](any_pool& target) {
    auto const found = target.size_of(memory);
    if (!found)
      return fail(QUARRY_NOT_IN_USE, "quarry_pool_size_of: the address is not in use in this pool");
    *size = *found;
    return QUARRY_OK;
  });
}

quarry_status quarry_pool_get_counts(quarry_pool* pool, quarry_pool_counts* counts) {
  return with(pool, "quarry_pool_get_counts", counts != nullptr, [&](any_pool& target) {
    auto const found = target.counts();
    *counts = {found.reserved,        found.peak_reserved,      found.allocated,
               found.peak_allocated,  found.allocations_in_use, found.blocks_allocated,
               found.blocks_returned, found.invalid_frees};
    return QUARRY_OK;
  });
}

quarry_status quarry_pool_get_overruns(quarry_pool* pool, uint64_t* overruns) {
  return with(pool, "quarry_pool_get_overruns", overruns != nullptr, [&](any_pool& target) {
    *overruns = target.counts().overruns;
    return QUARRY_OK;
  });
}

quarry_status quarry_pool_label(quarry_pool* pool, void* memory, char const* name) {
  return with(pool, "quarry_pool_label", true, [&](any_pool& target) {
    if (name == nullptr) throw quarry::bad_argument{"quarry_pool_label: the name is null"};
    if (target.label(memory, name)) return QUARRY_OK;
    return fail(QUARRY_NOT_IN_USE, "quarry_pool_label: the address is not in use in this pool");
  });
}

quarry_status quarry_pool_id(quarry_pool* pool, uint32_t* id) {
  return with(pool, "quarry_pool_id", id != nullptr, [&](any_pool& target) {
    *id = target.id();
    return QUARRY_OK;
  });
}

quarry_status quarry_find(void const* address, quarry_record* record) {
  return guarded([&] {
    if (record == nullptr) throw quarry::bad_argument{"quarry_find: where the result goes is null"};
    auto const found = quarry::registry::find(address);
    if (!found) return fail(QUARRY_NOT_IN_USE, "quarry_find: the address is in no allocation");
    *record = {found->allocator, static_cast<uint32_t>(found->location.kind),
               found->location.device, found->base, found->size};
    return QUARRY_OK;
  });
}

quarry_status quarry_copy(void* target, void const* source, uint64_t size) {
  return guarded([&] {
    quarry::operations::copy(target, source, size);
    return QUARRY_OK;
  });
}

quarry_status quarry_fill(void* memory, int value, uint64_t size) {
  return guarded([&] {
    if (value < 0 || value > 255)
      throw quarry::bad_argument{"quarry_fill: " + std::to_string(value) + " is no byte"};
    quarry::operations::fill(memory, static_cast<unsigned char>(value), size);
    return QUARRY_OK;
  });
}

quarry_status quarry_report(char const* path) {
  return guarded([&] {
    if (path == nullptr) {
      quarry::registry::report(std::cerr);
      return QUARRY_OK;
    }
    std::ofstream out{path};
    quarry::registry::report(out);
    if (!out.flush())
      throw quarry::resource_failed{"quarry_report", std::string{"cannot write to "} + path};
    return QUARRY_OK;
  });
}

uint32_t quarry_version(void) { return QUARRY_VERSION; }
char const* quarry_version_text(void) { return QUARRY_VERSION_TEXT; }
