// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "progress.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Behind a table's entries: no entry before this index is free.
template <class T>
[[nodiscard]] QUARRY_HD std::uintptr_t& first_free(handle_table<T> const& table) {
  return *reinterpret_cast<std::uintptr_t*>(table.entries + table.capacity);
}

/// The index of the first free entry; the table grows if it is full. -1 if the heap has no memory.
/// n calls without a free in between take O(n).
template <class T>
[[nodiscard]] QUARRY_HD std::int32_t free_handle(handle_table<T>& table) {
  std::uint32_t const old = table.capacity;
  std::uint32_t index = old == 0 ? 0 : static_cast<std::uint32_t>(first_free(table));
  while (index < old && table.entries[index] != nullptr) ++index;
  if (index < old) {
    first_free(table) = index;  // the caller may give up
    return static_cast<std::int32_t>(index);
  }
  std::uint32_t const capacity = 2 * old + (old == 0 ? 7 : 1);  // with the index a power of two
  auto** const entries = static_cast<T**>(allocate((capacity + bytes{1}) * sizeof(T*)));
  if (entries == nullptr) return -1;
  for (std::uint32_t i = 0; i < capacity; ++i) entries[i] = i < old ? table.entries[i] : nullptr;
  if (table.entries != nullptr) release(table.entries);
  table = {entries, capacity};
  first_free(table) = old;
  return static_cast<std::int32_t>(old);
}

template <class T>
QUARRY_HD void free_entry(handle_table<T>& table, std::int32_t index) {
  table.entries[index] = nullptr;
  auto const freed = static_cast<std::uintptr_t>(index);
  if (freed < first_free(table)) first_free(table) = freed;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
