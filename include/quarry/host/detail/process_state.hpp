// SPDX-License-Identifier: Apache-2.0
// The state that all pools of a process share, even if the process has several copies of this
// library.
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/host/detail/single_writer.hpp"

#include <atomic>
#include <cstdint>
#include <version>

/// The symbol of the shared state. It contains the number of the state's layout (core/abi.hpp). Its
/// suffix names the C++ library, or the mode of libstdc++, because these differ in layout, too.
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

/// Prevents a copy relocation: without this attribute, a program that GCC compiles holds a copy of
/// the whole object if a shared library defines it. If no shared library does, linkers turn the
/// indirect access into a direct one.
#if defined(__GNUC__) && !defined(__clang__)
#define QUARRY_NO_COPY_RELOCATION __attribute__((weak))
#else
#define QUARRY_NO_COPY_RELOCATION
#endif

namespace quarry::inline QUARRY_ABI::detail {

struct process_lists;

/// The state that lookups read, and a pointer to the rest. All fields are zeros before any
/// constructor runs, and no field is destroyed.
///
/// A process has exactly one, even if a program and its plugins each have a copy of this library
/// and cannot see each other's symbols. The symbol is unique (STB_GNU_UNIQUE). The dynamic linker
/// of the GNU C library binds all shared objects to the first definition that it met, and never
/// unloads the object that has that definition. A program's own definition takes part only if the
/// program exports the symbol. The target quarry::quarry tells the linker to export it.
struct process_state {
  static constexpr std::uint64_t leaf_count = 1 << 16;
  using entry = std::atomic<std::uint64_t>;

  std::atomic<entry*> leaves[leaf_count];  // of the page map
  single_writer<std::uint64_t> changes;    // of the page map; written under the nodes' mutex
  std::atomic<std::uint64_t> lives;        // the number of layouts of base tables so far
  std::atomic<process_lists*> lists;       // null until the first use
};

QUARRY_NO_COPY_RELOCATION QUARRY_API extern process_state process_wide asm(QUARRY_PROCESS_STATE);

}  // namespace quarry::inline QUARRY_ABI::detail
