// SPDX-License-Identifier: Apache-2.0
// What load_plugins.cpp asks of a plugin. It names no type of Quarry: the program may have none.
#pragma once

struct plugin_calls {
  /// Makes the plugin's pool with this name, and allocates 100 bytes of it. Returns their address.
  void* (*start)(char const* name);
  /// Returns the id of that pool.
  unsigned (*id)();
  /// Returns the id of the pool that has `address`, 0 if the plugin's Quarry knows none.
  unsigned (*owner_of)(void const* address);
  /// Returns whether the plugin's Quarry lists an allocator of this id with this name.
  bool (*lists)(unsigned id, char const* name);
  /// Makes another pool, allocates, frees, and destroys it. Returns its id.
  unsigned (*make_and_destroy)();
  /// Returns whether the plugin catches what its Quarry throws.
  bool (*catches)();
  /// Makes an allocator of the plugin's with a name of its own, and allocates 100 bytes of it.
  void* (*start_named)(char const* name);
  /// Returns whether the plugin's Quarry has an allocator of this name.
  bool (*has_name)(char const* name);
  /// Frees by the address alone, or returns whether that is refused as another copy's.
  enum class answer { is_freed, is_foreign, is_other };
  answer (*free_by_address)(void* address);
  /// Destroys that allocator.
  void (*stop_named)(char const* name);
  /// Returns the handle of a pool of the C API, which `start` makes.
  void* (*handle)();
  /// Allocates, names and frees by a handle. Returns null, or why the plugin's Quarry refuses.
  char const* (*use)(void* handle);
  /// Returns the same for all plugins that have the same copy of Quarry.
  void const* (*copy)();
  /// Frees, and destroys the plugin's pools.
  void (*stop)();
};

extern "C" [[gnu::visibility("default")]] plugin_calls const* plugin();
