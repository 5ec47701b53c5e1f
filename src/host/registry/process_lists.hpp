// SPDX-License-Identifier: Apache-2.0
// What the pools of a process share, but for what lookups read at once (process_state.hpp).
#pragma once

#include "quarry/host/registry/held_at_fork.hpp"
#include "quarry/host/registry/process_state.hpp"
#include "quarry/host/registry/registry.hpp"

#include <chrono>
#include <map>
#include <mutex>
#include <vector>

namespace quarry::inline QUARRY_ABI {

using fork_clock = std::chrono::steady_clock;

/// Waits for a mutex until a time, and takes it at once if it is free. False if it is still locked
/// then.
[[nodiscard]] bool lock_until(std::mutex& mutex, fork_clock::time_point latest);

/// What a copy of the library does around each fork, for locks of its own that its calls hold while
/// they take those of `process_lists`. It ends when the copy is unloaded, which waits for a fork
/// that is under way.
class copy_at_fork : held_at_fork {
 public:
  static constexpr std::uint32_t max_copies = 255;

  /// `lock` waits until a time, and then takes each lock that is free. False if it did not get all:
  /// then it has those that it got if `keeps_part`, else none. The others unlock what it has.
  struct handlers {
    bool (*lock)(fork_clock::time_point latest, bool keeps_part);
    void (*unlock_in_parent)();
    void (*unlock_in_child)();
  };
  explicit copy_at_fork(handlers const& its);

  /// Of the copy, from 1 on. No two copies of the process have the same one at a time, unless there
  /// are more than `max_copies`; it comes again after as many were loaded.
  [[nodiscard]] std::uint32_t number() const { return number_; }

 private:
  friend class fork_handlers;
  friend struct process_layout;

  handlers const its_;
  std::uint32_t number_ = 0;  // Guarded by: the mutex of the process's forks
};

/// The mutexes stand in the order in which they are taken.
struct process_lists {
  /// What a fork holds beside these. Guarded by: `mutex`, but for `under_way`.
  struct {
    std::mutex under_way;  // a fork has it from its begin to its end
    std::mutex mutex;      // a fork has it but for the time that it waits for `awaited`
    held_at_fork* first = nullptr;
    held_at_fork* awaited = nullptr;  // must not end
    std::uint32_t latest_copy = 0;    // its number
  } forks;

  /// Of the registry. Guarded by: the mutex, which no allocation and no lookup takes.
  struct {
    std::mutex mutex;
    std::map<allocator_id, registration*> by_id;
    allocator_id last = 0;
  } registrations;
  static constexpr std::size_t most_everywhere = 64;
  single_writer<chunk_view const*>
      everywhere[most_everywhere]{};               // written under the registrations' mutex
  single_writer<std::size_t> everywhere_count{0};  // those behind it are empty

  /// Nodes of the page map that wait to be used again. Guarded by: the mutex, which also who
  /// changes a list holds.
  struct {
    std::mutex mutex;
    void* unused = nullptr;
  } nodes;

  /// Lasting memory that waits to be handed out again, by use and size. Guarded by: the mutex.
  struct {
    std::mutex mutex;
    struct list {
      std::vector<void*> free;  // has room for all that there are
      std::size_t made = 0;     // that there are, in use or not
    };
    std::map<bytes, list> by_size[static_cast<std::size_t>(type_stable_use::count)];
  } waiting;
};

/// The process's. Makes them if there are none: throws std::bad_alloc then. They are never
/// destroyed, since pools that are destroyed after main() use them, too.
[[nodiscard]] process_lists& lists_of_process();

/// Registers what holds the process's locks around a fork. The copy calls it that has the process's
/// state: it is never unloaded, so the handlers stay.
void watch_forks();

}  // namespace quarry::inline QUARRY_ABI
