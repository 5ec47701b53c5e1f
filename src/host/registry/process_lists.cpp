// SPDX-License-Identifier: Apache-2.0
#include "host/registry/process_lists.hpp"

#include <memory>

// No compiler but GCC makes a unique symbol of a C++ variable, and GCC only if it is inline. So
// here are its bytes, and the header says what they are.
#define QUARRY_PROCESS_STATE_BYTES "524352"
// clang-format off
asm(".pushsection .bss." QUARRY_PROCESS_STATE ",\"aw\",%nobits\n"
    ".globl " QUARRY_PROCESS_STATE "\n"
    ".type " QUARRY_PROCESS_STATE ",%gnu_unique_object\n"
    ".balign 64\n"
    ".size " QUARRY_PROCESS_STATE "," QUARRY_PROCESS_STATE_BYTES "\n"
    QUARRY_PROCESS_STATE ":\n"
    ".globl quarry_own_process_state\n"
    ".hidden quarry_own_process_state\n"
    "quarry_own_process_state:\n"
    ".zero " QUARRY_PROCESS_STATE_BYTES "\n"
    ".popsection\n");
// clang-format on

/// The state that this copy brings, which is the process's or not used.
extern "C" [[gnu::visibility("hidden")]] char quarry_own_process_state;

namespace quarry::inline QUARRY_ABI {

static_assert(sizeof(process_state) <= 524352 && alignof(process_state) <= 64);

// Memory order: who sees the lists by (L), or by (F) where another thread was first, sees them as
// (P) made them, the release that put them there.
process_lists& lists_of_process() {
  process_lists* lists = process_wide.lists.load(std::memory_order_acquire);  // (L)
  if (lists != nullptr) [[likely]]
    return *lists;
  auto fresh = std::make_unique<process_lists>();
  if (process_wide.lists.compare_exchange_strong(lists, fresh.get(),
                                                 std::memory_order_release,   // (P)
                                                 std::memory_order_acquire))  // (F)
    return *fresh.release();
  return *lists;
}

namespace {

[[nodiscard]] bool brings_the_state() {
  void const* own = &quarry_own_process_state;
  asm("" : "+r"(own));  // compilers take it for another object than `process_wide`
  return own == &process_wide;
}

// Before there are threads: a fork must not find one of them in the middle of that.
[[maybe_unused]] bool const watches_forks = [] {
  (void)lists_of_process();
  if (brings_the_state()) watch_forks();
  return true;
}();

}  // namespace
}  // namespace quarry::inline QUARRY_ABI
