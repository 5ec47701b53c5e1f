// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/pool.hpp"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace quarry {

/// A pool for each thread, so that threads do not wait for each other.
///
/// Any thread may give back what another allocated: it goes to the other's list of returns, under
/// that list's own lock, and the other takes it in when it next allocates; what is in the list
/// twice its pool refuses then, and counts. The options hold for each thread: blocks, and the most
/// that is held. A thread that ends leaves its pool to the next one that comes. Memory that one
/// thread has free the others do not see: with few blocks, or threads that only give back, a
/// `synchronized_resource` over one pool holds less.
///
/// An arena's pool is Guarded by: the thread that has it; changing hands takes the mutex.
/// `Resource` is copied for each arena, and threads may share what it stands for. All that was
/// allocated must be given back, or be of no use, before this is destroyed.
template <memory_resource Resource>
class thread_arenas {
 public:
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
    std::lock_guard const held{shared_->mutex};
    // threads that have one keep its shell
    for (auto const& [id, each] : shared_->arenas) each->from.reset();
    shared_->arenas.clear();
    shared_->is_gone = true;
  }

  /// As pool's.
  [[nodiscard]] void* allocate(bytes size) {
    return with([&](pool<Resource>& from) { return from.allocate(size); });
  }
  /// Any thread may give back. False, and nothing is changed, if it is in use in none of the
  /// arenas. O(1).
  bool deallocate(void* pointer) noexcept {
    if (pointer == nullptr) return true;
    try {
      if (!ended() && mine().from->try_deallocate(pointer)) return true;
    } catch (...) {  // no memory for an arena, which giving back does not need
    }
    return give_to_its_arena(pointer);
  }

  /// As a resource.
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    return with([&](pool<Resource>& from) { return from.allocate(size, alignment); });
  }
  void deallocate(void* pointer, bytes, bytes) noexcept { (void)deallocate(pointer); }

  /// Of the calling thread's arena.
  [[nodiscard]] pool_counts counts() { return with_returns().counts(); }
  [[nodiscard]] std::vector<std::string> audit() { return with_returns().audit(); }
  [[nodiscard]] std::size_t arenas() const {
    std::lock_guard const held{shared_->mutex};
    return shared_->arenas.size();
  }

 private:
  struct arena {
    std::optional<pool<Resource>> from;
    // relaxed: a hint, which the mutex makes good; seen late, returns wait for a later call
    std::atomic<bool> has_returns{false};
    std::mutex mutex;
    std::vector<void*> returns;  // Guarded by: the mutex
    bool is_taken = true;        // Guarded by: the state's mutex
  };
  struct state {
    state(Resource from, pool_options const& wanted) : resource{std::move(from)}, options{wanted} {}
    std::mutex mutex;
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
    ~of_thread() {
      ended() = true;
      for (entry& each : all) {
        std::lock_guard const held{each.whose->mutex};
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
        std::lock_guard const held{whose.mutex};
        its.is_taken = false;
      }
    } const at_the_end{*shared_, *its};
    return work(*its->from);
  }
  [[nodiscard]] arena& mine() {
    static thread_local of_thread here;
    if (here.last == shared_.get()) return *here.last_arena;
    return find_mine(here);
  }
  [[nodiscard, gnu::noinline]] arena& find_mine(of_thread& here) {
    here.last = nullptr;  // its state may be what goes now
    std::erase_if(here.all, [&](auto const& each) {
      std::lock_guard const held{each.whose->mutex};
      return each.whose->is_gone;
    });
    auto found = std::find_if(here.all.begin(), here.all.end(),
                              [&](auto const& each) { return each.whose == shared_; });
    if (found == here.all.end()) {
      here.all.reserve(here.all.size() + 1);
      here.all.push_back({shared_, take_arena()});
      found = here.all.end() - 1;
    }
    here.last = shared_.get();
    here.last_arena = found->its.get();
    return *here.last_arena;
  }
  /// One that its thread has left, or a new one.
  [[nodiscard]] std::shared_ptr<arena> take_arena() {
    std::lock_guard const held{shared_->mutex};
    for (auto const& [id, each] : shared_->arenas) {
      if (each->is_taken) continue;
      each->is_taken = true;
      return each;
    }
    auto fresh = std::make_shared<arena>();
    fresh->from.emplace(shared_->resource, shared_->options);
    shared_->arenas.emplace(fresh->from->id(), fresh);
    return fresh;
  }

  /// The calling thread's pool, with what others gave back to it.
  [[nodiscard]] pool<Resource>& with_returns() {
    arena& here = mine();
    if (here.has_returns.load(std::memory_order_relaxed)) take_returns(here);
    return *here.from;
  }
  [[gnu::noinline]] static void take_returns(arena& here) {
    std::lock_guard const held{here.mutex};
    for (void* const each : here.returns) (void)here.from->deallocate(each);
    here.returns.clear();
    here.has_returns.store(false, std::memory_order_relaxed);
  }
  [[gnu::noinline]] bool give_to_its_arena(void* pointer) noexcept {
    auto const found = registry::find(pointer);
    if (!found || found->begin != pointer) return false;
    std::shared_ptr<arena> its;
    {
      std::lock_guard const held{shared_->mutex};
      auto const whose = shared_->arenas.find(found->allocator);
      if (whose == shared_->arenas.end()) return false;
      its = whose->second;
    }
    std::lock_guard const held{its->mutex};
    try {
      its->returns.push_back(pointer);
      if (has_address_sanitizer && found->place.is_touchable()) poison(pointer, found->size);
    } catch (std::bad_alloc const&) {  // it stays in use
      return false;
    }
    its->has_returns.store(true, std::memory_order_relaxed);
    return true;
  }

  std::shared_ptr<state> shared_;
};

}  // namespace quarry
