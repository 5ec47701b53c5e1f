// SPDX-License-Identifier: Apache-2.0
// What the pools of a process share, however many copies of this library are in it.
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/host/registry/single_writer.hpp"

#include <atomic>
#include <cstdint>
#include <version>

/// The symbol of what is shared, by the number of its layout (core/abi.hpp). The C++ libraries, and
/// libstdc++'s modes, differ in layout, too.
#define QUARRY_TEXT_OF(number) #number
#define QUARRY_STATE_OF(number) "quarry_process_state_" QUARRY_TEXT_OF(number)
#ifdef _LIBCPP_VERSION
#define QUARRY_PROCESS_STATE QUARRY_STATE_OF(QUARRY_STATE_LAYOUT) "_libcxx"
#elif defined(_GLIBCXX_DEBUG)
#define QUARRY_PROCESS_STATE QUARRY_STATE_OF(QUARRY_STATE_LAYOUT) "_debug"
#elif defined(_GLIBCXX_USE_CXX11_ABI) && _GLIBCXX_USE_CXX11_ABI == 0
#define QUARRY_PROCESS_STATE QUARRY_STATE_OF(QUARRY_STATE_LAYOUT) "_old_abi"
#else
#define QUARRY_PROCESS_STATE QUARRY_STATE_OF(QUARRY_STATE_LAYOUT)
#endif

/// Without it, GCC's programs hold the whole object if its definition lies in a shared library.
/// Linkers turn the access that it gives into a direct one where there is none.
#if defined(__GNUC__) && !defined(__clang__)
#define QUARRY_NO_COPY_RELOCATION __attribute__((weak))
#else
#define QUARRY_NO_COPY_RELOCATION
#endif

namespace quarry::inline QUARRY_ABI {

struct process_lists;

/// What lookups read, and where the rest is. All of it begins as zeros, before any constructor
/// runs, and nothing of it is destroyed.
///
/// A process has one, though a program and its plugins may each have a copy of this library, and
/// cannot see each other's symbols: this symbol is unique (STB_GNU_UNIQUE). The dynamic linker of
/// the GNU C library gives all shared objects the first one that it met, and never unloads the
/// object that has it. A program's own counts only if the program exports it, which quarry::quarry
/// tells the linker.
struct process_state {
  static constexpr std::uint64_t leaf_count = 1 << 16;
  using entry = std::atomic<std::uint64_t>;

  std::atomic<entry*> leaves[leaf_count];  // of the page map
  single_writer<std::uint64_t> changes;    // of the page map; written by who holds its mutex
  std::atomic<std::uint64_t> lives;        // how many layouts begin tables had
  std::atomic<process_lists*> lists;       // null until somebody wants them
};

QUARRY_NO_COPY_RELOCATION QUARRY_API extern process_state process_wide asm(QUARRY_PROCESS_STATE);

}  // namespace quarry::inline QUARRY_ABI
