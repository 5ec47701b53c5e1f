// SPDX-License-Identifier: Apache-2.0
// The state that the pools of a process share, except for the part that each lookup reads
// (process_state.hpp).
#pragma once

#include "quarry/host/detail/held_at_fork.hpp"
#include "quarry/host/detail/process_state.hpp"
#include "quarry/host/registry/registry.hpp"

#include <chrono>
#include <map>
#include <mutex>
#include <vector>

namespace quarry::inline QUARRY_ABI::detail {

using fork_clock = std::chrono::steady_clock;

/// Locks a mutex, waiting until `latest` at most. Returns false if the mutex is still locked then.
/// A free mutex is locked even if `latest` is past.
[[nodiscard]] bool lock_until(std::mutex& mutex, fork_clock::time_point latest);
/// The number of the thread that holds a mutex; 0 if no thread holds it, or it is not known.
[[nodiscard]] int holder_of(std::mutex& mutex);

/// The fork handlers of one copy of the library. They lock the copy's own locks, which its calls
/// hold while they take the locks of `process_lists`. The object is destroyed when the copy is
/// unloaded. Its destruction waits for a fork that is under way.
class copy_at_fork : held_at_fork {
 public:
  static constexpr std::uint32_t max_copies = 255;

  /// `lock` takes the copy's locks, except for those that the thread holds already, and returns
  /// nullptr. Or it returns a lock that it did not get until `latest`, and keeps no lock. With
  /// `keeps_part` it waits for no lock for long, keeps those that it gets, and returns nullptr. The
  /// other two functions unlock the locks that `lock` keeps. In the child, calls that need a lock
  /// that another thread held are refused.
  struct handlers {
    std::mutex* (*lock)(fork_clock::time_point latest, bool keeps_part);
    void (*unlock_in_parent)();
    void (*unlock_in_child)();
  };
  explicit copy_at_fork(handlers const& calls);
  ~copy_at_fork() { unlink(); }

  /// The number of the copy, from 1 to `max_copies`. Loaded copies have different numbers, unless
  /// the process has more than `max_copies`. A number may be reused once `max_copies` more copies
  /// were loaded.
  [[nodiscard]] std::uint32_t number() const { return number_; }

 private:
  friend class fork_handlers;
  friend struct process_layout;

  handlers const handlers_;
  std::uint32_t number_ = 0;  // Guarded by: the mutex of the process's forks
};

/// Threads take these mutexes in the order of their declaration.
struct process_lists {
  /// The objects that a fork locks besides these. Guarded by: `mutex`, except for `fork_mutex`.
  struct {
    std::mutex fork_mutex;  // a fork holds it from start to end
    std::mutex mutex;       // a fork holds it, except while it waits for `awaited`
    held_at_fork* first = nullptr;
    held_at_fork* awaited = nullptr;  // the object whose lock a fork waits for
    std::uint32_t latest_copy = 0;    // the number of the latest copy
  } forks;

  /// All registrations. Guarded by: the mutex, which allocations and lookups of addresses never
  /// take.
  struct {
    std::mutex mutex;
    std::map<allocator_id, registration*> by_id;
    allocator_id last = 0;
    std::vector<blockless_view*> unused_views;  // has capacity for all views of `blockless`
  } registrations;
  /// The tables without blocks, which lookups of unknown addresses ask. A page is never freed.
  /// Written under the registrations' mutex.
  struct blockless_page {
    static constexpr std::size_t size = 63;
    blockless_view views[size];
    single_writer<blockless_page*> next{nullptr};
  };
  blockless_page blockless;
  single_writer<std::size_t> blockless_count{0};  // later views are empty

  /// Makes sure that `unused_views` is not empty, and returns its last element. Throws
  /// std::bad_alloc and then changes nothing. Requires the registrations' mutex.
  [[nodiscard]] blockless_view& unused_view();

  /// Unused nodes of the page map. Guarded by: the mutex, which a thread also holds while it
  /// changes a list of the page map.
  struct {
    std::mutex mutex;
    void* unused = nullptr;
  } nodes;

  /// Unused type-stable memory, by use and size. Guarded by: the mutex.
  struct {
    std::mutex mutex;
    struct list {
      std::vector<void*> free;  // has capacity for `made` elements
      std::size_t made = 0;     // number of memory ranges, in use or unused
    };
    std::map<bytes, list> by_size[static_cast<std::size_t>(type_stable_use::count)];
  } unused_memory;
};

/// The lists of the process. The first call makes the lists and may throw std::bad_alloc. They are
/// never destroyed, because pools that are destroyed after main() also use them.
[[nodiscard]] process_lists& lists_of_process();

/// Registers the fork handlers that hold the process's locks. The copy of the library that defines
/// the process's state calls this. That copy is never unloaded, so the handlers stay valid.
void watch_forks();

}  // namespace quarry::inline QUARRY_ABI::detail
