// SPDX-License-Identifier: Apache-2.0
// Finds the allocation that contains any address, for all pools and tracked resources of the
// process.
//
// Any thread may look up at any time, except in a signal handler. The steps of a lookup:
//   1. The page map gives the pool that has blocks in the address's map page.
//   2. If a slice block of that pool has the map page, the slice block answers.
//   3. If the address is a base address, the pool's base table answers. Most words of that table
//      hold the size; otherwise the reader loads the chunk.
//   4. Otherwise the pool's object starts give the base address of the last smaller allocation, and
//      the base table answers for that; or they give the number of a larger chunk.
// These steps take no lock. A lookup that finds nothing repeats while a pool moves its table.
// `find_slowly` handles the other cases: several pools share the map page, the only pool has no
// record, or a tracked resource took memory from it. A pool writes to its own tables only. So
// allocations of different pools never wait for each other.
#pragma once

#include "quarry/core/export.hpp"
#include "quarry/host/detail/page_map.hpp"
#include "quarry/host/registry/memory_location.hpp"

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

/// What the registry knows about an allocation.
struct allocation_record {
  allocator_id allocator = 0;
  memory_location location;
  bool is_labelled = false;  ///< `registry::label_of` has a label for it
  void* base = nullptr;      ///< the base address: the first byte of the allocation
  bytes size = 0;            ///< requested bytes
};

/// The name that a user gave an allocation, and the line of code that gave it.
struct allocation_label {
  std::string name;
  std::source_location call_site;
  /// The callers' frames, innermost first, if the pool records backtraces.
  std::vector<void*> frames = {};
};

namespace detail {

/// An entry of the process's list of tables without blocks: the view of a table, or null.
using blockless_view = single_writer<chunk_view const*>;

/// The registration of an allocator: its id, its name, and the labels of its allocations.
///
/// The owner of the chunk table owns the registration. Any thread may call the const functions and
/// the functions of `registry`. The mutex guards the name and the labels.
class QUARRY_API registration {
 public:
  /// Makes `table` known to the registry. The table must have no allocation. `is_blockless`: the
  /// table has no blocks, so lookups of addresses that no pool has ask each such table. Throws
  /// std::bad_alloc.
  registration(chunk_table& table, memory_location location, std::string name,
               bool is_blockless = false);
  ~registration();
  registration(registration const&) = delete;
  registration& operator=(registration const&) = delete;

  [[nodiscard]] allocator_id id() const { return id_; }
  [[nodiscard]] std::string name() const;
  void rename(std::string name);

  /// Adds a block of the table to the page map. Throws std::bad_alloc and then changes nothing.
  void add_block(std::uint64_t base, bytes size);
  void remove_block(std::uint64_t base, bytes size) noexcept {
    page_map::remove(table_.public_view(), base, size);
  }

  /// Sets the label of an allocation. A label without frames keeps those of the earlier label.
  void label(std::uint64_t base, allocation_label label);
  /// Must be called before the first `label_backtrace`, while the caller holds no lock. The first
  /// backtrace of a process may load a shared object, and the dynamic linker takes a lock for that.
  static void prepare_backtraces() noexcept;
  /// Labels an allocation with the frames of the caller's callers, 32 at most. Returns false if
  /// memory is exhausted, or if the platform has no backtraces.
  bool label_backtrace(std::uint64_t base) noexcept;
  /// Removes the label of an allocation.
  void forget(std::uint64_t base) noexcept;
  [[nodiscard]] std::optional<allocation_label> label_of(std::uint64_t base) const;

  /// An estimate of the bytes of the labels and the name, without the registration itself. The C++
  /// library decides what else a node of the map holds.
  [[nodiscard]] bytes footprint() const;
  /// The same, with the page map's entries for `blocks` blocks of `reserved` bytes in all.
  [[nodiscard]] bytes footprint(bytes reserved, std::size_t blocks) const {
    return footprint() + page_map::share_of(reserved + blocks * page_map::map_page);
  }

  [[nodiscard]] chunk_view const& view() const { return table_.public_view(); }
  [[nodiscard]] memory_location location() const { return location_; }

  /// For a fork. In the child, `unlock_in_child` also abandons a move of the table that another
  /// thread had begun.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }
  void unlock_in_child() {
    table_.abandon_move();
    mutex_.unlock();
  }

 private:
  friend struct process_layout;

  chunk_table& table_;
  memory_location location_;
  allocator_id id_;
  blockless_view* blockless_ = nullptr;  // in the list of tables without blocks
  mutable std::mutex mutex_;
  std::string name_;
  std::unordered_map<std::uint64_t, allocation_label> labels_;
};

}  // namespace detail

namespace registry {

/// The value of a view's `owner`; `record_of` decodes it.
[[nodiscard]] constexpr std::uint64_t packed(allocator_id id, memory_location location) {
  return std::uint64_t{id} << 16 | static_cast<std::uint64_t>(location.kind) << 8 | location.device;
}
[[nodiscard]] inline allocation_record record_of(std::uint64_t owner,
                                                 detail::chunk_table::record const& found) {
  memory_location const location{static_cast<memory_kind>(owner >> 8 & 255),
                                 static_cast<std::uint8_t>(owner & 255)};
  return {static_cast<allocator_id>(owner >> 16), location, found.is_labelled != 0,
          reinterpret_cast<void*>(found.base), found.size};
}
/// A bit of a view's owner: a tracked resource has allocated from the pool. Then both have a record
/// of that memory.
inline constexpr std::uint64_t is_below_others = std::uint64_t{1} << 63;
/// Sets `is_below_others` for the pools that have a record of `address`. A tracked resource must
/// call this before it adds its own record of that memory.
QUARRY_API void mark_below(std::uint64_t address) noexcept;
/// The slow path of `find`, for addresses of which no pool or several pools have the map page, or
/// the only pool has no record. Also if a tracked resource over the pool may have a record.
[[nodiscard]] QUARRY_API std::optional<allocation_record> find_slowly(std::uint64_t address);

/// Returns the record of the allocation that contains `address`. If an allocator takes memory from
/// another allocator, several records contain the address. Then `find` returns the smallest record,
/// and of equally large records the record of the youngest allocator. So for an address that is
/// free in a pool it returns the pool's block, if a tracked or named resource allocated that block.
/// Returns nullopt if no record contains the address, if it is beyond 2^48, or if it lies in a
/// block of more than 2^38 bytes (256 GiB). O(1) expected. Takes no lock. A lookup that finds
/// nothing repeats while a pool moves its table, so a signal handler must not call this.
[[nodiscard]] inline std::optional<allocation_record> find(void const* address) {
  auto const number = reinterpret_cast<std::uint64_t>(address);
  if (number >= detail::object_starts::end) return std::nullopt;
  if (detail::chunk_view const* const single_view = detail::page_map::only_view(number)) {
    if (auto const found = single_view->find(number)) {
      std::uint64_t const owner = single_view->owner.load_acquire();
      if ((owner & is_below_others) == 0) [[likely]]
        return record_of(owner, found);
    }
  }
  return find_slowly(number);
}

/// The allocator that alone has blocks in the map page of `address`; 0 if no or several allocators
/// have.
[[nodiscard]] inline allocator_id only_allocator_of(void const* address) {
  auto const number = reinterpret_cast<std::uint64_t>(address);
  if (number >= detail::object_starts::end) return 0;
  detail::chunk_view const* const view = detail::page_map::only_view(number);
  return view == nullptr ? 0 : static_cast<allocator_id>(view->owner.load_acquire() >> 16);
}

/// The label of the allocation that contains `address`, or nullopt. Takes the registry's lock and
/// the lock of the allocator's registration.
[[nodiscard]] QUARRY_API std::optional<allocation_label> label_of(void const* address);

/// What the registry knows about a pool or tracked resource.
struct allocator_info {
  allocator_id id;
  std::string name;
  memory_location location;
  std::size_t allocations_in_use;
  bytes allocated;  // their requested bytes
};
/// All allocators, in the order of their ids. O(all allocations).
[[nodiscard]] QUARRY_API std::vector<allocator_info> allocators();
/// The name of an allocator, or "" if no allocator has that id.
[[nodiscard]] QUARRY_API std::string name_of(allocator_id id);

/// The records of all allocations of an allocator; 0 means all allocators. May miss allocations
/// that other threads make or free during the call. Throws std::bad_alloc. O(chunks).
[[nodiscard]] QUARRY_API std::vector<allocation_record> allocations(allocator_id allocator = 0);

/// Writes a line for each allocation, with its name and the line of code that named it, and a line
/// for each allocator. At the end of a program these are its leaks. Holds no lock while it writes,
/// so `out` may use pools. Throws std::bad_alloc, and what `out` throws.
QUARRY_API void report(std::ostream& out, allocator_id allocator = 0);

}  // namespace registry
}  // namespace quarry::inline QUARRY_ABI
