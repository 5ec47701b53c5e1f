// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/pools/pool.hpp"
#include "quarry/host/registry/held_at_fork.hpp"
#include "quarry/host/resources/make_room.hpp"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// A pool for each thread, so that threads do not wait for each other.
///
/// Any thread may free what another thread allocated. The address goes into a list of that
/// thread's arena, under the list's own lock, and that thread frees it when it next allocates. If
/// an address is in the list twice, the arena's pool refuses and counts the second one then. The
/// options, such as block sizes and `max_bytes`, hold for each thread. A thread that ends leaves
/// its pool to the next new thread. A thread does not use the free memory of another thread. If
/// threads need few blocks, or only free, one pool in a `synchronized_resource` reserves less.
///
/// An arena's pool is Guarded by: the thread that has the arena. An arena changes its thread under
/// the mutex. No lock is held while a resource or a function of the options is called, so these
/// may use the arenas. The child of a fork can use its own thread's arena, and free what other
/// arenas allocated. Each arena has a copy of `Resource`; threads may share what the copies refer
/// to. All allocations must be freed, or no longer be used, before this is destroyed.
template <memory_resource Resource>
class QUARRY_POISONS thread_arenas {
 public:
  static constexpr bool is_simulated = simulated<Resource>;

  /// Throws `bad_argument`; the options' `is_tracked` must be true, since the registry tells whose
  /// memory it is.
  explicit thread_arenas(Resource from, pool_options const& options = {})
      : shared_{std::make_shared<state>(std::move(from), options)} {
    if (!options.is_tracked || simulated<Resource>)
      throw bad_argument{"thread_arenas: its pools must be tracked"};
    (void)mine();  // so that bad options are refused here
  }
  thread_arenas(thread_arenas const&) = delete;
  thread_arenas& operator=(thread_arenas const&) = delete;
  ~thread_arenas() {
    std::map<allocator_id, std::shared_ptr<arena>> all;
    {
      std::lock_guard const reserved{shared_->mutex};
      all.swap(shared_->arenas);
      shared_->is_gone = true;
    }
    // threads that have one keep its shell
    for (auto const& [id, each] : all) each->from.reset();
  }

  /// As pool's.
  [[nodiscard]] void* allocate(bytes size) {
    return with([&](pool<Resource>& from) { return from.allocate(size); });
  }
  /// Any thread may free. Returns false, and changes nothing, if the address is in use in none of
  /// the arenas, or if the list of another thread's returns cannot grow. A second free of another
  /// thread's allocation returns true if the owner has not processed the first free; the owner's
  /// pool refuses and counts it later. O(1).
  bool deallocate(void* pointer) noexcept {
    if (pointer == nullptr) return true;
    try {
      if (!ended() && mine().from->try_deallocate(pointer)) return true;
    } catch (...) {  // no memory for an arena, which returning does not need
    }
    return give_to_its_arena(pointer);
  }

  /// As a resource.
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    return with([&](pool<Resource>& from) { return from.allocate(size, alignment); });
  }
  void deallocate(void* pointer, bytes, bytes) noexcept { (void)deallocate(pointer); }

  [[nodiscard]] memory_location location() { return location_of(shared_->resource); }
  /// Of the calling thread's arena.
  [[nodiscard]] pool_counts counts() { return with_returns().counts(); }
  [[nodiscard]] std::vector<std::string> audit() { return with_returns().audit(); }
  [[nodiscard]] std::size_t arenas() const {
    std::lock_guard const reserved{shared_->mutex};
    return shared_->arenas.size();
  }

 private:
  struct arena {
    std::optional<pool<Resource>> from;
    // relaxed: a hint, which the mutex makes good; seen late, returns wait for a later call
    std::atomic<bool> has_returns{false};
    std::mutex mutex;
    detail::held_at_fork reserved{mutex};
    std::vector<void*> returns;  // Guarded by: the mutex
    std::vector<void*> spare;    // room for the next returns; the thread's that has the arena
    bool is_taken = true;        // Guarded by: the state's mutex
  };
  struct state {
    state(Resource from, pool_options const& wanted) : resource{std::move(from)}, options{wanted} {}
    std::mutex mutex;
    detail::held_at_fork reserved{mutex};
    std::map<allocator_id, std::shared_ptr<arena>> arenas;  // Guarded by: the mutex
    bool is_gone = false;                                   // Guarded by: the mutex
    Resource resource;
    pool_options options;
  };
  /// A thread's arenas, of all instances; it leaves them when it ends.
  struct of_thread {
    struct entry {
      std::shared_ptr<state> whose;
      std::shared_ptr<arena> its;
    };
    std::vector<entry> all;
    state* last = nullptr;
    arena* last_arena = nullptr;
    // To whom it freed last. While the registry knows an allocation of that id, and an id is
    // never another pool's, the arena is there.
    allocator_id last_given_id = 0;
    state* last_given_state = nullptr;
    arena* last_given = nullptr;
    ~of_thread() {
      ended() = true;
      for (entry& each : all) {
        std::lock_guard const reserved{each.whose->mutex};
        each.its->is_taken = false;
      }
    }
  };

  /// The calling thread's list of arenas is gone: other things of the thread, which are destroyed
  /// later, may still free and allocate.
  [[nodiscard]] static bool& ended() {
    static thread_local bool is = false;  // is not destroyed
    return is;
  }
  /// Calls `work(pool)` with the calling thread's pool, or with one that it has for this call only.
  template <class Work>
  void* with(Work const& work) {
    if (!ended()) [[likely]]
      return work(with_returns());
    auto const its = take_arena();
    struct leaving {
      state& whose;
      arena& its;
      ~leaving() {
        std::lock_guard const reserved{whose.mutex};
        its.is_taken = false;
      }
    } const at_the_end{*shared_, *its};
    return work(*its->from);
  }
  /// Not after `ended`.
  [[nodiscard]] static of_thread& of_this_thread() {
    static thread_local of_thread here;
    return here;
  }
  [[nodiscard]] arena& mine() {
    of_thread& here = of_this_thread();
    if (here.last == shared_.get()) return *here.last_arena;
    return find_mine(here);
  }
  [[nodiscard, gnu::noinline]] arena& find_mine(of_thread& here) {
    here.last = nullptr;  // its state may be what goes now
    std::erase_if(here.all, [&](auto const& each) {
      std::lock_guard const reserved{each.whose->mutex};
      return each.whose->is_gone;
    });
    auto found = std::find_if(here.all.begin(), here.all.end(),
                              [&](auto const& each) { return each.whose == shared_; });
    if (found == here.all.end()) {
      detail::make_room(here.all, here.all.size() + 1);
      here.all.push_back({shared_, take_arena()});
      found = here.all.end() - 1;
    }
    here.last = shared_.get();
    here.last_arena = found->its.get();
    return *here.last_arena;
  }
  /// One that its thread has left, or a new one.
  [[nodiscard]] std::shared_ptr<arena> take_arena() {
    {
      std::lock_guard const reserved{shared_->mutex};
      for (auto const& [id, each] : shared_->arenas) {
        if (each->is_taken) continue;
        each->is_taken = true;
        return each;
      }
    }
    auto fresh = std::make_shared<arena>();
    fresh->from.emplace(std::as_const(shared_->resource), shared_->options);
    std::lock_guard const reserved{shared_->mutex};
    shared_->arenas.emplace(fresh->from->id(), fresh);
    return fresh;
  }

  /// The calling thread's pool, with what others freed to it.
  [[nodiscard]] pool<Resource>& with_returns() {
    arena& here = mine();
    if (here.has_returns.load(std::memory_order_relaxed)) take_returns(here);
    return *here.from;
  }
  [[gnu::noinline]] static void take_returns(arena& here) {
    std::vector<void*> taken = std::move(here.spare);
    {
      std::lock_guard const reserved{here.mutex};
      taken.swap(here.returns);
      here.has_returns.store(false, std::memory_order_relaxed);
    }
    for (void* const each : taken) (void)here.from->deallocate(each);
    taken.clear();
    here.spare = std::move(taken);
  }
  /// nullptr if the pool of that number is no arena's. It must have something in use.
  [[nodiscard]] arena* arena_of(allocator_id id) noexcept {
    of_thread* const here = ended() ? nullptr : &of_this_thread();
    if (here != nullptr && here->last_given_id == id && here->last_given_state == shared_.get())
      return here->last_given;
    std::lock_guard const reserved{shared_->mutex};
    auto const whose = shared_->arenas.find(id);
    if (whose == shared_->arenas.end()) return nullptr;
    if (here != nullptr) {
      here->last_given_id = id;
      here->last_given_state = shared_.get();
      here->last_given = whose->second.get();
    }
    return whose->second.get();
  }
  [[gnu::noinline]] bool give_to_its_arena(void* pointer) noexcept {
    auto const found = registry::find(pointer);
    if (!found || found->base != pointer) return false;
    arena* const its = arena_of(found->allocator);
    if (its == nullptr) return false;
    std::lock_guard const reserved{its->mutex};
    try {
      its->returns.push_back(pointer);
      if (detail::is_poisoned(shared_->resource)) detail::poison(pointer, found->size);
    } catch (std::bad_alloc const&) {  // it stays in use
      return false;
    }
    its->has_returns.store(true, std::memory_order_relaxed);
    return true;
  }

  std::shared_ptr<state> shared_;
};

}  // namespace quarry::inline QUARRY_ABI
