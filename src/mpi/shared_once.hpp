// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "progress.hpp"

#include <new>

namespace quarry::inline QUARRY_ABI::mpi {

/// The object that ranks share through `pointer`. The first rank to ask makes it, and the others
/// find it. Null if the heap has no memory. No rank waits.
///
/// Memory order. (O) the exchange that publishes the object releases what its maker has written;
/// (I) a load or a failed exchange is followed by an acquire before the finder uses the object.
template <class T>
[[nodiscard]] QUARRY_HD T* shared_once(T*& pointer) {
  simt::atomic_ref<T*> const shared{pointer};
  T* found = shared.load(once_found_order);  // (I)
  if (found != nullptr) return found;
  void* const memory = allocate(sizeof(T));
  if (memory == nullptr) return nullptr;
  auto* const made = ::new (memory) T{};
  if (shared.compare_exchange(found, made, once_made_order)) return made;  // (O)
  release(made);
  return shared.load(once_found_order);  // (I)
}

}  // namespace quarry::inline QUARRY_ABI::mpi
