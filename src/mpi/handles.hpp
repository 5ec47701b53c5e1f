// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "progress.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// The index of a free entry; the table grows if it is full. -1 if the heap has no memory.
template <class T>
[[nodiscard]] QUARRY_HD std::int32_t free_handle(handle_table<T>& table) {
  for (std::uint32_t i = 0; i < table.capacity; ++i)
    if (table.entries[i] == nullptr) return static_cast<std::int32_t>(i);
  std::uint32_t const old = table.capacity;
  std::uint32_t const capacity = old == 0 ? 8 : old * 2;
  auto** const entries = static_cast<T**>(allocate(capacity * sizeof(T*)));
  if (entries == nullptr) return -1;
  for (std::uint32_t i = 0; i < capacity; ++i) entries[i] = i < old ? table.entries[i] : nullptr;
  if (table.entries != nullptr) release(table.entries);
  table = {entries, capacity};
  return static_cast<std::int32_t>(old);
}

}  // namespace quarry::inline QUARRY_ABI::mpi
