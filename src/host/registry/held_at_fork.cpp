// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/held_at_fork.hpp"

#include "host/registry/process_lists.hpp"

#include <pthread.h>

#include <algorithm>
#include <ctime>
#include <thread>
#include <utility>

namespace quarry::inline QUARRY_ABI::detail {

held_at_fork::held_at_fork(std::mutex& mutex) : mutex_{&mutex} {
  std::lock_guard const lock{lists_of_process().forks.mutex};
  link();
}
void held_at_fork::link() {
  next_ = std::exchange(lists_of_process().forks.first, this);
  if (next_ != nullptr) next_->previous_ = this;
}
held_at_fork::~held_at_fork() {
  auto& forks = lists_of_process().forks;
  std::unique_lock lock{forks.mutex};
  while (is_held_ || forks.awaited == this) {  // a fork holds the mutex or waits for it
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
  (previous_ != nullptr ? previous_->next_ : forks.first) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

bool lock_until(std::mutex& mutex, fork_clock::time_point latest) {
  auto const left = std::max(latest - fork_clock::now(), fork_clock::duration::zero());
#if defined(__SANITIZE_THREAD__)  // ThreadSanitizer does not intercept pthread_mutex_clocklock
  constexpr clockid_t clock = CLOCK_REALTIME;
#else
  constexpr clockid_t clock = CLOCK_MONOTONIC;
#endif
  timespec until{};
  clock_gettime(clock, &until);
  auto const sum = std::chrono::nanoseconds{until.tv_nsec} + left;
  auto const seconds = std::chrono::duration_cast<std::chrono::seconds>(sum);
  until.tv_sec += seconds.count();
  until.tv_nsec = (sum - seconds).count();
#if defined(__SANITIZE_THREAD__)
  return pthread_mutex_timedlock(mutex.native_handle(), &until) == 0;
#else
  return pthread_mutex_clocklock(mutex.native_handle(), clock, &until) == 0;
#endif
}

copy_at_fork::copy_at_fork(handlers const& calls) : handlers_{calls} {
  auto& forks = lists_of_process().forks;
  std::lock_guard const lock{forks.mutex};
  auto const is_used = [&](std::uint32_t number) {
    for (held_at_fork* entry = forks.first; entry != nullptr; entry = entry->next_) {
      if (entry->mutex_ == nullptr && static_cast<copy_at_fork*>(entry)->number_ == number)
        return true;
    }
    return false;
  };
  std::uint32_t tries = 0;
  do {
    forks.latest_copy = forks.latest_copy % max_copies + 1;
  } while (is_used(forks.latest_copy) && ++tries < max_copies);
  number_ = forks.latest_copy;
  link();
}

/// Holds the library's locks around a fork. So a child process can make pools, allocate, look up
/// and report. It can also use an object that another thread was using, if a `held_at_fork` holds
/// the object's lock.
///
/// Objects use entry other in any order: a pool uses an allocator's handle, and that allocator's
/// pool uses another object. So the fork may wait for a lock whose owner waits for a lock that the
/// fork holds, or whose owner makes an object. After a short time the fork unlocks everything and
/// starts again with the lock that it could not get. It waits for that lock while it holds no other
/// lock of this list. Within a second it finds an order, if one exists. Then it continues without
/// the locks that it cannot get. The registry's locks come last: no thread waits for another lock
/// while it holds one of the registry's locks.
class fork_handlers {
 public:
  static void prepare() {
    process_lists& lists = lists_of_process();
    lists.forks.fork_mutex.lock();
    lists.forks.mutex.lock();
    auto const latest = fork_clock::now() + std::chrono::seconds{1};
    for (fork_clock::duration wait = std::chrono::milliseconds{2};; wait *= 2) {
      auto const time = fork_clock::now();
      if (time >= latest) {
        (void)try_to_lock<true>();
        break;
      }
      if (lock_all(std::min(time + wait, latest))) break;
      unlock_all<&copy_at_fork::handlers::unlock_in_parent>();
    }
    lists.registrations.mutex.lock();
    for (auto const& [id, entry] : lists.registrations.by_id) entry->lock();
    lists.nodes.mutex.lock();
    lists.unused_memory.mutex.lock();
  }
  static void resume_parent() {
    unlock_registry<&registration::unlock, &copy_at_fork::handlers::unlock_in_parent>();
  }
  static void resume_child() {
    unlock_registry<&registration::unlock_in_child, &copy_at_fork::handlers::unlock_in_child>();
  }

 private:
  using copy_handler = void (*copy_at_fork::handlers::*)();

  /// Locks all mutexes. Returns false if it could not do so before `latest`. While it waits for a
  /// lock, it does not hold the mutex of forks. So threads can construct and destroy objects,
  /// except for the object whose lock it waits for.
  static bool lock_all(fork_clock::time_point latest) {
    auto& forks = lists_of_process().forks;
    while (held_at_fork* const busy = try_to_lock<false>()) {
      forks.awaited = busy;
      forks.mutex.unlock();
      bool const is_locked = lock(*busy, latest, false);
      forks.mutex.lock();
      forks.awaited = nullptr;
      busy->is_held_ = is_locked;
      if (is_locked) continue;
      put_first(*busy);
      return false;
    }
    return true;
  }
  /// Locks the mutexes that are free now. Stops at the first busy mutex and returns its object.
  /// With `TakesAll`, skips busy mutexes instead. Returns nullptr at the end of the list.
  template <bool TakesAll>
  static held_at_fork* try_to_lock() {
    held_at_fork* entry = lists_of_process().forks.first;
    for (; entry != nullptr; entry = entry->next_) {
      if (entry->is_held_) continue;
      bool const is_locked = lock(*entry, {}, TakesAll);
      entry->is_held_ =
          is_locked || (TakesAll && entry->mutex_ == nullptr);  // a copy may hold some of its locks
      if (!is_locked && !TakesAll) break;
    }
    return entry;
  }
  static void put_first(held_at_fork& entry) {
    auto& forks = lists_of_process().forks;
    if (entry.previous_ == nullptr) return;
    entry.previous_->next_ = entry.next_;
    if (entry.next_ != nullptr) entry.next_->previous_ = entry.previous_;
    entry.previous_ = nullptr;
    entry.next_ = std::exchange(forks.first, &entry);
    entry.next_->previous_ = &entry;
  }
  static bool lock(held_at_fork& entry, fork_clock::time_point latest, bool keeps_part) {
    if (entry.mutex_ != nullptr) return lock_until(*entry.mutex_, latest);
    return static_cast<copy_at_fork&>(entry).handlers_.lock(latest, keeps_part);
  }
  template <copy_handler Unlock>
  static void unlock_all() {
    for (held_at_fork* entry = lists_of_process().forks.first; entry != nullptr;
         entry = entry->next_) {
      if (!std::exchange(entry->is_held_, false)) continue;
      if (entry->mutex_ != nullptr) {
        entry->mutex_->unlock();
      } else {
        (static_cast<copy_at_fork*>(entry)->handlers_.*Unlock)();
      }
    }
  }
  template <void (registration::*Unlock)(), copy_handler UnlockCopy>
  static void unlock_registry() {
    process_lists& lists = lists_of_process();
    lists.unused_memory.mutex.unlock();
    lists.nodes.mutex.unlock();
    for (auto const& [id, entry] : lists.registrations.by_id) (entry->*Unlock)();
    lists.registrations.mutex.unlock();
    unlock_all<UnlockCopy>();
    lists.forks.mutex.unlock();
    lists.forks.fork_mutex.unlock();
  }
};

void watch_forks() {
  pthread_atfork(&fork_handlers::prepare, &fork_handlers::resume_parent,
                 &fork_handlers::resume_child);
}

}  // namespace quarry::inline QUARRY_ABI::detail
