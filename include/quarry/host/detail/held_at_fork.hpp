// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/abi.hpp"
#include "quarry/core/export.hpp"

#include <mutex>

namespace quarry::inline QUARRY_ABI::detail {

/// Locks a mutex around every fork of the process. So in the child the guarded data is consistent
/// and the mutex is free.
///
/// A fork waits for all such mutexes for a second at most, whatever the order in which their owners
/// lock them. Then it continues without the mutexes that it could not lock: mutexes that the
/// forking thread holds itself, or whose owner waits for that thread. These mutexes stay locked in
/// the child. Construction and destruction take a lock. Locking the mutex costs nothing more. Any
/// thread may construct and destroy a `held_at_fork`.
///
/// The object and its mutex must have static or heap storage, or lie on the forking thread's stack.
/// The child reuses the stacks of other threads.
class QUARRY_API held_at_fork {
 public:
  /// `mutex` must outlive this object. Throws std::bad_alloc.
  explicit held_at_fork(std::mutex& mutex);
  held_at_fork(held_at_fork const&) = delete;
  held_at_fork& operator=(held_at_fork const&) = delete;
  ~held_at_fork();

 private:
  friend class copy_at_fork;
  friend class fork_handlers;
  friend struct process_layout;

  /// Does not enter the list yet: a fork must not find a copy_at_fork before it is constructed.
  held_at_fork() : mutex_{nullptr} {}
  /// Adds this object to the list that forks use. Requires the mutex of that list.
  void link();

  std::mutex* mutex_;  // null: a copy_at_fork
  // Guarded by: the mutex of the process's forks.
  held_at_fork* next_ = nullptr;  // in the order of locking
  held_at_fork* previous_ = nullptr;
  bool is_held_ = false;  // by a fork
};

}  // namespace quarry::inline QUARRY_ABI::detail
