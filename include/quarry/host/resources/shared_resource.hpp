// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/core/export.hpp"
#include "quarry/host/registry/memory_location.hpp"
#include "quarry/host/resources/resource.hpp"

#include <memory>
#include <string>
#include <string_view>

namespace quarry::inline QUARRY_ABI {

/// Memory that the processes of one machine share by name (POSIX shared memory). A process that
/// allocates an existing name gets the same memory.
///
/// The first process that opens the segment makes it. The segment is removed when the last process
/// has closed it. An opening is one shared_resource object of one process. References are counted
/// for each opening. A killed process loses its references: they are dropped when another process
/// opens the segment, finds no room, or calls `collect`. A lock that it held passes to the next
/// process that locks it. A process may be killed between any two stores. The tables are correct at
/// each such moment; the next process that takes the lock reuses records that the killed process
/// had not yet entered in a list.
///
/// Threads may share it. The memory has different addresses in different processes; `offset_of` and
/// `at` translate. The tables grow as needed, in shared memory outside of `size`. There are at most
/// 2^16 openings and 2^24 allocations. A record says that an opening refers to an allocation; there
/// are at most 2^22 more of these records than possible allocations. Most calls inspect all
/// existing allocations, so use a pool over this resource for many small allocations. An opening
/// takes up to 2 GiB of address space beyond `size`. A segment with another layout of its tables is
/// refused. A child of fork holds no references of its parent. Its first call opens the segment
/// again, if the segment still has its name. Processes must see each other in /proc.
class QUARRY_API shared_resource {
 public:
  /// Opens segment `name`, or makes it with `size` bytes. To open an existing segment, pass its
  /// size or 0. A name has 1 to 200 characters without a '/'. Throws `bad_argument` for a bad name,
  /// a different size, or size 0 without an existing segment; `out_of_memory`; `resource_failed`.
  shared_resource(std::string name, bytes size);
  shared_resource(shared_resource&& other) noexcept;
  shared_resource& operator=(shared_resource&& other) noexcept;
  /// Drops all references of this opening and closes the segment.
  ~shared_resource();

  /// Allocates memory without a name, with one reference. Throws `bad_argument` unless `alignment`
  /// is a power of two up to 4096, and `out_of_memory`. O(n) for n allocations in use.
  [[nodiscard]] void* allocate(bytes size, bytes alignment);
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept;

  /// Returns the memory of that name and adds a reference. Allocates `size` zeroed bytes if the
  /// name is new. A name has 1 to 63 bytes. Throws `bad_argument` if the memory exists with another
  /// size or a smaller alignment, and `out_of_memory`.
  [[nodiscard]] void* allocate(std::string_view name, bytes size, bytes alignment = 64);
  /// The same for an existing name. Returns nullptr if the name does not exist.
  [[nodiscard]] void* find(std::string_view name);
  /// Drops a reference. Without references the memory becomes free. Returns false and changes
  /// nothing if this opening has no reference to `pointer`.
  bool release(void* pointer) noexcept;

  /// Drops the references of processes that have ended. Returns the number of such processes.
  std::uint32_t collect();

  /// `offset_of` and `at` translate between addresses of this process and offsets, which are the
  /// same in all processes. Both functions throw `bad_argument` outside of the segment.
  [[nodiscard]] std::uint64_t offset_of(void const* pointer) const;
  [[nodiscard]] void* at(std::uint64_t offset) const;

  struct counts_of_segment {
    bytes size = 0, in_use = 0;
    std::uint32_t allocations_in_use = 0, processes = 0;
    std::uint64_t references = 0;
  };
  [[nodiscard]] counts_of_segment counts() const;
  [[nodiscard]] memory_location location() const { return {memory_kind::shared, 0}; }

 private:
  class segment;
  std::unique_ptr<segment> segment_;
};

static_assert(memory_resource<shared_resource>);

}  // namespace quarry::inline QUARRY_ABI
