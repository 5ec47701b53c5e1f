// SPDX-License-Identifier: Apache-2.0
// A pool on the host: allocate, find the allocation that contains a pointer, deallocate.
#include "quarry/host.hpp"

#include <cstdio>

using namespace quarry::literals;

int main() {
  quarry::pool pool{quarry::host_resource{}};  // quarry::device_resource{0}: memory of a GPU
  auto* const field = static_cast<char*>(pool.allocate(10_MiB));  // throws quarry::out_of_memory
  auto const found = quarry::registry::find(field + 1000);        // in any thread, without a lock
  bool const is_found = found && found->size == 10_MiB;
  pool.deallocate(field);                           // true
  bool const is_refused = !pool.deallocate(field);  // already free: the pool refuses it

  std::printf("found: %d, refused: %d\n", is_found, is_refused);
  return is_found && is_refused ? 0 : 1;
}
