// SPDX-License-Identifier: Apache-2.0
// What the pools of a process share, but for what look-ups read at once (process_state.hpp).
#pragma once

#include "quarry/host/process_state.hpp"
#include "quarry/host/registry.hpp"

#include <pthread.h>

#include <map>
#include <mutex>
#include <vector>

namespace quarry {

/// The mutexes stand in the order in which they are taken.
struct process_lists {
  /// Of the registry. Guarded by: the mutex, which no allocation and no look-up takes.
  struct {
    std::mutex mutex;
    std::map<allocator_id, ledger*> by_id;
    allocator_id last = 0;
  } ledgers;
  static constexpr std::size_t most_everywhere = 64;
  watched<piece_book const*> everywhere[most_everywhere]{};  // written under the ledgers' mutex
  watched<std::size_t> everywhere_count{0};                  // those behind it are empty

  /// Nodes of the directory that wait to be used again. Guarded by: the mutex, which also who
  /// changes a list holds.
  struct {
    std::mutex mutex;
    void* unused = nullptr;
  } nodes;

  /// Lasting memory that waits to be handed out again, by use and size. Guarded by: the mutex.
  struct {
    std::mutex mutex;
    std::map<bytes, std::vector<void*>> by_size[static_cast<std::size_t>(lasting_use::count)];
  } waiting;

  /// A fork calls each copy's handlers: the first one locks, and the last one unlocks. Written by
  /// the thread that has the locks for its fork.
  struct {
    std::atomic<pthread_t> thread{};
    unsigned copies = 0;
  } fork;
};

/// The process's. Makes them if there are none: throws std::bad_alloc then. They are never
/// destroyed, since pools that are destroyed after main() use them, too.
[[nodiscard]] process_lists& lists_of_process();

/// Makes sure that the registry's handlers of a fork are there: those of who holds locks while it
/// calls the registry are added after them, so that they are called before.
void watch_registry_at_fork();

}  // namespace quarry
