// SPDX-License-Identifier: Apache-2.0
// A shared object of a user, with Quarry in it or linked to it.
#include "plugin.hpp"

#include <quarry/host.hpp>

#include <algorithm>
#include <optional>

namespace {

using host_pool = quarry::pool<quarry::host_resource>;
std::optional<host_pool> pool;
void* memory = nullptr;

void* start(char const* name) {
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
                     [&](auto const& each) { return each.id == id && each.name == name; });
}
unsigned make_and_destroy() {
  host_pool another{quarry::host_resource{}};
  another.deallocate(another.allocate(100'000));
  return another.id();
}
bool catches() {
  try {
    quarry::file_resource const refused{"/nonexistent/directory"};
  } catch (quarry::error const& what) {
    return !what.message().empty();
  }
  return false;
}
void stop() {
  pool->deallocate(memory);
  pool.reset();
}

}  // namespace

plugin_calls const* plugin() {
  static constexpr plugin_calls calls{start, id, owner_of, lists, make_and_destroy, catches, stop};
  return &calls;
}
