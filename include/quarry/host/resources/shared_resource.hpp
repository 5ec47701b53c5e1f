// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/core/export.hpp"
#include "quarry/host/registry/memory_location.hpp"
#include "quarry/host/resources/resource.hpp"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace quarry::inline QUARRY_ABI {

/// Memory that the processes of one machine share (POSIX shared memory), by names: who allocates a
/// name that is there already gets the same memory.
///
/// The segment is made by the first who opens it, and gone when the last one has closed it. Each
/// allocation counts its references by opening. A process that was killed has none: its references
/// are taken back when another opens the segment, finds no room, or calls `collect`; and a lock
/// that it held goes to the next who asks. A process may be killed between any two stores: what is
/// in the tables then is right, or `collect` ends what was begun.
///
/// Threads may share it. The memory lies at different addresses in different processes: `offset_of`
/// and `at` translate. At most 64 openings and 4096 allocations; an allocation takes a look at all
/// of them, so put a pool upon it for many small ones. A child of fork holds no references of its
/// parent's, and opens the segment again by its first call if that still has its name. Processes
/// must see each other in /proc.
class QUARRY_API shared_resource {
 public:
  /// Opens segment `name` of `size` bytes, or makes it; who opens one that is there gives its size,
  /// or 0. Names are of 1 to 200 characters without a '/'. Throws `bad_argument`, `out_of_memory`
  /// or `resource_failed`.
  shared_resource(std::string name, bytes size);
  shared_resource(shared_resource&& other) noexcept;
  shared_resource& operator=(shared_resource&& other) noexcept;
  /// Takes back this opening's references.
  ~shared_resource();

  /// Memory without a name, with one reference. Throws `out_of_memory`.
  [[nodiscard]] void* allocate(bytes size, bytes alignment);
  void deallocate(void* pointer, bytes size, bytes alignment) noexcept;

  /// The memory of that name, and one reference more to it: of `size` bytes, zeroed when it is new.
  /// Names are of 1 to 63 bytes. Throws `bad_argument` if it is there with another size, or not
  /// aligned so; `out_of_memory`.
  [[nodiscard]] void* allocate(std::string_view name, bytes size, bytes alignment = 64);
  /// The same, if it is there.
  [[nodiscard]] void* find(std::string_view name);
  /// One reference less; without any the memory is free. False, and nothing is changed, if this
  /// opening holds none.
  bool release(void* pointer) noexcept;

  /// Takes back the references of processes that are gone. How many there were.
  std::uint32_t collect();

  [[nodiscard]] std::uint64_t offset_of(void const* pointer) const;
  [[nodiscard]] void* at(std::uint64_t offset) const;

  struct counts_of_segment {
    bytes size = 0, in_use = 0;
    std::uint32_t allocations = 0, processes = 0;
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
