// SPDX-License-Identifier: Apache-2.0
// The table of the handles of the C API and of `any_allocator`. A handle is a number, not an
// address: it is looked up in the table and never dereferenced.
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/host/c_extension.hpp"
#include "quarry/host/detail/process_state.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

namespace quarry::inline QUARRY_ABI::c_api {

/// The value of a handle. Its bits:
///   56 to 63: a mark that no address of user memory has, with the layout of the process's state;
///   52 to 55: the kind of the object;
///   44 to 51: the number of the copy of the library, because each copy has its own table;
///   20 to 43: the generation, which numbers the objects of a slot;
///    0 to 19: the number of the slot.
/// A slot serves at most 2^24 - 1 objects, so no value is used twice.
struct handle_value {
  static constexpr std::uint64_t mark = 0x50 | (QUARRY_STATE_LAYOUT & 15);
  static constexpr std::uint32_t slot_bits = 20, generation_bits = 24, copy_bits = 8;
  static constexpr std::uint32_t copy_shift = slot_bits + generation_bits;
  static constexpr std::uint32_t max_generations = (std::uint32_t{1} << generation_bits) - 1;
  static constexpr std::uint32_t max_copies = (std::uint32_t{1} << copy_bits) - 1;

  std::uint64_t bits = 0;

  [[nodiscard]] static constexpr handle_value encode(handle_kind kind, std::uint32_t copy,
                                                     std::uint32_t generation, std::uint32_t slot) {
    return {mark << 56 | static_cast<std::uint64_t>(kind) << 52 |
            std::uint64_t{copy} << copy_shift | std::uint64_t{generation} << slot_bits | slot};
  }
  template <class Handle>
  [[nodiscard]] static handle_value decode(Handle* handle) {
    return {reinterpret_cast<std::uint64_t>(handle)};
  }
  [[nodiscard]] constexpr bool is_marked() const { return bits >> 56 == mark; }
  [[nodiscard]] constexpr handle_kind kind() const {
    return static_cast<handle_kind>(bits >> 52 & 15);
  }
  [[nodiscard]] constexpr std::uint32_t copy() const {
    return static_cast<std::uint32_t>(bits >> copy_shift) & max_copies;
  }
  [[nodiscard]] constexpr std::uint32_t generation() const {
    return static_cast<std::uint32_t>(bits >> slot_bits) & max_generations;
  }
  [[nodiscard]] constexpr std::uint32_t slot() const {
    return static_cast<std::uint32_t>(bits & ((1 << slot_bits) - 1));
  }
};

/// An entry of the table. Slots are never freed, so a slot may be locked and read even after its
/// object was destroyed.
struct alignas(64) handle_slot {
  std::mutex mutex;
  std::uint64_t handle = 0;      // of the live object; 0: no object. Guarded by: `mutex`
  void* object = nullptr;        // Guarded by: `mutex`
  std::uint32_t generation = 0;  // of the latest object. Guarded by: `mutex`
  /// The number of running calls that do not hold `mutex`. It increases under `mutex`, and
  /// decreases at any time by (D), a release. The thread that closes the handle acquires it by (W).
  std::atomic<std::uint32_t> visitors{0};
};

/// A page of slots. The birth of a slot's object is the number of objects that had a handle before
/// it. A birth is written under the table's mutex and the slot's mutex before the handle is
/// returned. It is read without a mutex.
struct handle_page {
  static constexpr std::uint32_t slot_count = 256;
  handle_slot slots[slot_count];
  std::atomic<std::uint64_t> births[slot_count]{};
};

/// All handles of this copy of the library: at most 2^20 at a time.
///
/// Any thread may call the functions, also in the child of a fork. A fork waits for calls that hold
/// a slot's mutex, so their objects are consistent in the child. The handle of a call that the fork
/// gives up is not live in the child (mutex_held_at_fork). A call that holds a slot may lock
/// the slot of an older object, such as the allocator that a pool takes its blocks from. It never
/// locks the slot of a younger object. Costs a load and a comparison per call, and 80 bytes per
/// handle at the peak number of live handles.
class handle_table {
 public:
  /// Makes a handle of `object`. Throws `out_of_memory`.
  [[nodiscard]] static handle_value add(handle_kind kind, void* object);
  /// Ends a handle, waits until no call uses the object, and returns the object. Error messages
  /// start with `call`. Throws `was_destroyed` or `bad_argument` if the handle is not live, or not
  /// of that kind.
  [[nodiscard]] static void* remove(handle_value handle, handle_kind kind, char const* call) {
    return remove(handle, kind, call, [](void*) {});
  }
  /// The same, unless `check(object)` throws: then the handle stays live.
  template <class Check>
  [[nodiscard]] static void* remove(handle_value handle, handle_kind kind, char const* call,
                                    Check const& check) {
    handle_slot& slot = lock(handle, kind, call);
    try {
      check(slot.object);
    } catch (...) {
      slot.mutex.unlock();
      throw;
    }
    return remove_object(slot, handle);
  }

  /// The birth of a live handle's object: larger for objects that got their handle later. For a
  /// handle that is not live it is the birth of another object, or 0.
  [[nodiscard]] static std::uint64_t birth_of(handle_value handle) {
    handle_page const* const page = page_of(handle);
    return page == nullptr ? 0
                           : page->births[handle.slot() % handle_page::slot_count].load(
                                 std::memory_order_relaxed);
  }

  /// Locks the slot of a live handle of that kind. Throws as `remove` does.
  [[nodiscard]] static handle_slot& lock(handle_value handle, handle_kind kind, char const* call) {
    if (handle_slot* const found = slot_of(handle)) [[likely]] {
      if (awaited_.load(std::memory_order_relaxed) == found) [[unlikely]]  // (H)
        wait_for_fork(found);
      lock_slot(found->mutex);
      if (found->handle == handle.bits && handle.kind() == kind) [[likely]]
        return *found;
      found->mutex.unlock();
    }
    refuse(handle, kind, call);
  }

 private:
  friend struct handles_at_fork;

  static constexpr std::uint32_t slots_of_page = handle_page::slot_count;
  static constexpr std::uint32_t max_slots = 1 << handle_value::slot_bits;

  /// The page of a handle, live or not; nullptr if the value cannot be a handle.
  [[nodiscard]] static handle_page* page_of(handle_value handle) {
    if (!handle.is_marked()) return nullptr;
    // Acquires (P), the release that published the page after it was written.
    return pages_[handle.slot() / slots_of_page].load(std::memory_order_acquire);
  }
  [[nodiscard]] static handle_slot* slot_of(handle_value handle) {
    handle_page* const page = page_of(handle);
    return page == nullptr ? nullptr : &page->slots[handle.slot() % slots_of_page];
  }
  /// An existing slot, and the birth of its object. Both require the table's mutex.
  [[nodiscard]] static handle_slot& slot_number(std::uint32_t number) {
    return page_number(number).slots[number % slots_of_page];
  }
  [[nodiscard]] static std::atomic<std::uint64_t>& birth_number(std::uint32_t number) {
    return page_number(number).births[number % slots_of_page];
  }
  [[nodiscard]] static handle_page& page_number(std::uint32_t number) {
    return *pages_[number / slots_of_page].load(std::memory_order_relaxed);
  }
  /// A slot serves one object after another, so two slots have no lasting order of locking.
  /// ThreadSanitizer learns none from `try_lock`.
  static void lock_slot(std::mutex& mutex) {
#if defined(__SANITIZE_THREAD__)
    if (mutex.try_lock()) return;
#endif
    mutex.lock();
  }
  [[noreturn]] static void refuse(handle_value handle, handle_kind kind, char const* call);
  /// Waits until a fork does not wait for the slot.
  static void wait_for_fork(handle_slot const* slot);
  /// Ends a handle. Requires the slot's mutex, and unlocks it.
  [[nodiscard]] static void* remove_object(handle_slot& slot, handle_value handle);

  static std::atomic<handle_page*> pages_[max_slots / slots_of_page];
  /// The slot that a fork waits for, which calls leave to the fork. A hint, so loads and stores are
  /// relaxed (H): a call that reads an old value locks the slot before the fork does.
  static std::atomic<handle_slot const*> awaited_;
};

/// The object of a live handle, for a call that excludes other calls on the handle.
class exclusive_use {
 public:
  exclusive_use(handle_value handle, handle_kind kind, char const* call)
      : slot_{handle_table::lock(handle, kind, call)} {}
  exclusive_use(exclusive_use const&) = delete;
  exclusive_use& operator=(exclusive_use const&) = delete;
  ~exclusive_use() { slot_.mutex.unlock(); }

  [[nodiscard]] void* object() const { return slot_.object; }

 private:
  handle_slot& slot_;
};

/// The same for an object that has its own locks: only the thread that closes the handle waits.
class shared_use {
 public:
  shared_use(handle_value handle, handle_kind kind, char const* call)
      : slot_{handle_table::lock(handle, kind, call)}, object_{slot_.object} {
    slot_.visitors.fetch_add(1, std::memory_order_relaxed);
    slot_.mutex.unlock();
  }
  shared_use(shared_use const&) = delete;
  shared_use& operator=(shared_use const&) = delete;
  ~shared_use() {
    if (slot_.visitors.fetch_sub(1, std::memory_order_release) == 1)  // (D)
      slot_.visitors.notify_all();
  }

  [[nodiscard]] void* object() const { return object_; }

 private:
  handle_slot& slot_;
  void* object_;
};

/// The object type of a handle type of C. It has a `kind`, and a type `use`: `exclusive_use` if
/// calls are serialised, else `shared_use`.
template <class Handle>
struct handle_object;

/// Makes a handle of the object.
template <class Handle>
[[nodiscard]] Handle* add_handle(std::unique_ptr<typename handle_object<Handle>::type> object) {
  auto const made = handle_table::add(handle_object<Handle>::type::kind, object.get());
  (void)object.release();
  return reinterpret_cast<Handle*>(made.bits);
}

/// Destroys the handle's object. Throws as `handle_table::remove` does.
template <class Handle>
void remove_handle(Handle* handle, char const* call) {
  using object = typename handle_object<Handle>::type;
  std::unique_ptr<object> const removed{
      static_cast<object*>(handle_table::remove(handle_value::decode(handle), object::kind, call))};
}

}  // namespace quarry::inline QUARRY_ABI::c_api
