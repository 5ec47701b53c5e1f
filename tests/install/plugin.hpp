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
  /// Frees, and destroys the plugin's pool.
  void (*stop)();
};

extern "C" [[gnu::visibility("default")]] plugin_calls const* plugin();
