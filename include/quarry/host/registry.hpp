// SPDX-License-Identifier: Apache-2.0
// What is allocated where: from any address to a record of its allocation, for all pools and
// tracked resources of the process.
//
// Lookups are lock-free and may be made by any thread at any time: directory -> the pool's start
// bits -> its table. A pool writes to its own tables only, so allocations of different pools never
// wait for each other.
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/host/directory.hpp"
#include "quarry/host/memory_place.hpp"

#include <iosfwd>
#include <mutex>
#include <optional>
#include <source_location>
#include <string>
#include <unordered_map>
#include <vector>

namespace quarry::inline QUARRY_ABI {

/// The number of a pool or tracked resource, unique in the process. 0 means no allocator.
using allocator_id = std::uint32_t;

struct allocation_record {
  allocator_id allocator = 0;
  memory_place place;
  bool is_noted = false;  ///< `registry::note_of` has a name for it
  void* begin = nullptr;
  bytes size = 0;  ///< as asked for
};

/// What a user said of an allocation, and where.
struct allocation_note {
  std::string name;
  std::source_location where;
  std::vector<void*> frames = {};  ///< of its callers, the innermost first, if its pool keeps them
};

/// The registration of an allocator: its id, its name, and the notes of its allocations.
///
/// The owner of the table owns it. Any thread may call its const functions, and `registry`. The
/// mutex guards everything but the id.
class QUARRY_API ledger {
 public:
  /// Makes `table` known. Nothing may be in use in it. `is_everywhere`: its addresses are anywhere,
  /// so that they are looked for if no block has them. Throws std::bad_alloc; `bad_argument` for
  /// more than 64 that are everywhere.
  ledger(piece_table& table, memory_place place, std::string name, bool is_everywhere = false);
  ~ledger();
  ledger(ledger const&) = delete;
  ledger& operator=(ledger const&) = delete;

  [[nodiscard]] allocator_id id() const { return id_; }
  [[nodiscard]] std::string name() const;
  void rename(std::string name);

  /// A block that the table has from now on. Throws std::bad_alloc, and has changed nothing then.
  void add_block(std::uint64_t begin, bytes size);
  void remove_block(std::uint64_t begin, bytes size) noexcept {
    directory::remove(table_.public_book(), begin, size);
  }

  /// Keeps the frames that an earlier note of it has.
  void note(std::uint64_t begin, allocation_note what);
  /// To be called before the first `note_backtrace`, while no lock is held: the first backtrace of
  /// a process may load a shared object, and the dynamic linker has a lock.
  static void prepare_backtraces() noexcept;
  /// Notes where the caller was called from, 32 frames at most. False if there is no memory for
  /// that, or the platform cannot tell.
  bool note_backtrace(std::uint64_t begin) noexcept;
  void forget(std::uint64_t begin) noexcept;
  [[nodiscard]] std::optional<allocation_note> note_of(std::uint64_t begin) const;

  /// Bytes of its notes, as far as can be told, without itself: what a node has beside its note is
  /// the library's.
  [[nodiscard]] bytes footprint() const;
  /// The same, with the directory's entries for so many blocks of `held` bytes in all.
  [[nodiscard]] bytes footprint(bytes held, std::size_t blocks) const {
    return footprint() + directory::share_of(held + blocks * directory::granule);
  }

  [[nodiscard]] piece_book const& book() const { return table_.public_book(); }
  [[nodiscard]] memory_place place() const { return place_; }

  /// Around a fork; in the child with what another thread was about to change given up.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  void unlock_in_child() {
    table_.abandon_move();
    mutex_.unlock();
  }

 private:
  friend struct process_layout;

  piece_table& table_;
  memory_place place_;
  allocator_id id_;
  bool is_everywhere_;
  mutable std::mutex mutex_;
  std::string name_;
  std::unordered_map<std::uint64_t, allocation_note> notes_;
};

namespace registry {

/// What a book has for `owner`, and what of it a record tells.
[[nodiscard]] constexpr std::uint64_t packed(allocator_id id, memory_place place) {
  return std::uint64_t{id} << 16 | static_cast<std::uint64_t>(place.kind) << 8 | place.device;
}
[[nodiscard]] inline allocation_record record_of(std::uint64_t owner,
                                                 piece_table::record const& found) {
  memory_place const place{static_cast<memory_kind>(owner >> 8 & 255),
                           static_cast<std::uint8_t>(owner & 255)};
  return {static_cast<allocator_id>(owner >> 16), place, found.is_noted != 0,
          reinterpret_cast<void*>(found.begin), found.size};
}
/// A bit of a book's owner: a tracked resource took some of the pool's memory, and then both have a
/// record of it.
inline constexpr std::uint64_t is_below_others = std::uint64_t{1} << 63;
/// To be called by a tracked resource before what it took becomes known as its own: finds the pool,
/// if there is one, that has a record of `address`, and marks it as one below others.
QUARRY_API void mark_below(std::uint64_t address) noexcept;
/// The slow path of `find`: several pools share the granule, the allocation is large, no pool has
/// the address, or a tracked resource over the pool may have a record of it, too.
[[nodiscard]] QUARRY_API std::optional<allocation_record> find_slowly(std::uint64_t address);

/// The record of the allocation that contains `address`. Where allocators stand on each other,
/// several records contain it: the smallest one counts, and of equally large ones that of the
/// youngest allocator. So an address that is free in a pool finds the pool's block, if a tracked
/// or named resource allocated that. Nullopt if no record contains the address, if it is beyond
/// 2^48, or in a block of more than 2^38 bytes. O(1) expected.
[[nodiscard]] inline std::optional<allocation_record> find(void const* address) {
  auto const number = reinterpret_cast<std::uint64_t>(address);
  if (number >= address_starts::end) return std::nullopt;
  if (piece_book const* const only = directory::only_one(number)) {
    if (auto const found = only->find(number)) {
      std::uint64_t const owner = only->owner.seen();
      if ((owner & is_below_others) == 0) [[likely]]
        return record_of(owner, found);
    }
  }
  return find_slowly(number);
}

/// What was said of the allocation that has `address`. Takes its allocator's lock.
[[nodiscard]] QUARRY_API std::optional<allocation_note> note_of(void const* address);

struct allocator_info {
  allocator_id id;
  std::string name;
  memory_place place;
  std::size_t allocations;  // live
  bytes live;               // as asked for
};
/// The allocators there are, by id. O(all allocations).
[[nodiscard]] QUARRY_API std::vector<allocator_info> allocators();
/// Its name, or "" if there is none of that id.
[[nodiscard]] QUARRY_API std::string name_of(allocator_id id);

/// What is live: `allocator` 0 means all. While other threads allocate, what changes may be missed.
[[nodiscard]] QUARRY_API std::vector<allocation_record> live(allocator_id allocator = 0);

/// Writes a line for each live allocation, with its name and where it was named, and a line for
/// each allocator: at the end of a program, its leaks. It holds no lock while it writes, so `out`
/// may use pools. Throws std::bad_alloc, and what `out` throws.
QUARRY_API void report(std::ostream& out, allocator_id allocator = 0);

}  // namespace registry
}  // namespace quarry::inline QUARRY_ABI
