// SPDX-License-Identifier: Apache-2.0
#include "host/registry/process_lists.hpp"

#include "quarry/host/detail/make_room.hpp"

#include <memory>

// Only GCC can make a C++ variable a unique symbol, and only an inline variable. So this assembly
// reserves the bytes, and the header declares their type.
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

/// The state that this copy of the library defines. It is the process's state, or it is unused.
extern "C" [[gnu::visibility("hidden")]] char quarry_own_process_state;

namespace quarry::inline QUARRY_ABI::detail {

static_assert(sizeof(process_state) <= 524352 && alignof(process_state) <= 64);

// Memory order: a thread loads the pointer by (L), or by (F) if another thread was first. Both
// acquire, so the thread sees the lists as they were before (P), the release that published them.
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

blockless_view& process_lists::unused_view() {
  auto& unused = registrations.unused_views;
  if (!unused.empty()) return *unused.back();
  std::size_t const count = blockless_count;
  blockless_page* last = &blockless;
  while (last->next != nullptr) last = last->next;
  std::size_t const place = count % blockless_page::size;
  bool const needs_page = count != 0 && place == 0;
  make_room(unused, count + 1);
  if (needs_page) last = last->next = new blockless_page;
  unused.push_back(&last->views[place]);
  blockless_count = count + 1;
  return *unused.back();
}

namespace {

/// Whether the process uses the state that this copy defines.
[[nodiscard]] bool defines_the_state() {
  void const* own = &quarry_own_process_state;
  asm("" : "+r"(own));  // compilers assume that it is not `process_wide`
  return own == &process_wide;
}

// Runs before the program makes threads: no fork may find a thread inside this initialisation.
[[maybe_unused]] bool const watches_forks = [] {
  (void)lists_of_process();
  if (defines_the_state()) watch_forks();
  return true;
}();

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::detail
