// SPDX-License-Identifier: Apache-2.0
// The C library's functions for memory, from the world's heap, and those that end a rank.
#include "progress.hpp"

#include "errors.hpp"
#include "types.hpp"

using namespace quarry::mpi;

extern "C" {

QUARRY_HD void* quarry_c_malloc(unsigned long size) { return allocate(size); }
QUARRY_HD void quarry_c_free(void* pointer) {
  if (pointer != nullptr) release(pointer);
}
QUARRY_HD void* quarry_c_calloc(unsigned long count, unsigned long size) {
  if (size != 0 && count > ~0ul / size) return nullptr;
  auto* const memory = static_cast<char*>(allocate(count * size));
  if (memory != nullptr)
    for (unsigned long i = 0; i < count * size; ++i) memory[i] = 0;
  return memory;
}
QUARRY_HD void* quarry_c_realloc(void* old, unsigned long size) {
  return layout().heap().realloc(old, size);
}
QUARRY_HD void quarry_c_exit(int code) { end_rank(code); }
QUARRY_HD void quarry_c_abort() { abort_program(134); }

}  // extern "C"
