// SPDX-License-Identifier: Apache-2.0
// Memory faults, and the reports of the heap and of a pool. Runs without a GPU.
#include "quarry/quarry.hpp"

#include <iostream>

using namespace quarry::literals;

int main() {
  // A kernel frees an allocation twice. The heap reports the second free and changes nothing.
  quarry::heap heap{{.bytes = 16_MiB, .backend_kind = quarry::backend::cpu}};
  quarry::simt::launch_threads({1, 1}, 1, [memory = heap.ref()] {
    void* const pointer = memory.malloc(100);
    memory.free(pointer);
    memory.free(pointer);
  });
  if (auto const fault = heap.first_fault()) std::cout << *fault << '\n';
  heap.clear_faults();

  // Frees of an interior and of a foreign pointer, and a request larger than the heap.
  quarry::simt::launch_threads({1, 1}, 1, [memory = heap.ref()] {
    auto* const pointer = static_cast<char*>(memory.malloc(100));
    memory.free(pointer + 16);
    int local = 0;
    memory.free(&local);
    (void)memory.malloc(1_GiB);
  });
  for (auto const kind : {quarry::fault_kind::interior_pointer, quarry::fault_kind::foreign_pointer,
                          quarry::fault_kind::out_of_memory})
    std::cout << quarry::name_of(kind) << ": " << heap.fault_count(kind) << '\n';
  for (auto const& leak : heap.live_allocations())
    std::cout << "not freed: " << leak.bytes << " bytes\n";

  // A pool counts invalid frees, and its red zones find writes past the end of an allocation.
  quarry::pool pool{quarry::host_resource{}, {.name = "fields", .red_zone = 64}};
  auto* const field = static_cast<char*>(pool.allocate(1000));
  field[1001] = 1;
  pool.deallocate(field);                           // a line on standard error
  bool const is_refused = !pool.deallocate(field);  // already free
  std::cout << "overruns: " << pool.counts().overruns
            << ", invalid frees: " << pool.counts().invalid_frees << '\n';

  // The registry lists the leaks when the program ends.
  void* const leaked = pool.allocate(500);
  pool.label(leaked, "densities");
  quarry::registry::report(std::cout);

  bool const is_leaked = quarry::registry::find(leaked)->size == 500;
  return is_refused && is_leaked && heap.live_allocations().size() == 1 ? 0 : 1;
}
