// SPDX-License-Identifier: Apache-2.0
#include "host/c_handles.hpp"

#include "host/registry/process_lists.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI::c_api {

using namespace detail;

constinit std::atomic<handle_page*>
    handle_table::pages_[handle_table::max_slots / handle_table::slots_of_page]{};
constinit std::atomic<handle_slot const*> handle_table::awaited_{nullptr};

namespace {

/// The slots without an object. Guarded by: the mutex, which is locked before a slot's mutex.
struct free_slots {
  std::mutex mutex;
  std::vector<std::uint32_t> numbers;  // has capacity for every slot
  std::uint32_t made = 0;              // number of existing slots
  std::uint64_t objects = 0;           // number of objects that had a handle
  // The slots that a fork holds, in the order of locking, and those that it gave up. With capacity
  // for all slots. Guarded by: the mutex of the process's forks.
  std::vector<std::uint32_t> locked, given_up;
};
free_slots& instance();

/// The object of a slot that a thread held at the fork that made this process, for good.
char lost_object;

[[nodiscard]] char const* name_of(handle_kind kind) {
  switch (kind) {
    case handle_kind::pool:
      return "pool";
    case handle_kind::stream_pool:
      return "stream pool";
    case handle_kind::segment:
      return "segment";
    case handle_kind::allocator:
      return "allocator";
    case handle_kind::opencl_heap:
      return "OpenCL heap";
  }
  return nullptr;
}
[[nodiscard]] std::string with_article(std::string const& name) {
  return (name.front() == 'a' || name.front() == 'O' ? "an " : "a ") + name;
}
[[nodiscard]] char const* end_of(handle_kind kind) {
  return kind == handle_kind::segment ? "closed" : "destroyed";
}

}  // namespace

/// Locks all slots around a fork, so that the objects of all handles are consistent in the child.
/// Exceptions are objects of `shared_use`, which threads may be using that the child does not have.
/// A slot that the fork gives up has no live handle in the child.
///
/// A call may hold the slot of an object while it waits for the slot of an older one, so the
/// youngest object's slot is locked first. No thread waits for long while it holds the table's
/// mutex.
struct handles_at_fork {
  static std::mutex* lock(fork_clock::time_point latest, bool keeps_part) {
    free_slots& free = instance();
    while (!lock_until(free.mutex, fork_clock::now() + std::chrono::seconds{1})) {
    }
    free.locked.clear();
    free.given_up.clear();
    for (std::uint32_t number = 0; number < free.made; ++number) free.locked.push_back(number);
    std::sort(free.locked.begin(), free.locked.end(), [](std::uint32_t a, std::uint32_t b) {
      return handle_table::birth_number(a).load(std::memory_order_relaxed) >
             handle_table::birth_number(b).load(std::memory_order_relaxed);
    });
    std::mutex* busy = nullptr;
    std::size_t count = 0;
    for (std::uint32_t const number : free.locked) {
      handle_slot& slot = handle_table::slot_number(number);
      if (lock(slot, latest, keeps_part)) {
        free.locked[count++] = number;
        if (slot.handle == 0) slot.mutex.unlock();
      } else if (holder_of(slot.mutex) == gettid()) {
        // the thread also holds the slot in the child
      } else if (keeps_part) {
        free.given_up.push_back(number);
      } else {
        busy = &slot.mutex;
        break;
      }
    }
    free.locked.resize(count);
    if (busy != nullptr) unlock_in_parent();
    return busy;
  }
  static void unlock_in_parent() {
    for (std::uint32_t const number : instance().locked) {
      handle_slot& slot = handle_table::slot_number(number);
      if (slot.handle != 0) slot.mutex.unlock();
    }
    instance().mutex.unlock();
  }
  static void unlock_in_child() {
    for (std::uint32_t const number : instance().locked) {
      handle_slot& slot = handle_table::slot_number(number);
      slot.visitors.store(0, std::memory_order_relaxed);
      // A thread that does not exist in the child may have locked a slot that has no object.
      if (slot.handle == 0) new (&slot.mutex) std::mutex;
    }
    for (std::uint32_t const number : instance().given_up) {
      handle_slot& slot = handle_table::slot_number(number);
      new (&slot.mutex) std::mutex;
      slot.handle = 0;
      slot.object = &lost_object;
    }
    unlock_in_parent();
  }

 private:
  /// Waits for a slot until `latest`, or with `keeps_part` for a short time only.
  static bool lock(handle_slot& slot, fork_clock::time_point latest, bool keeps_part) {
    if (slot.mutex.try_lock()) return true;
    if (holder_of(slot.mutex) == gettid()) return false;
    auto& awaited = handle_table::awaited_;
    awaited.store(&slot, std::memory_order_relaxed);  // (H)
    auto const soon = fork_clock::now() + std::chrono::milliseconds{20};
    bool const is_locked = lock_until(slot.mutex, keeps_part ? soon : latest);
    awaited.store(nullptr, std::memory_order_relaxed);  // (H)
    awaited.notify_all();
    return is_locked;
  }
};

namespace {

free_slots& instance() {
  static free_slots& created =
      *new free_slots;  // never destroyed: handles may be closed after main()
  return created;
}
static_assert(copy_at_fork::max_copies == handle_value::max_copies);
[[nodiscard]] std::uint32_t number_of_this_copy() {
  // a call holds its slot while it takes the registry's locks
  static copy_at_fork const copy{{&handles_at_fork::lock, &handles_at_fork::unlock_in_parent,
                                  &handles_at_fork::unlock_in_child}};
  static std::uint32_t const number = copy.number();
  return number;
}
// Runs before the program makes threads: no fork may find a thread inside this initialisation.
[[maybe_unused]] std::uint32_t const made_early = number_of_this_copy();

}  // namespace

handle_value handle_table::add(handle_kind kind, void* object) {
  free_slots& free = instance();
  std::lock_guard const lock{free.mutex};
  if (free.numbers.empty()) {
    if (free.made == max_slots)
      throw out_of_memory{"handles", sizeof(handle_slot),
                          std::to_string(max_slots) + " handles are live"};
    free.numbers.reserve(free.made + slots_of_page);
    free.locked.reserve(free.made + slots_of_page);
    free.given_up.reserve(free.made + slots_of_page);
    pages_[free.made / slots_of_page].store(new handle_page,
                                            std::memory_order_release);  // (P)
    for (std::uint32_t i = slots_of_page; i-- != 0;) free.numbers.push_back(free.made + i);
    free.made += slots_of_page;
  }
  std::uint32_t const number = free.numbers.back();
  free.numbers.pop_back();
  handle_slot& slot = slot_number(number);
  std::lock_guard const held_too{slot.mutex};
  auto const handle = handle_value::encode(kind, number_of_this_copy(), ++slot.generation, number);
  slot.handle = handle.bits;
  slot.object = object;
  birth_number(number).store(++free.objects, std::memory_order_relaxed);
  return handle;
}

void handle_table::wait_for_fork(handle_slot const* slot) {
  awaited_.wait(slot, std::memory_order_relaxed);  // (H)
}

void* handle_table::remove_object(handle_slot& slot, handle_value handle) {
  void* const object = slot.object;
  slot.handle = 0;
  slot.object = nullptr;
  bool const is_used_up = slot.generation == handle_value::max_generations;
  slot.mutex.unlock();
  while (std::uint32_t const count = slot.visitors.load(std::memory_order_acquire))  // (W)
    slot.visitors.wait(count, std::memory_order_acquire);
  if (is_used_up) return object;
  free_slots& free = instance();
  std::lock_guard const lock{free.mutex};
  free.numbers.push_back(handle.slot());
  return object;
}

void handle_table::refuse(handle_value handle, handle_kind kind, char const* call) {
  std::string const wanted = name_of(kind);
  std::string const start = std::string{call} + ": ";
  if (handle.bits == 0) throw bad_argument{start + "the " + wanted + " is null"};
  char number[32];
  std::snprintf(number, sizeof number, "0x%llx", static_cast<unsigned long long>(handle.bits));
  char const* const found = name_of(handle.kind());
  if (found != nullptr && handle.is_marked() && handle.copy() != number_of_this_copy())
    throw bad_argument{start + number + " is a " + found +
                       " of another copy of Quarry in this program"};
  bool is_live = false;
  bool was_live = false;
  bool is_lost = false;
  handle_slot* const slot = slot_of(handle);
  if (slot != nullptr && found != nullptr) {
    std::lock_guard const lock{slot->mutex};
    is_live = slot->handle == handle.bits;
    is_lost = slot->object == &lost_object && slot->generation == handle.generation();
    was_live = !is_live && handle.generation() != 0 &&
               (slot->handle == 0 ? handle.generation() <= slot->generation
                                  : handle.generation() < slot->generation);
  }
  if (!is_live && !was_live)
    throw bad_argument{start + number + " is not a handle of " + with_article(wanted) +
                       " or of another object of Quarry"};
  if (is_lost)
    throw was_destroyed{start + "another thread was using the " + found + ' ' + number +
                        " when the process forked, so it does not exist in this child"};
  if (handle.kind() == kind)
    throw was_destroyed{start + "the " + wanted + ' ' + number + " was " + end_of(kind)};
  throw bad_argument{start + number + " is " + with_article(found) +
                     (was_live ? std::string{" that was "} + end_of(handle.kind()) : "") +
                     ", not " + with_article(wanted)};
}

}  // namespace quarry::inline QUARRY_ABI::c_api
