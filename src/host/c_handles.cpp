// SPDX-License-Identifier: Apache-2.0
#include "c_handles.hpp"

#include "process_lists.hpp"

#include <pthread.h>

#include <algorithm>
#include <cstdio>
#include <new>
#include <string>
#include <vector>

namespace quarry::c_api {

constinit std::atomic<handle_slot*>
    handle_table::pages_[handle_table::most_slots / handle_table::slots_of_page]{};

namespace {

/// The slots without an object. Guarded by: the mutex, which is taken before a slot's.
struct free_slots {
  std::mutex mutex;
  std::vector<std::uint32_t> numbers;  // has room for every slot
  std::uint32_t made = 0;              // slots that there are
};
free_slots& all();

[[nodiscard]] char const* name_of(handle_kind kind) {
  switch (kind) {
    case handle_kind::pool:
      return "pool";
    case handle_kind::stream_pool:
      return "stream pool";
    case handle_kind::segment:
      return "segment";
  }
  return nullptr;
}
[[nodiscard]] char const* end_of(handle_kind kind) {
  return kind == handle_kind::segment ? "closed" : "destroyed";
}

}  // namespace

/// A fork finds the objects of all handles at rest, but for those that `shared_use` is for: what
/// visits them there are threads that the child does not have.
struct handles_at_fork {
  static void before() {
    all().mutex.lock();
    for_each([](handle_slot& slot) {
      slot.mutex.lock();
      if (slot.handle == 0) slot.mutex.unlock();
    });
  }
  static void in_parent() {
    for_each([](handle_slot& slot) {
      if (slot.handle != 0) slot.mutex.unlock();
    });
    all().mutex.unlock();
  }
  static void in_child() {
    for_each([](handle_slot& slot) {
      slot.visitors.store(0, std::memory_order_relaxed);
      // a thread that the child does not have may have been looking at what is not there
      if (slot.handle == 0) new (&slot.mutex) std::mutex;
    });
    in_parent();
  }

 private:
  template <class Work>
  static void for_each(Work const& work) {
    for (std::uint32_t number = 0; number < all().made; ++number)
      work(handle_table::slot_number(number));
  }
};

namespace {

free_slots& all() {
  // handles that are closed after main() have one, too
  static free_slots& it = []() -> free_slots& {
    // A call holds its slot while it takes the registry's locks. So a fork locks slots first, by
    // the handler that is registered last.
    watch_registry_at_fork();
    pthread_atfork(&handles_at_fork::before, &handles_at_fork::in_parent,
                   &handles_at_fork::in_child);
    return *new free_slots;
  }();
  return it;
}
// Before there are threads: a fork must not find one of them in the midst of that.
[[maybe_unused]] free_slots& made_early = all();

}  // namespace

handle_value handle_table::add(handle_kind kind, void* object) {
  free_slots& free = all();
  std::lock_guard const held{free.mutex};
  if (free.numbers.empty()) {
    if (free.made == most_slots)
      throw out_of_memory{"handles", sizeof(handle_slot),
                          std::to_string(most_slots) + " handles are live"};
    free.numbers.reserve(free.made + slots_of_page);
    pages_[free.made / slots_of_page].store(new handle_slot[slots_of_page],
                                            std::memory_order_release);  // (P)
    for (std::uint32_t i = slots_of_page; i-- != 0;) free.numbers.push_back(free.made + i);
    free.made += slots_of_page;
  }
  std::uint32_t const number = free.numbers.back();
  free.numbers.pop_back();
  handle_slot& slot = slot_number(number);
  std::lock_guard const held_too{slot.mutex};
  auto const handle = handle_value::of(kind, ++slot.generation, number);
  slot.handle = handle.bits;
  slot.object = object;
  return handle;
}

void* handle_table::remove(handle_value handle, handle_kind kind, char const* call) {
  handle_slot& slot = lock(handle, kind, call);
  void* const object = slot.object;
  slot.handle = 0;
  slot.object = nullptr;
  bool const is_used_up = slot.generation == ~std::uint32_t{0};
  slot.mutex.unlock();
  while (std::uint32_t const others = slot.visitors.load(std::memory_order_acquire))  // (W)
    slot.visitors.wait(others, std::memory_order_acquire);
  if (is_used_up) return object;
  free_slots& free = all();
  std::lock_guard const held{free.mutex};
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
  bool is_live = false;
  bool was_live = false;
  handle_slot* const slot = slot_of(handle);
  if (slot != nullptr && found != nullptr) {
    std::lock_guard const held{slot->mutex};
    is_live = slot->handle == handle.bits;
    was_live = !is_live && handle.generation() != 0 &&
               (slot->handle == 0 ? handle.generation() <= slot->generation
                                  : handle.generation() < slot->generation);
  }
  if (!is_live && !was_live)
    throw bad_argument{start + number + " is no handle of a " + wanted +
                       ", and of nothing else that Quarry made"};
  if (handle.kind() == kind)
    throw was_destroyed{start + "the " + wanted + ' ' + number + " was " + end_of(kind)};
  throw bad_argument{start + number + " is a " + found +
                     (was_live ? std::string{" that was "} + end_of(handle.kind()) : "") +
                     ", not a " + wanted};
}

}  // namespace quarry::c_api
