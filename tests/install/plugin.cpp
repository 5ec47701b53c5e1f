// SPDX-License-Identifier: Apache-2.0
// A user's shared object that contains Quarry or is linked to it.
#include "plugin.hpp"

#include <quarry/host/c_api.h>
#include <quarry/host.hpp>

#include <algorithm>
#include <optional>

namespace {

using host_pool = quarry::pool<quarry::host_resource>;
std::optional<host_pool> pool;
void* memory = nullptr;
quarry_pool* handle_of_c = nullptr;

void* start(char const* name) {
  if (quarry_pool_create(QUARRY_HOST, nullptr, &handle_of_c) != QUARRY_OK) return nullptr;
  pool.emplace(quarry::host_resource{}, quarry::pool_options{.name = name});
  memory = pool->allocate(100);
  return memory;
}
unsigned id() { return pool->id(); }
unsigned owner_of(void const* address) {
  auto const found = quarry::registry::find(address);
  return found ? found->allocator : 0;
}
bool lists(unsigned id, char const* name) {
  auto const all = quarry::registry::allocators();
  return std::any_of(all.begin(), all.end(),
                     [&](auto const& entry) { return entry.id == id && entry.name == name; });
}
unsigned make_and_destroy() {
  host_pool another{quarry::host_resource{}};
  another.deallocate(another.allocate(100'000));
  return another.id();
}
bool catches() {
  try {
    quarry::file_resource const resource{"/nonexistent/directory"};
  } catch (quarry::error const& failure) {
    return !failure.message().empty();
  }
  return false;
}
void* start_named(char const* name) {
  return quarry::allocators::make(name, "pool(host)").allocate(100);
}
bool has_name(char const* name) { return quarry::allocators::contains(name); }
plugin_calls::answer free_by_address(void* address) {
  try {
    quarry::operations::deallocate(address);
    return plugin_calls::answer::is_freed;
  } catch (quarry::bad_argument const& failure) {
    bool const is_foreign =
        failure.message().find("another copy of this library") != std::string::npos;
    return is_foreign ? plugin_calls::answer::is_foreign : plugin_calls::answer::is_other;
  }
}
void stop_named(char const* name) {
  quarry::allocators::destroy(name, quarry::unfreed_memory::discard);
}
void* handle() { return handle_of_c; }
char const* use(void* handle) {
  auto* const source = static_cast<quarry_pool*>(handle);
  void* allocated = nullptr;
  bool const is_served = quarry_pool_allocate(source, 100, &allocated) == QUARRY_OK &&
                         quarry_pool_label(source, allocated, "named") == QUARRY_OK &&
                         quarry_pool_deallocate(source, allocated) == QUARRY_OK;
  return is_served ? nullptr : quarry_last_error();
}
void const* copy() { return reinterpret_cast<void const*>(&quarry_pool_create); }
void stop() {
  quarry_pool_destroy(handle_of_c);
  pool->deallocate(memory);
  pool.reset();
}

}  // namespace

plugin_calls const* plugin() {
  static plugin_calls const calls{
      start,       id,       owner_of,        lists,      make_and_destroy, catches,
      start_named, has_name, free_by_address, stop_named, handle,           use,
      copy,        stop};
  return &calls;
}
