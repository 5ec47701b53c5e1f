// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/abi.hpp"
#include "quarry/core/export.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>

namespace quarry::inline QUARRY_ABI::detail {

/// An entry of the list of mutexes that a fork locks.
class QUARRY_API held_at_fork {
 public:
  held_at_fork(held_at_fork const&) = delete;
  held_at_fork& operator=(held_at_fork const&) = delete;

 protected:
  explicit held_at_fork(std::mutex* mutex) : mutex_{mutex} {}
  ~held_at_fork() = default;
  /// Adds this object to the list, once it is constructed. Requires the mutex of the list.
  void link();
  /// Waits for a fork that uses this object, and removes the object from the list.
  void unlink();

  /// Whether threads may lock the mutex.
  enum class access : std::uint32_t {
    open,       // they may
    fork_only,  // not before a fork has locked it
    lost        // never again: at the fork a thread held it that this process does not have
  };
  std::mutex* mutex_;  // null: a copy_at_fork

 private:
  friend class copy_at_fork;
  friend class fork_handlers;
  friend class mutex_held_at_fork;
  friend struct process_layout;

  /// What a fork knows about the mutex.
  enum class fork_verdict : std::uint8_t {
    wanted,
    own,       // the forking thread holds it
    given_up,  // the fork does not wait for its owner
  };

  // Guarded by: the mutex of the process's forks.
  held_at_fork* next_ = nullptr;  // in the order of locking
  held_at_fork* previous_ = nullptr;
  bool is_held_ = false;  // by a fork
  fork_verdict verdict_ = fork_verdict::wanted;
  // Written by forks. A hint, so loads and stores are relaxed (H): a thread that reads an old value
  // locks the mutex before the fork does.
  std::atomic<access> access_{access::open};
};

/// A mutex that each fork of the process locks. So in the child the guarded data is consistent and
/// the mutex is free.
///
/// A fork waits for the thread that holds the mutex, whatever the order in which threads lock such
/// mutexes. Meanwhile other threads let the fork go first. The fork continues without a mutex
///   - that the forking thread holds itself: the thread also holds it in the child;
///   - whose owner used no processor time for a second: it may be waiting for the forking thread;
///   - that it could not lock within 10 seconds.
/// In the last two cases the mutex is lost in the child: `lock` throws `bad_state` there.
/// Construction and destruction take a lock. Any thread may construct and destroy the object.
/// Locking costs a load more than with std::mutex.
///
/// The object must have static or heap storage, or lie on the forking thread's stack. The child
/// reuses the stacks of other threads.
class QUARRY_API mutex_held_at_fork : held_at_fork {
 public:
  /// Throws std::bad_alloc.
  mutex_held_at_fork();
  ~mutex_held_at_fork() { unlink(); }

  /// Throws `bad_state` if the mutex is lost.
  void lock() {
    if (!lock_unless_lost()) [[unlikely]]
      refuse();
  }
  /// Returns false if the mutex is lost. Otherwise locks it.
  [[nodiscard]] bool lock_unless_lost() {
    if (try_lock()) [[likely]]
      return true;
    return wait();
  }
  /// Locks the mutex if nobody holds it. Never waits.
  [[nodiscard]] bool try_lock() {
    return access_.load(std::memory_order_relaxed) == access::open && mutex_.try_lock();  // (H)
  }
  void unlock() { mutex_.unlock(); }

 private:
  friend struct process_layout;
  [[nodiscard]] bool wait();
  [[noreturn]] static void refuse();

  std::mutex mutex_;
};

/// Holds a mutex for a call that must not throw, unless the mutex is lost.
class lock_unless_lost {
 public:
  explicit lock_unless_lost(mutex_held_at_fork& mutex)
      : mutex_{mutex}, is_locked_{mutex.lock_unless_lost()} {}
  lock_unless_lost(lock_unless_lost const&) = delete;
  lock_unless_lost& operator=(lock_unless_lost const&) = delete;
  ~lock_unless_lost() {
    if (is_locked_) mutex_.unlock();
  }
  /// False: the mutex is lost, and so is the data that it guards.
  explicit operator bool() const { return is_locked_; }

 private:
  mutex_held_at_fork& mutex_;
  bool is_locked_;
};

}  // namespace quarry::inline QUARRY_ABI::detail
