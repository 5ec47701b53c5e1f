// SPDX-License-Identifier: Apache-2.0
// The C library's functions for memory (rank_memory.hpp).
#include "c_library.hpp"
#include "copy_bytes.hpp"
#include "format.hpp"
#include "rank_memory.hpp"

using namespace quarry::mpi;

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

QUARRY_HD bool is_power_of_two(unsigned long number) {
  return number != 0 && (number & (number - 1)) == 0;
}

/// What calloc returns: memory of `allocate`, all zero.
template <class Allocate>
QUARRY_HD void* cleared(Allocate const& allocate, unsigned long count, unsigned long size) {
  if (size != 0 && count > ~0ul / size) {  // more than any heap has
    self().error_number = error_no_memory;
    return nullptr;
  }
  void* const memory = noted(allocate(count * size), count * size);
  if (memory != nullptr) fill_bytes(memory, 0, count * size);
  return memory;
}

QUARRY_HD char* duplicate(char const* text, unsigned long length) {
  auto* const copy = static_cast<char*>(noted(allocate_for_program(length + 1), length + 1));
  if (copy == nullptr) return nullptr;
  copy_bytes(copy, text, length);
  copy[length] = 0;
  return copy;
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

extern "C" {

QUARRY_HD void* quarry_c_malloc(unsigned long size) {
  return noted(allocate_for_program(size), size);
}
QUARRY_HD void quarry_c_free(void* pointer) {
  if (pointer != nullptr) free_for_program(pointer);
}
QUARRY_HD void* quarry_c_calloc(unsigned long count, unsigned long size) {
  return cleared(allocate_for_program, count, size);
}
QUARRY_HD void* quarry_c_malloc_collective(unsigned long size) {
  return noted(allocate_collectively(size), size);
}
QUARRY_HD void* quarry_c_calloc_collective(unsigned long count, unsigned long size) {
  return cleared(allocate_collectively, count, size);
}
QUARRY_SLOW void* quarry_c_realloc(void* old, unsigned long size) {
  return resize_for_program(old, size);
}
QUARRY_SLOW void* quarry_c_aligned_alloc(unsigned long alignment, unsigned long size) {
  if (!is_power_of_two(alignment)) {
    self().error_number = error_invalid;
    return nullptr;
  }
  void* memory = layout().heap().aligned_malloc(alignment, size);
  for (std::uint32_t i = 0; memory == nullptr && spans_gpus() && i < the_world().gpus; ++i)
    memory = layout().heaps[i].aligned_malloc(alignment, size);
  return noted(memory, size);
}
QUARRY_HD void* quarry_c_memalign(unsigned long alignment, unsigned long size) {
  return quarry_c_aligned_alloc(alignment, size);
}
QUARRY_HD void* quarry_c_valloc(unsigned long size) { return quarry_c_aligned_alloc(4096, size); }
QUARRY_HD int quarry_c_posix_memalign(void** result, unsigned long alignment, unsigned long size) {
  if (!is_power_of_two(alignment) || alignment % sizeof(void*) != 0) return error_invalid;
  void* const memory = quarry_c_aligned_alloc(alignment, size);
  if (memory == nullptr) return error_no_memory;
  *result = memory;
  return 0;
}
QUARRY_HD char* quarry_c_strdup(char const* text) { return duplicate(text, length_of(text)); }
QUARRY_HD char* quarry_c_strndup(char const* text, unsigned long limit) {
  unsigned long length = 0;
  while (length < limit && text[length] != 0) ++length;
  return duplicate(text, length);
}

}  // extern "C"
