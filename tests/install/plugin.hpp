// SPDX-License-Identifier: Apache-2.0
// The calls of load_plugins.cpp to a plugin. They name no type of Quarry, because the program may
// be built without it.
#pragma once

struct plugin_calls {
  /// Makes the plugin's pool with this name, allocates 100 bytes from it, and returns the address.
  void* (*start)(char const* name);
  /// Returns the id of that pool.
  unsigned (*id)();
  /// Returns the id of the pool that has `address`, or 0 if the plugin's Quarry knows no such pool.
  unsigned (*owner_of)(void const* address);
  /// Returns whether the plugin's Quarry lists an allocator of this id with this name.
  bool (*lists)(unsigned id, char const* name);
  /// Makes another pool, allocates, frees, and destroys it. Returns its id.
  unsigned (*make_and_destroy)();
  /// Returns whether the plugin can catch an exception of its Quarry.
  bool (*catches)();
  /// Makes an allocator of the plugin with its own name, and allocates 100 bytes from it.
  void* (*start_named)(char const* name);
  /// Returns whether the plugin's Quarry has an allocator of this name.
  bool (*has_name)(char const* name);
  /// Frees by the address alone. Returns whether the free was refused as another copy's address.
  enum class answer { is_freed, is_foreign, is_other };
  answer (*free_by_address)(void* address);
  /// Destroys that allocator.
  void (*stop_named)(char const* name);
  /// Returns the handle of the C API's pool that `start` made.
  void* (*handle)();
  /// Allocates, labels and frees by a handle. Returns null, or the error of the plugin's Quarry.
  char const* (*use)(void* handle);
  /// Returns an address that identifies the plugin's copy of Quarry.
  void const* (*copy)();
  /// Frees all memory, and destroys the plugin's pools.
  void (*stop)();
};

extern "C" [[gnu::visibility("default")]] plugin_calls const* plugin();
