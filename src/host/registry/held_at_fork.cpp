// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/detail/held_at_fork.hpp"

#include "host/registry/process_lists.hpp"
#include "quarry/core/errors.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <thread>
#include <utility>

namespace quarry::inline QUARRY_ABI::detail {

mutex_held_at_fork::mutex_held_at_fork() : held_at_fork{&mutex_} {
  std::lock_guard const lock{lists_of_process().forks.mutex};
  link();
}
bool mutex_held_at_fork::wait() {
  for (;;) {
    switch (access_.load(std::memory_order_relaxed)) {  // (H)
      case access::open:
        mutex_.lock();
        return true;
      case access::fork_only:
        access_.wait(access::fork_only, std::memory_order_relaxed);  // (H)
        break;
      case access::lost:
        return false;
    }
  }
}
void mutex_held_at_fork::refuse() {
  throw bad_state{
      "lock: another thread was using the object when the process forked, and did not finish "
      "before "
      "the fork; so this child of the fork cannot use the object"};
}

void held_at_fork::link() {
  next_ = std::exchange(lists_of_process().forks.first, this);
  if (next_ != nullptr) next_->previous_ = this;
}
void held_at_fork::unlink() {
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

int holder_of(std::mutex& mutex) {
#if defined(__GLIBC__)
  return __atomic_load_n(&mutex.native_handle()->__data.__owner, __ATOMIC_RELAXED);
#else
  (void)mutex;
  return 0;
#endif
}

copy_at_fork::copy_at_fork(handlers const& calls) : held_at_fork{nullptr}, handlers_{calls} {
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

namespace {

/// Shows whether the thread that holds a mutex runs: the processor time that it has used.
struct owner_progress {
  std::mutex const* mutex = nullptr;
  int owner = 0;
  std::chrono::nanoseconds time{0};

  explicit owner_progress() = default;
  explicit owner_progress(std::mutex& busy) : mutex{&busy}, owner{holder_of(busy)} {
    // The kernel's number of the clock of a thread of this process.
    constexpr clockid_t of_thread = 4, of_scheduler = 2;
    timespec used{};
    if (owner != 0 &&
        clock_gettime(static_cast<clockid_t>(~owner * 8) | of_thread | of_scheduler, &used) == 0)
      time = std::chrono::seconds{used.tv_sec} + std::chrono::nanoseconds{used.tv_nsec};
  }
  bool operator==(owner_progress const&) const = default;
};

}  // namespace

/// Holds the library's locks around a fork. So a child process can make pools, allocate, look up
/// and report. It can also use an object that another thread was using, if a `mutex_held_at_fork`
/// guards the object.
///
/// Objects use each other in any order: a pool uses an allocator's handle, and that allocator's
/// pool uses another object. So the fork may wait for a lock whose owner waits for a lock that the
/// fork holds, or whose owner makes an object. After a short time the fork unlocks everything and
/// starts again with the lock that it could not get. It waits for that lock while it holds no other
/// lock of this list. If an order of locking exists, the fork finds it.
///
/// On a machine with many more threads than processors, an owner may not run for a long time, and
/// may lock its mutex again before the fork runs. So threads do not lock a mutex that the fork
/// waits for. The fork gives up a lock only if its owner used no processor time for a second, or
/// after 10 seconds. Then it continues without that lock.
///
/// The registry's locks come last: no thread waits for another lock while it holds one of them.
class fork_handlers {
 public:
  static void prepare() {
    process_lists& lists = lists_of_process();
    lists.forks.fork_mutex.lock();
    lists.forks.mutex.lock();
    lock_objects();
    lists.registrations.mutex.lock();
    for (auto const& [id, entry] : lists.registrations.by_id) entry->lock();
    lists.nodes.mutex.lock();
    lists.unused_memory.mutex.lock();
  }
  static void resume_parent() {
    unlock_registry<&registration::unlock>();
    unlock_all<&copy_at_fork::handlers::unlock_in_parent>();
    end_fork([](held_at_fork&) {});
  }
  static void resume_child() {
    unlock_registry<&registration::unlock_in_child>();
    unlock_all<&copy_at_fork::handlers::unlock_in_child>();
    end_fork([](held_at_fork& entry) {
      if (entry.mutex_ != nullptr && entry.verdict_ == verdict::given_up)
        entry.access_.store(access::lost, std::memory_order_relaxed);  // (H)
    });
  }

 private:
  using access = held_at_fork::access;
  using verdict = held_at_fork::fork_verdict;
  using copy_handler = void (*copy_at_fork::handlers::*)();

  struct busy_lock {
    held_at_fork* entry = nullptr;  // null: nothing is busy
    std::mutex* mutex = nullptr;
  };

  static void lock_objects() {
    constexpr std::chrono::seconds without_progress{1}, total{10};
    constexpr std::chrono::milliseconds first_wait{2};
    auto const end = fork_clock::now() + total;
    auto latest = end;
    owner_progress last;
    for (fork_clock::duration wait = first_wait;; wait *= 2) {
      busy_lock const busy = lock_all(std::min(fork_clock::now() + wait, latest));
      if (busy.entry == nullptr) return;
      auto const now = fork_clock::now();
      if (owner_progress const current{*busy.mutex}; current != last) {
        last = current;
        latest = std::min(now + without_progress, end);
      }
      if (now >= latest) {
        busy.entry->verdict_ = verdict::given_up;
        wait = first_wait;
        last = owner_progress{};
        latest = end;
      }
      unlock_all<&copy_at_fork::handlers::unlock_in_parent>();
    }
  }
  /// Locks all mutexes. Or returns a mutex that it did not get until `latest`, and moves its entry
  /// to the front of the list. While it waits for a mutex, it does not hold the mutex of forks. So
  /// threads can construct and destroy objects, except for the object whose mutex it waits for.
  static busy_lock lock_all(fork_clock::time_point latest) {
    auto& forks = lists_of_process().forks;
    while (held_at_fork* const busy = lock_all_free()) {
      forks.awaited = busy;
      busy->access_.store(access::fork_only, std::memory_order_relaxed);  // (H)
      forks.mutex.unlock();
      std::mutex* const busy_mutex = lock(*busy, latest);
      busy->access_.store(access::open, std::memory_order_relaxed);  // (H)
      busy->access_.notify_all();
      forks.mutex.lock();
      forks.awaited = nullptr;
      if (busy_mutex != nullptr) {
        put_first(*busy);
        return {busy, busy_mutex};
      }
      busy->is_held_ = true;
    }
    return {};
  }
  /// Locks the mutexes that are free. Stops at the first busy mutex and returns its entry.
  static held_at_fork* lock_all_free() {
    held_at_fork* entry = lists_of_process().forks.first;
    for (; entry != nullptr; entry = entry->next_) {
      if (entry->is_held_ || is_left_out(*entry)) continue;
      std::mutex* const busy = lock(*entry, {});
      if (busy == nullptr) {
        entry->is_held_ = true;
      } else if (entry->mutex_ != nullptr && holder_of(*busy) == gettid()) {
        entry->verdict_ = verdict::own;
      } else {
        break;
      }
    }
    return entry;
  }
  [[nodiscard]] static bool is_left_out(held_at_fork const& entry) {
    return entry.mutex_ != nullptr &&
           (entry.verdict_ != verdict::wanted ||
            entry.access_.load(std::memory_order_relaxed) == access::lost);  // (H)
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
  /// Returns nullptr, or a mutex that it could not lock.
  static std::mutex* lock(held_at_fork& entry, fork_clock::time_point latest) {
    if (entry.mutex_ != nullptr) return lock_until(*entry.mutex_, latest) ? nullptr : entry.mutex_;
    return static_cast<copy_at_fork&>(entry).handlers_.lock(latest,
                                                            entry.verdict_ == verdict::given_up);
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
  template <void (registration::*Unlock)()>
  static void unlock_registry() {
    process_lists& lists = lists_of_process();
    lists.unused_memory.mutex.unlock();
    lists.nodes.mutex.unlock();
    for (auto const& [id, entry] : lists.registrations.by_id) (entry->*Unlock)();
    lists.registrations.mutex.unlock();
  }
  template <class Work>
  static void end_fork(Work const& work) {
    auto& forks = lists_of_process().forks;
    for (held_at_fork* entry = forks.first; entry != nullptr; entry = entry->next_) {
      work(*entry);
      entry->verdict_ = verdict::wanted;
    }
    forks.mutex.unlock();
    forks.fork_mutex.unlock();
  }
};

void watch_forks() {
  pthread_atfork(&fork_handlers::prepare, &fork_handlers::resume_parent,
                 &fork_handlers::resume_child);
}

}  // namespace quarry::inline QUARRY_ABI::detail
