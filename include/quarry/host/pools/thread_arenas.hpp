// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/host/detail/held_at_fork.hpp"
#include "quarry/host/detail/make_room.hpp"
#include "quarry/host/detail/thread_arena.hpp"
#include "quarry/host/pools/pool.hpp"

#include <atomic>
#include <bit>
#include <concepts>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// A pool for each thread, so that threads do not wait for each other.
///
/// Any thread may free what another thread allocated, and needs no arena for that. The thread that
/// allocated is the owner of the arena, and frees the memory later:
///   - The freeing thread marks a slice (returned_slices), which needs no memory. The owner frees
///     marked slices in allocations that find no free slice of their size at hand, up to 1024
///     slices in each. Such an allocation takes other memory only if none of these slices serves
///     it.
///   - The address of a larger allocation goes into the arena's list (returned_addresses). The
///     owner frees all addresses of the list when it next allocates. If an address is in the list
///     twice, the arena's pool refuses and counts the second entry.
/// `counts`, `audit`, `release` and `leave` free all of these. If no thread owns the arena, the
/// freeing thread frees them at once.
///
/// An idle thread keeps what others freed, but lends it. Before a thread's pool uses memory for
/// slices that it has never used, it borrows map pages of 64 KiB from other arenas
/// (detail::slice_table). All slices of such a page are free. To find a page, it frees marked
/// slices in these arenas: at most 256 groups of 64 in an allocation. The limit is 4096 groups if
/// the allocation would otherwise take a block of the resource. A lent map page counts as reserved
/// and granted by the lender, and its allocations as the borrower's; so `allocated` of a borrower
/// may exceed `reserved`. The registry names the lender's pool for them.
///
/// A thread whose pool has no memory left for an allocation of more than 4 KiB allocates in other
/// arenas (detail::shared_chunks). It gets at most what threads other than the owner have freed
/// there since the owner's last allocation. Such an allocation counts in that arena's pool. This
/// needs Linux, and options without a limit, a heuristic, red zones and backtraces.
///
/// With `max_bytes` no memory is lent. So a thread that will not allocate for long, such as an idle
/// worker, should call `leave`: then frees into its arena take effect at once.
///
/// The options, such as block sizes and `max_bytes`, hold for each thread. A thread that ends
/// leaves its pool to the next new thread. `release` returns free memory to the resource, but not
/// that of another thread. If threads need few blocks, one pool in a `synchronized_resource`
/// reserves less.
///
/// An arena's pool is Guarded by: the thread that owns the arena, and its slice blocks by a mutex
/// of the arena. The owner changes under the mutex of all arenas. A thread that frees into an arena
/// without an owner, or releases it, owns it for that time. A free first reads without the mutex
/// whether the arena has an owner, by (H), a relaxed load. If it reads an old value, it marks the
/// slice, or the address goes into the list. The same may happen while the owner leaves, or while
/// another thread frees into the arena. Then the next free into that arena, its next owner, or
/// `release` frees these. No lock is held while a resource or a function of the options is called,
/// so these may use the arenas. The child of a fork can use its own thread's arena, and free what
/// other arenas allocated. There, up to 64 slices may stay unused for each thread that was in a
/// call. Each arena has a copy of `Resource`; threads may share what the copies refer to. All
/// allocations must be freed, or no longer be used, before this object is destroyed.
template <memory_resource Resource>
class QUARRY_POISONS thread_arenas {
 public:
  static constexpr bool is_simulated = simulated<Resource>;

  /// Throws `bad_argument`. The options' `is_tracked` must be true, because a free asks the
  /// registry which arena allocated the memory.
  explicit thread_arenas(Resource upstream, pool_options const& options = {})
      : shared_{std::make_shared<state>(std::move(upstream), options)} {
    static_assert(
        std::copy_constructible<Resource>,
        "thread_arenas: each arena has a copy of the resource. Pass a resource that holds "
        "a pointer to one that cannot be copied");
    if (!options.is_tracked || simulated<Resource>)
      throw bad_argument{"thread_arenas: its pools must be tracked"};
    (void)own_arena();  // so that bad options are refused here
  }
  thread_arenas(thread_arenas const&) = delete;
  thread_arenas& operator=(thread_arenas const&) = delete;
  ~thread_arenas() {
    std::map<allocator_id, std::shared_ptr<arena>> arenas;
    {
      detail::lock_unless_lost const lock{shared_->mutex};
      if (!lock) {  // in a child: the map may be inconsistent, so it stays
        (void)new std::shared_ptr<state>{std::move(shared_)};
        return;
      }
      arenas.swap(shared_->arenas);
      shared_->is_destroyed = true;
    }
    // threads that have an arena keep the `arena` object without its pool
    for (auto const& [id, entry] : arenas) entry->arena_pool.reset();
  }

  /// The same as `pool::allocate`.
  [[nodiscard]] void* allocate(bytes size) {
    last_used const last = last_of_thread();
    if (last.owner == shared_.get() &&
        size - 1 < last.assigned->max_quick.load(std::memory_order_relaxed)) [[likely]] {  // (H)
      if (void* const result = last.assigned->arena_pool->allocate_quickly(size)) return result;
    }
    return allocate_slowly(size);
  }
  /// Any thread may free. Returns false and changes nothing in three cases: no arena has an
  /// allocation at the address, another thread's slice is marked as freed, or the list of another
  /// thread's returns cannot grow. A second free of a larger allocation of another thread returns
  /// true if the owner has not processed the first free. So does the owner's free of a slice that
  /// another thread has marked. The owner's pool refuses and counts these frees later, with two
  /// exceptions. The memory may have been allocated again in between. Or the owner frees a slice a
  /// second time while another thread takes it for a loan. Then the slice may be allocated twice.
  /// O(1).
  bool deallocate(void* pointer) noexcept {
    last_used const last = last_of_thread();
    if (last.owner == shared_.get() && last.assigned->arena_pool->deallocate_quickly(pointer))
        [[likely]]
      return true;
    return deallocate_slowly(pointer);
  }

  /// The interface of a resource.
  [[nodiscard]] void* allocate(bytes size, bytes alignment) {
    bool const is_aligned =
        std::has_single_bit(alignment) && alignment <= shared_->options.alignment;
    return is_aligned ? allocate(size) : allocate_slowly(size, alignment);
  }
  bool deallocate(void* pointer, bytes, bytes) noexcept { return deallocate(pointer); }

  /// Leaves the calling thread's arena, as at the end of the thread. Then other threads' frees into
  /// it take effect at once. The thread's next allocation takes an arena again. Does nothing if the
  /// arena's resource calls it.
  void leave() noexcept {
    if (has_ended()) return;
    arena* const own = known_arena();
    if (own == nullptr || own->arena_pool->is_calling_resource()) return;
    own->free_all_returned();  // may call the resource, and the resource may use the arenas
    auto& arenas = this_thread_state().arenas;
    auto const found = std::find_if(arenas.begin(), arenas.end(),
                                    [&](auto const& entry) { return entry.assigned.get() == own; });
    if (found == arenas.end()) return;
    if (last_of_thread().owner == shared_.get()) last_of_thread() = {};
    give_up(*shared_, *own);
    arenas.erase(found);
  }
  /// Returns unused blocks to the resource: those of the calling thread's arena and of all arenas
  /// that no thread has. Frees the addresses in their lists first.
  void release() noexcept {
    std::vector<std::shared_ptr<arena>> idle;
    try {
      idle = claim_idle_arenas();
    } catch (...) {  // no memory, or the mutex is lost in a child: the blocks stay
    }
    // twice, because the first round returns what these arenas lend each other
    for (int round = 0; round < 2; ++round) {
      for (auto const& entry : idle) release(*entry);
      // only now, because the resource may have called `leave`
      if (arena* const own = has_ended() ? nullptr : known_arena()) release(*own);
    }
    for (auto const& entry : idle) give_up(*shared_, *entry);
  }

  [[nodiscard]] memory_location location() { return location_of(shared_->resource); }
  /// The counts and the violated invariants of the calling thread's arena.
  [[nodiscard]] pool_counts counts() { return own_pool().counts(); }
  [[nodiscard]] std::vector<std::string> audit() { return own_pool().audit(); }
  [[nodiscard]] std::size_t arenas() const {
    std::lock_guard const lock{shared_->mutex};
    return shared_->arenas.size();
  }

 private:
  using arena = detail::thread_arena<Resource>;
  struct state {
    state(Resource upstream, pool_options const& wanted)
        : resource{std::move(upstream)}, options{wanted} {}
    detail::mutex_held_at_fork mutex;
    std::map<allocator_id, std::shared_ptr<arena>> arenas;  // Guarded by: the mutex
    bool is_destroyed = false;                              // Guarded by: the mutex
    Resource resource;
    pool_options options;
  };
  /// The arenas of a thread, of all instances. The thread leaves its arenas when it ends.
  struct thread_state {
    struct entry {
      std::shared_ptr<state> owner;
      std::shared_ptr<arena> assigned;
    };
    std::vector<entry> arenas;
    ~thread_state() {
      has_ended() = true;
      last_of_thread() = {};
      for (entry& assignment : arenas) give_up(*assignment.owner, *assignment.assigned);
    }
  };

  /// The arena that a thread used last. The thread has the arena, and its list of arenas is not
  /// destroyed.
  struct last_used {
    state* owner = nullptr;
    arena* assigned = nullptr;
  };
  /// The arena of another thread into which a thread freed last. The pointer is valid while the
  /// registry knows an allocation of that id, since no other pool ever gets the id.
  struct last_returned {
    allocator_id id = 0;
    state* owner = nullptr;
    arena* assigned = nullptr;
  };
  [[nodiscard]] static last_returned& last_returned_of_thread() {
    static constinit thread_local last_returned last;
    return last;
  }
  /// Has neither a constructor nor a destructor that runs, so an access is a load.
  [[nodiscard]] static last_used& last_of_thread() {
    static constinit thread_local last_used last;
    return last;
  }
  /// Whether the calling thread's list of arenas is destroyed. Objects of the thread that are
  /// destroyed later may still allocate and free.
  [[nodiscard]] static bool& has_ended() {
    static thread_local bool state = false;  // is not destroyed
    return state;
  }
  /// Allocates in the calling thread's pool. Once the thread's list of arenas is destroyed, the
  /// thread has a pool for this call only.
  template <class... Request>
  [[nodiscard, gnu::noinline]] void* allocate_slowly(Request... request) {
    if (!has_ended()) {
      arena& own = own_arena();
      own.arena_pool->count_freed_elsewhere();
      if (own.has_returns.load(std::memory_order_relaxed)) own.free_returned();  // (H)
      if (!own.returned_slices.is_empty()) {
        if (void* const result = allocate_returned(own, request...)) return result;
      }
      void* result = allocate_reserved(own, request...);
      if (result == nullptr) result = own.arena_pool->allocate(request...);
      if (own.max_quick.load(std::memory_order_relaxed) != own.arena_pool->max_quick())  // (H)
        own.free_returned();
      return result;
    }
    auto const assigned = assign_arena();
    leave_at_end const cleanup{*shared_, *assigned};
    return assigned->arena_pool->allocate(request...);
  }
  /// Frees slices that other threads freed, until the pool can allocate quickly. Returns nullptr if
  /// it cannot after `groups_at_once` groups, so that the time of an allocation is bounded.
  [[nodiscard]] static void* allocate_returned(arena& own, bytes size, bytes alignment = 1) {
    for (int i = 0; i < groups_at_once && own.arena_pool->deallocate_returned(own.returned_slices);
         ++i) {
      if (alignment != 1 || size - 1 >= own.arena_pool->max_quick()) continue;
      if (void* const result = own.arena_pool->allocate_quickly(size)) return result;
    }
    return nullptr;
  }
  static constexpr int groups_at_once = 16;
  /// Allocates without memory of the resource. Returns nullptr if the pool needs such memory.
  [[nodiscard]] void* allocate_reserved(arena& own, bytes size, bytes alignment = 1) {
    return size <= detail::slice_block::max_slice ? allocate_in_blocks(own, size, alignment)
                                                  : allocate_in_chunks(own, size, alignment);
  }
  /// Allocates a slice in the arena's blocks. Borrows a block of other arenas if none has a free
  /// slice. Returns nullptr if the pool needs memory of its own.
  [[nodiscard]] void* allocate_in_blocks(arena& own, bytes size, bytes alignment) {
    if (alignment != 1) return nullptr;
    if (void* const result = own.arena_pool->allocate_in_blocks(size)) return result;
    // With a limit, a pool that has lent its memory could reach it with nothing in use.
    bool const may_borrow = shared_->options.max_bytes == no_limit;
    return may_borrow && own.arena_pool->needs_map_page(size) && borrow(own, size)
               ? own.arena_pool->allocate_in_blocks(size)
               : nullptr;
  }
  /// Borrows memory of other arenas. Asks few of them, and frees a limited number of their slices,
  /// so that the time is bounded.
  [[nodiscard]] bool borrow(arena& own, bytes size) noexcept {
    constexpr std::size_t max_groups = 256, max_groups_before_growth = 4096;
    std::size_t groups = own.arena_pool->lacks_map_page() ? max_groups_before_growth : max_groups;
    for (int i = 0; i < lenders_at_once && groups != 0; ++i) {
      arena* const lender = next_lender(
          own, [](arena& other) { return other.arena_pool->may_lend(other.returned_slices); });
      if (lender == nullptr) return false;
      if (!lender->arena_pool->lend_to(*own.arena_pool, size, lender->returned_slices, groups))
        continue;
      --own.lender;  // so that the same arena is asked first the next time
      return true;
    }
    return false;
  }
  /// Allocates a chunk in the arena's blocks. If none fits, allocates in other arenas, in memory
  /// that threads have freed there. Returns nullptr if the pool needs memory of its own.
  [[nodiscard]] void* allocate_in_chunks(arena& own, bytes size, bytes alignment) {
    if (!own.shares_chunks) return nullptr;
    if (void* const result = own.arena_pool->allocate_at_hand(size, alignment)) return result;
    for (int i = 0; i < lenders_at_once; ++i) {
      arena* const lender = next_lender(own, [size](arena& other) {
        return other.has_returns.load(std::memory_order_relaxed) ||  // (H)
               other.arena_pool->may_serve_another(size);
      });
      if (lender == nullptr) return nullptr;
      void* const result = lender->arena_pool->allocate_for_another(
          size, alignment, lender->returns, lender->returned_slices);
      if (result == nullptr) continue;
      --own.lender;  // so that the same arena is asked first the next time
      return result;
    }
    return nullptr;
  }
  static constexpr int lenders_at_once = 16;
  /// The next arena for which `may_lend(arena)` is true; nullptr if there is none. Looks at few
  /// arenas.
  template <class MayLend>
  [[nodiscard]] arena* next_lender(arena& own, MayLend const& may_lend) noexcept {
    detail::lock_unless_lost const lock{shared_->mutex};
    if (!lock) return nullptr;
    auto const& arenas = shared_->arenas;
    auto next = arenas.upper_bound(own.lender);
    for (std::size_t i = 0; i < std::min<std::size_t>(arenas.size(), lenders_at_once);
         ++i, ++next) {
      if (next == arenas.end()) next = arenas.begin();
      own.lender = next->first;
      arena& lender = *next->second;
      if (&lender != &own && may_lend(lender)) return &lender;
    }
    return nullptr;
  }
  static void release(arena& released) noexcept {
    released.free_all_returned();
    released.arena_pool->release();
  }
  /// Leaves an arena to the next thread that wants one.
  static void give_up(state& owner, arena& left) noexcept {
    detail::lock_unless_lost const lock{owner.mutex};
    left.is_in_use = false;
  }
  struct leave_at_end {
    state& owner;
    arena& assigned;
    ~leave_at_end() { give_up(owner, assigned); }
  };
  /// Takes an arena for a short time. Returns false if another thread has it.
  [[nodiscard]] static bool claim(state& owner, arena& wanted) noexcept {
    if (wanted.is_in_use.load(std::memory_order_relaxed)) return false;  // (H)
    detail::lock_unless_lost const lock{owner.mutex};
    return lock && !wanted.is_in_use.exchange(true);
  }
  /// Takes all arenas that no thread has. Throws std::bad_alloc.
  [[nodiscard]] std::vector<std::shared_ptr<arena>> claim_idle_arenas() {
    std::vector<std::shared_ptr<arena>> result;
    std::lock_guard const lock{shared_->mutex};
    result.reserve(shared_->arenas.size());
    for (auto const& [id, entry] : shared_->arenas) {
      if (!entry->is_in_use.exchange(true)) result.push_back(entry);
    }
    return result;
  }
  /// Must not be called once `has_ended()` is true.
  [[nodiscard]] static thread_state& this_thread_state() {
    static thread_local thread_state thread;
    return thread;
  }
  [[nodiscard]] arena& own_arena() {
    last_used const last = last_of_thread();
    return last.owner == shared_.get() ? *last.assigned : find_own_arena(this_thread_state());
  }
  /// The calling thread's arena, nullptr if it has none. Must not be called once `has_ended()`.
  [[nodiscard]] arena* known_arena() noexcept {
    for (auto const& entry : this_thread_state().arenas) {
      if (entry.owner == shared_) return entry.assigned.get();
    }
    return nullptr;
  }
  [[nodiscard, gnu::noinline]] arena& find_own_arena(thread_state& thread) {
    last_of_thread() = {};  // the state may be destroyed below
    std::erase_if(thread.arenas, [&](auto const& entry) {
      std::lock_guard const lock{entry.owner->mutex};
      return entry.owner->is_destroyed;
    });
    auto found = std::find_if(thread.arenas.begin(), thread.arenas.end(),
                              [&](auto const& entry) { return entry.owner == shared_; });
    if (found == thread.arenas.end()) {
      detail::make_room(thread.arenas, thread.arenas.size() + 1);
      thread.arenas.push_back({shared_, assign_arena()});
      found = thread.arenas.end() - 1;
    }
    last_of_thread() = {shared_.get(), found->assigned.get()};
    return *found->assigned;
  }
  /// An arena that its thread has left, or a new arena.
  [[nodiscard]] std::shared_ptr<arena> assign_arena() {
    {
      std::lock_guard const lock{shared_->mutex};
      for (auto const& [id, entry] : shared_->arenas) {
        if (!entry->is_in_use.exchange(true)) return entry;
      }
    }
    auto fresh = std::make_shared<arena>();
    fresh->begin(std::as_const(shared_->resource), shared_->options);
    std::lock_guard const lock{shared_->mutex};
    shared_->arenas.emplace(fresh->arena_pool->id(), fresh);
    return fresh;
  }

  /// The calling thread's pool, after freeing the allocations that other threads returned.
  [[nodiscard]] detail::arena_pool<Resource>& own_pool() {
    arena& own = own_arena();
    own.free_all_returned();
    return *own.arena_pool;
  }
  /// The arena whose pool has this id; nullptr if there is none. The pool must have an allocation
  /// in use.
  [[nodiscard]] arena* arena_of(allocator_id id) noexcept {
    arena* const last = last_returned_to(id);
    return last != nullptr ? last : find_arena_of(id);
  }
  [[nodiscard]] arena* last_returned_to(allocator_id id) noexcept {
    last_returned const last = last_returned_of_thread();
    return last.id == id && last.owner == shared_.get() ? last.assigned : nullptr;
  }
  [[nodiscard, gnu::noinline]] arena* find_arena_of(allocator_id id) noexcept {
    detail::lock_unless_lost const lock{shared_->mutex};
    if (!lock) return nullptr;
    auto const owner = shared_->arenas.find(id);
    if (owner == shared_->arenas.end()) return nullptr;
    last_returned_of_thread() = {id, shared_.get(), owner->second.get()};
    return owner->second.get();
  }
  /// Frees an address that is no slice of the arena used last.
  [[gnu::noinline]] bool deallocate_slowly(void* pointer) noexcept {
    auto const is_freed = return_slice(pointer);
    return is_freed ? *is_freed : deallocate_otherwise(pointer);
  }
  [[gnu::noinline]] bool deallocate_otherwise(void* pointer) noexcept {
    if (pointer == nullptr) return true;
    last_used const last = last_of_thread();
    arena* const own = last.owner == shared_.get() ? last.assigned
                       : has_ended()               ? nullptr
                                                   : known_arena();
    if (own != nullptr) {
      allocator_id const owner = registry::only_allocator_of(pointer);
      if ((owner == 0 || owner == own->arena_pool->id()) &&
          own->arena_pool->try_deallocate(pointer))
        return true;
    }
    return return_to_owner(pointer);
  }
  /// Frees a slice of the arena to which the thread returned memory last. Returns false if it is
  /// freed already, and nullopt if there is no such slice or if no thread has the arena.
  [[nodiscard, gnu::always_inline]] std::optional<bool> return_slice(void* pointer) noexcept {
    auto const base = reinterpret_cast<std::uint64_t>(pointer);
    if (base >= detail::object_starts::end) return std::nullopt;
    detail::chunk_view const* const view = detail::page_map::only_view(base);
    detail::slice_block* block = view == nullptr ? nullptr : view->own_slice_block_of(base);
    if (block == nullptr) return std::nullopt;
    detail::slice_block* const loan = block->loan();
    if (loan != nullptr) [[unlikely]]
      block = loan;
    auto const [number, slice] = block->look(base);
    if (slice.has_flags()) return std::nullopt;
    std::uint64_t const owner =
        loan != nullptr ? loan->borrower() : view->owner.load_acquire() >> 16;
    arena* const assigned = last_returned_to(static_cast<allocator_id>(owner));
    if (assigned == nullptr || !assigned->is_in_use.load(std::memory_order_relaxed))  // (H)
      return std::nullopt;
    if (detail::is_poisoned(shared_->resource)) {
      if (detail::returned_slices::has(*block, number)) return false;
      detail::poison(pointer, slice.requested());  // before the owner may reuse it
    }
    return assigned->returned_slices.add(*block, number);
  }
  bool return_to_owner(void* pointer) noexcept {
    auto const found = registry::find(pointer);
    if (!found || found->base != pointer) return false;
    arena* assigned = arena_of(found->allocator);
    if (assigned == nullptr) return false;
    if (allocator_id const borrower = assigned->arena_pool->borrower_of(pointer); borrower != 0)
      assigned = arena_of(borrower);
    if (assigned == nullptr) return false;
    if (auto const is_freed = return_slice(pointer)) return *is_freed;
    if (claim(*shared_, *assigned)) {
      leave_at_end const cleanup{*shared_, *assigned};
      assigned->free_all_returned();
      return assigned->arena_pool->deallocate(pointer);
    }
    bool const is_poisoned = detail::is_poisoned(shared_->resource);
    if (is_poisoned) detail::poison(pointer, found->size);  // before the owner may reuse it
    if (assigned->returns.add(pointer, [&] { assigned->announce_returns(); })) return true;
    if (is_poisoned) detail::unpoison(pointer, found->size);  // the allocation stays in use
    return false;
  }

  std::shared_ptr<state> shared_;
};

}  // namespace quarry::inline QUARRY_ABI
