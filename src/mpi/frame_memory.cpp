// SPDX-License-Identifier: Apache-2.0
// Heap memory for variable-length arrays and large local variables (compiler/frame_memory.hpp).
#include "format.hpp"
#include "progress.hpp"

using namespace quarry::mpi;

namespace {

/// The start of each block of a function's list; the variable follows.
struct alignas(16) frame_block {
  void* previous;
};

[[noreturn]] QUARRY_SLOW void end_without_memory(unsigned long size) {
  constexpr std::int32_t code = 1;
  if (begin_abort(code)) {
    failure& first = the_world().first_failure;
    text_buffer text{first.text, failure::text_bytes};
    text.add("rank ");
    text.add_number(own_rank());
    text.add(": the heap has no memory for a local variable of ");
    text.add_number(static_cast<std::int64_t>(size));
    text.add(" bytes; run with a larger --heap");
    if (first.place != 0) text.add("; after the MPI call at");
    first.length = static_cast<std::uint32_t>(text.length());
  }
  end_rank(code);
}

}  // namespace

extern "C" {

/// Returns memory for a variable and makes its block the newest of the list `newest`. Ends the
/// program if the heap is full.
QUARRY_SLOW void* quarry_mpi_frame_allocate(void** newest, unsigned long size,
                                            unsigned long alignment) {
  unsigned long const padding = alignment > alignof(frame_block) ? alignment : 0;
  auto* const block = static_cast<frame_block*>(allocate(sizeof(frame_block) + size + padding));
  if (block == nullptr) end_without_memory(size);
  block->previous = *newest;
  *newest = block;
  auto const address = reinterpret_cast<std::uintptr_t>(block + 1);
  if (padding == 0) return block + 1;
  return reinterpret_cast<void*>((address + alignment - 1) / alignment * alignment);
}

/// Frees the blocks of the list that are newer than `last`.
QUARRY_SLOW void quarry_mpi_frame_release(void** newest, void* last) {
  while (*newest != last) {
    auto* const block = static_cast<frame_block*>(*newest);
    *newest = block->previous;
    release(block);
  }
}

}  // extern "C"
