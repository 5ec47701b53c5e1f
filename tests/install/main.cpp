// SPDX-License-Identifier: Apache-2.0
#include <quarry/quarry.hpp>

#include <cstdio>
#include <cstring>

int main() {
  quarry::heap heap{
      {.bytes = 1 << 20, .segment_bytes = 1 << 16, .backend_kind = quarry::backend::cpu}};
  auto const ref = heap.ref();
  void* const memory = ref.malloc(100);
  if (memory == nullptr) {
    std::fputs("the installed Quarry cannot allocate 100 bytes\n", stderr);
    return 1;
  }
  std::memset(memory, 0x5a, 100);
  ref.free(memory);
}
