// SPDX-License-Identifier: Apache-2.0
// What is allocated where: from any address to a record of its allocation, for all pools and
// tracked resources of the process.
//
// Lookups are lock-free and may be made by any thread at any time: page map -> the pool's start
// bits -> its table. A pool writes to its own tables only, so allocations of different pools never
// wait for each other.
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/host/registry/memory_location.hpp"
#include "quarry/host/registry/page_map.hpp"

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
  memory_location location;
  bool is_labelled = false;  ///< `registry::label_of` has a name for it
  void* base = nullptr;
  bytes size = 0;  ///< as asked for
};

/// What a user said of an allocation, and where.
struct allocation_label {
  std::string name;
  std::source_location where;
  std::vector<void*> frames = {};  ///< of its callers, the innermost first, if its pool keeps them
};

/// The registration of an allocator: its id, its name, and the labels of its allocations.
///
/// The owner of the table owns it. Any thread may call its const functions, and `registry`. The
/// mutex guards everything but the id.
class QUARRY_API registration {
 public:
  /// Makes `table` known. Nothing may be in use in it. `is_everywhere`: its addresses are anywhere,
  /// so that they are looked for if no block has them. Throws std::bad_alloc; `bad_argument` for
  /// more than 64 that are everywhere.
  registration(chunk_table& table, memory_location location, std::string name,
               bool is_everywhere = false);
  ~registration();
  registration(registration const&) = delete;
  registration& operator=(registration const&) = delete;

  [[nodiscard]] allocator_id id() const { return id_; }
  [[nodiscard]] std::string name() const;
  void rename(std::string name);

  /// A block that the table has from now on. Throws std::bad_alloc, and has changed nothing then.
  void add_block(std::uint64_t base, bytes size);
  void remove_block(std::uint64_t base, bytes size) noexcept {
    page_map::remove(table_.public_view(), base, size);
  }

  /// Keeps the frames that an earlier label of it has.
  void label(std::uint64_t base, allocation_label what);
  /// To be called before the first `label_backtrace`, while no lock is held: the first backtrace of
  /// a process may load a shared object, and the dynamic linker has a lock.
  static void prepare_backtraces() noexcept;
  /// Notes where the caller was called from, 32 frames at most. False if there is no memory for
  /// that, or the platform cannot tell.
  bool label_backtrace(std::uint64_t base) noexcept;
  void forget(std::uint64_t base) noexcept;
  [[nodiscard]] std::optional<allocation_label> label_of(std::uint64_t base) const;

  /// Bytes of its labels, as far as can be told, without itself: what a node has beside its label
  /// is the library's.
  [[nodiscard]] bytes footprint() const;
  /// The same, with the page map's entries for so many blocks of `reserved` bytes in all.
  [[nodiscard]] bytes footprint(bytes reserved, std::size_t blocks) const {
    return footprint() + page_map::share_of(reserved + blocks * page_map::map_page);
  }

  [[nodiscard]] chunk_view const& view() const { return table_.public_view(); }
  [[nodiscard]] memory_location location() const { return place_; }

  /// Around a fork; in the child with what another thread was about to change given up.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  void unlock_in_child() {
    table_.abandon_move();
    mutex_.unlock();
  }

 private:
  friend struct process_layout;

  chunk_table& table_;
  memory_location place_;
  allocator_id id_;
  bool is_everywhere_;
  mutable std::mutex mutex_;
  std::string name_;
  std::unordered_map<std::uint64_t, allocation_label> labels_;
};

namespace registry {

/// What a view has for `owner`, and what of it a record tells.
[[nodiscard]] constexpr std::uint64_t packed(allocator_id id, memory_location location) {
  return std::uint64_t{id} << 16 | static_cast<std::uint64_t>(location.kind) << 8 | location.device;
}
[[nodiscard]] inline allocation_record record_of(std::uint64_t owner,
                                                 chunk_table::record const& found) {
  memory_location const location{static_cast<memory_kind>(owner >> 8 & 255),
                                 static_cast<std::uint8_t>(owner & 255)};
  return {static_cast<allocator_id>(owner >> 16), location, found.is_labelled != 0,
          reinterpret_cast<void*>(found.base), found.size};
}
/// A bit of a view's owner: a tracked resource took some of the pool's memory, and then both have a
/// record of it.
inline constexpr std::uint64_t is_below_others = std::uint64_t{1} << 63;
/// To be called by a tracked resource before what it took becomes known as its own: finds the pool,
/// if there is one, that has a record of `address`, and marks it as one below others.
QUARRY_API void mark_below(std::uint64_t address) noexcept;
/// The slow path of `find`: several pools share the map page, the allocation is large, no pool has
/// the address, or a tracked resource over the pool may have a record of it, too.
[[nodiscard]] QUARRY_API std::optional<allocation_record> find_slowly(std::uint64_t address);

/// The record of the allocation that contains `address`. Where allocators stand on each other,
/// several records contain it: the smallest one counts, and of equally large ones that of the
/// youngest allocator. So an address that is free in a pool finds the pool's block, if a tracked
/// or named resource allocated that. Nullopt if no record contains the address, if it is beyond
/// 2^48, or in a block of more than 2^38 bytes. O(1) expected.
[[nodiscard]] inline std::optional<allocation_record> find(void const* address) {
  auto const number = reinterpret_cast<std::uint64_t>(address);
  if (number >= object_starts::end) return std::nullopt;
  if (chunk_view const* const only = page_map::only_one(number)) {
    if (auto const found = only->find(number)) {
      std::uint64_t const owner = only->owner.load_acquire();
      if ((owner & is_below_others) == 0) [[likely]]
        return record_of(owner, found);
    }
  }
  return find_slowly(number);
}

/// What was said of the allocation that has `address`. Takes its allocator's lock.
[[nodiscard]] QUARRY_API std::optional<allocation_label> label_of(void const* address);

struct allocator_info {
  allocator_id id;
  std::string name;
  memory_location location;
  std::size_t allocations;  // live
  bytes allocated;          // as asked for
};
/// The allocators there are, by id. O(all allocations).
[[nodiscard]] QUARRY_API std::vector<allocator_info> allocators();
/// Its name, or "" if there is none of that id.
[[nodiscard]] QUARRY_API std::string name_of(allocator_id id);

/// What is live: `allocator` 0 means all. While other threads allocate, what changes may be missed.
[[nodiscard]] QUARRY_API std::vector<allocation_record> allocated(allocator_id allocator = 0);

/// Writes a line for each live allocation, with its name and where it was named, and a line for
/// each allocator: at the end of a program, its leaks. It holds no lock while it writes, so `out`
/// may use pools. Throws std::bad_alloc, and what `out` throws.
QUARRY_API void report(std::ostream& out, allocator_id allocator = 0);

}  // namespace registry
}  // namespace quarry::inline QUARRY_ABI
