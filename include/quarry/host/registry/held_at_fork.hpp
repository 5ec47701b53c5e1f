// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/abi.hpp"
#include "quarry/core/export.hpp"

#include <mutex>

namespace quarry::inline QUARRY_ABI {

/// Locks a mutex around every fork of the process. So the child finds the guarded data consistent,
/// and the mutex free.
///
/// A fork waits for all such mutexes for a second at most, whatever the order in which their
/// owners lock them. Then it continues without those that it did not get: mutexes that the forking
/// thread holds itself, or whose owner waits for that thread. These stay locked in the child.
/// Construction and destruction take a lock; uses of the mutex cost nothing more. Any thread may
/// construct and destroy it.
///
/// It and its mutex must have static or heap storage, or lie on the forking thread's stack: the
/// child reuses the stacks of other threads.
class QUARRY_API held_at_fork {
 public:
  /// `mutex` outlives it. Throws std::bad_alloc.
  explicit held_at_fork(std::mutex& mutex);
  held_at_fork(held_at_fork const&) = delete;
  held_at_fork& operator=(held_at_fork const&) = delete;
  ~held_at_fork();

 private:
  friend class copy_at_fork;
  friend class fork_handlers;
  friend struct process_layout;

  /// Is in no list yet: a fork must not find a copy_at_fork before it is whole.
  held_at_fork() : mutex_{nullptr} {}
  /// Adds this to the list of forks. Requires their mutex.
  void link();

  std::mutex* mutex_;  // null: a copy_at_fork
  held_at_fork* next_ =
      nullptr;  // in the order of locking. Guarded by: the mutex of the process's forks
  held_at_fork* previous_ = nullptr;  // Guarded by: the same
  bool is_held_ = false;              // by a fork. Guarded by: the same
};

}  // namespace quarry::inline QUARRY_ABI
