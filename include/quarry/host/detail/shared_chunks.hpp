// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bytes.hpp"
#include "quarry/core/errors.hpp"
#include "quarry/host/detail/fence_all_threads.hpp"
#include "quarry/host/detail/held_at_fork.hpp"
#include "quarry/host/detail/single_writer.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

namespace quarry::inline QUARRY_ABI::detail {

/// Lets other threads than a pool's owner allocate in the chunks of the pool. Has the lock of the
/// arena, and counts what the others did. A pool that does not `share` its chunks needs no lock.
///
/// Other threads get no more than what they and further threads have freed in the pool since its
/// owner last looked: `lendable` bytes. So threads whose memory nobody frees for them never meet in
/// one pool.
///
/// The owner holds the lock in each call that uses chunks, but not while it calls the resource. A
/// pool that calls functions of its options is not shared. Whoever holds this lock may take the
/// mutex of shared slices; nobody takes them in the other order.
///
/// The lock costs the owner no atomic read-modify-write while nobody wants the chunks. The owner
/// tells that it is busy (B) and then looks whether another thread wants the chunks (W). Another
/// thread locks the mutex, wants the chunks (W), fences all threads, and looks whether the owner is
/// busy (K). If the fence comes after the owner's store (B), (K) sees that store. Otherwise the
/// fence comes before the owner's load (W). Then the owner sees the wish and waits for the mutex.
/// An owner that waits counts as busy. So it waits for one thread, not for all that want the
/// chunks. The wish stays until the owner has had the mutex, so only the first of several calls by
/// others needs the fence. A thread that finds the owner busy withdraws only its own wish. If it
/// sees that before it locks the mutex, it fences no thread (H).
///
/// Memory order. What the owner wrote is released at the end of its call (B) and acquired by (K).
/// What others wrote, the owner acquires by the mutex before it ends their wish, so (W) is relaxed.
/// (H) may read an old value. Then the thread only looks for other memory, or fails at (K).
/// Rejected: locking the mutex in each call (docs/design/measurement_log.md has the price).
class shared_chunks {
 public:
  /// What other threads did in the pool since its owner counted it.
  struct work_of_others {
    std::uint64_t allocations = 0, refused = 0;  // refused frees
    bytes allocated = 0, freed = 0;              // requested bytes
  };

  /// Returns false, and shares nothing, where threads cannot fence others.
  bool share(mutex_held_at_fork& mutex) {
    if (!fence_all_threads()) return false;
    mutex_ = &mutex;
    return true;
  }

  /// For the owner: holds the lock. False if it is lost in the child of a fork: then nobody may use
  /// the chunks.
  class [[nodiscard]] hold {
   public:
    explicit hold(shared_chunks const& chunks)
        : chunks_{chunks}, is_held_{chunks.mutex_ == nullptr || chunks.enter()} {}
    hold(hold const&) = delete;
    hold& operator=(hold const&) = delete;
    ~hold() { chunks_.leave(); }
    explicit operator bool() const { return is_held_; }
    /// Throws `bad_state` if the lock is lost.
    void require() const {
      if (!is_held_) [[unlikely]]
        throw bad_state{"pool: a fork came while another thread allocated in this pool"};
    }

   private:
    shared_chunks const& chunks_;
    bool is_held_;
  };
  /// For the owner: releases the lock that it holds, for a call of the resource.
  class [[nodiscard]] pause {
   public:
    explicit pause(shared_chunks& chunks) : chunks_{chunks} {
      ++chunks.pauses_;
      chunks.leave();
    }
    pause(pause const&) = delete;
    pause& operator=(pause const&) = delete;
    ~pause() {
      --chunks_.pauses_;
      if (chunks_.mutex_ != nullptr) (void)chunks_.enter();
    }

   private:
    shared_chunks& chunks_;
  };
  /// For another thread: holds the lock of shared chunks if nobody holds it.
  class [[nodiscard]] brief_hold {
   public:
    explicit brief_hold(shared_chunks& chunks)
        : chunks_{chunks}, is_held_{chunks.enter_briefly()} {}
    brief_hold(brief_hold const&) = delete;
    brief_hold& operator=(brief_hold const&) = delete;
    ~brief_hold() {
      if (is_held_) chunks_.mutex_->unlock();
    }
    explicit operator bool() const { return is_held_; }

   private:
    shared_chunks& chunks_;
    bool is_held_;
  };

  /// For any thread: how many bytes of chunks other threads may still get. A hint without the
  /// lock.
  [[nodiscard]] bytes lendable() const { return lendable_; }

  /// @name For another thread, which holds the lock.
  /// @{
  void count_free(bytes requested, bytes granted) {
    others_.freed += requested;
    lendable_ = lendable_ + granted;
    has_work_ = true;
  }
  void count_refused() {
    ++others_.refused;
    has_work_ = true;
  }
  void count_allocation(bytes requested, bytes granted) {
    ++others_.allocations;
    others_.allocated += requested;
    lendable_ = lendable_ - std::min<bytes>(lendable_, granted);
    has_work_ = true;
  }
  /// @}

  /// @name For the owner.
  /// @{
  /// Whether the owner is in a call of the resource.
  [[nodiscard]] bool is_paused() const { return pauses_ != 0; }
  /// Whether others did something that is not counted. May miss the latest.
  [[nodiscard]] bool has_work() const { return has_work_; }
  /// Requires the lock.
  [[nodiscard]] work_of_others take_work() {
    has_work_ = false;
    return std::exchange(others_, {});
  }
  /// From now on what others have freed is the owner's own memory. Requires the lock.
  void keep_freed() { lendable_ = 0; }
  /// @}

 private:
  [[nodiscard]] bool enter() const {
    is_busy_.store(true, std::memory_order_relaxed);             // (B)
    std::atomic_signal_fence(std::memory_order_seq_cst);         // see fence_all_threads
    if (!is_wanted_.load(std::memory_order_relaxed)) [[likely]]  // (W)
      return true;
    return enter_by_mutex();
  }
  void leave() const { is_busy_.store(false, std::memory_order_release); }  // (B)
  /// The owner stays busy, so that other threads cannot lock the mutex again before it.
  [[nodiscard, gnu::noinline]] bool enter_by_mutex() const {
    lock_unless_lost const lock{*mutex_};
    if (!lock) return false;
    is_wanted_.store(false, std::memory_order_relaxed);  // (W)
    return true;
  }
  [[nodiscard]] bool enter_briefly() {
    if (mutex_ == nullptr || is_busy_.load(std::memory_order_relaxed) ||  // (H)
        !mutex_->try_lock())
      return false;
    bool const was_wanted = is_wanted_.load(std::memory_order_relaxed);  // (W)
    if (!was_wanted) is_wanted_.store(true, std::memory_order_relaxed);  // (W)
    bool const is_fenced = was_wanted || fence_all_threads();
    if (is_fenced && !is_busy_.load(std::memory_order_acquire)) return true;  // (K)
    if (!was_wanted) is_wanted_.store(false, std::memory_order_relaxed);      // (W)
    mutex_->unlock();
    return false;
  }

  mutex_held_at_fork* mutex_ = nullptr;  // of the threads that are not the owner
  std::uint32_t pauses_ = 0;             // one in another. Guarded by: the owner
  mutable std::atomic<bool> is_busy_{false}, is_wanted_{false};
  // Guarded by: the lock. Others read the last two as hints.
  work_of_others others_;
  single_writer<bytes> lendable_;
  single_writer<bool> has_work_;
};

}  // namespace quarry::inline QUARRY_ABI::detail
