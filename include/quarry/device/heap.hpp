// SPDX-License-Identifier: Apache-2.0
// The host's side of a heap: create it, pass refs to kernels, read statistics and faults, grow,
// shrink, reset and destroy it.
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/device/heap_ref.hpp"

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace quarry::inline QUARRY_ABI {

enum class backend { automatic, cpu, cuda };

inline constexpr int current_device = -1;

struct heap_options {
  /// The initial size; required, at least 1. The heap rounds it up to whole segments.
  quarry::bytes bytes = 0;
  quarry::bytes max_bytes = 0;  ///< limit for `grow`, at most 4 TiB; 0: the heap cannot grow
  /// The segment size: a power of two from 64 KiB to 64 MiB. The heap has at most 2^20 segments. An
  /// allocation larger than half a segment occupies whole segments, or adjacent slices of one
  /// segment if too few segments are free. An alignment must not exceed the segment size. 0 selects
  /// `bytes` / 512, or `bytes` / 1024 below 1 GiB, rounded down to a power of two from 64 KiB to 16
  /// MiB. A large `max_bytes` needs larger segments.
  quarry::bytes segment_bytes = 0;
  backend backend_kind = backend::automatic;  ///< automatic: a CUDA device if there is one
  /// The CUDA device. The default is the current device.
  int device = current_device;
  /// Other CUDA devices whose kernels may use the heap's allocations. Their lanes must not call the
  /// heap: its atomic operations have device scope. `device` itself may be in the list, too. The
  /// heap throws `bad_argument` if a device does not exist or cannot use the memory of `device`,
  /// and for any peer of a heap on the CPU.
  std::vector<int> peers{};
  /// Hardened mode: the seed of the canaries and of the random start. 0: the clock is the seed.
  std::uint64_t seed = 0;
};

/// How a heap uses its memory, in bytes, at a moment when no kernel changes it.
struct heap_stats {
  bytes reserved = 0;       ///< memory that the heap has for allocations
  bytes allocated = 0;      ///< in allocations, rounded up to size classes or whole segments
  bytes free_segments = 0;  ///< in free segments, which can serve any size
  /// The largest allocation that a class or free segments serve. Adjacent slices of smaller classes
  /// may serve a larger allocation.
  bytes largest_free = 0;
  bytes free_slices = 0;  ///< free slices in segments that are bound to a size class
  bytes metadata = 0;     ///< in addition to `reserved`; depends on `max_bytes` and not on use
  std::uint64_t allocations_in_use = 0;

  /// The share of the free memory that the largest possible allocation cannot use. 0 means no
  /// fragmentation.
  [[nodiscard]] double fragmentation() const {
    bytes const all_free = reserved - allocated;
    return all_free == 0 ? 0.0
                         : 1.0 - static_cast<double>(largest_free) / static_cast<double>(all_free);
  }
};

/// An allocation that is not freed.
struct live_allocation {
  void* address;
  quarry::bytes bytes;  ///< of the slices or the whole segments that serve it
};

/// A heap that kernels allocate from (after Gallatin). The heap owns its memory. Kernels use it
/// through `ref()`.
///
/// On CUDA a kernel that allocates needs up to 1 KiB of stack per thread for the slow paths, in
/// addition to its own stack. The compiler accounts for it (`ptxas -v` shows it), and CUDA's
/// default limit suffices.
///
/// A heap belongs to one device. Kernels on another device cannot access its memory. Host functions
/// work with any current device, and leave it current.
///
/// Errors: host functions throw `bad_argument` for bad options, `out_of_memory` if the system or
/// the device has no memory, and `resource_failed` for other failures. A kernel that uses a ref
/// after its heap was destroyed gets a fault of kind `destroyed` and no memory; this holds for the
/// last 16 destroyed heaps. A kernel compiled with other mitigations than the library gets
/// `wrong_version`.
///
/// Thread safety: host functions are not thread-safe. All of them except `ref` must run while no
/// kernel uses the heap. On CUDA they wait for the device.
class QUARRY_API heap {
 public:
  explicit heap(heap_options options);
  ~heap();
  heap(heap&&) noexcept;
  heap& operator=(heap&&) noexcept;

  [[nodiscard]] heap_ref ref() const;
  [[nodiscard]] backend backend_kind() const;

  /// The address range of the heap's allocations: `region_bytes` bytes from `region`. The range
  /// contains only allocations and free memory of this heap. It includes the addresses for growth
  /// and never changes. O(1).
  [[nodiscard]] void* region() const;
  [[nodiscard]] quarry::bytes region_bytes() const;

  /// Frees all allocations at once. Refs stay valid; pointers do not. `reset` prepares, for each
  /// size class that was in use, about as many segments as the class used at its peak. Together
  /// these are at most three quarters of the memory. Other sizes can still use the segments that
  /// their class leaves unused.
  void reset();

  [[nodiscard]] heap_stats stats() const;

  /// Checks every invariant. Returns a description of each violation; empty if there is none.
  [[nodiscard]] std::vector<std::string> audit() const;

  /// Returns all allocations that are not freed, sorted by address.
  [[nodiscard]] std::vector<live_allocation> live_allocations() const;

  /// Returns the first fault since the last `clear_faults`, if there was a fault.
  [[nodiscard]] std::optional<fault> first_fault() const;
  /// Returns how many faults of this kind there were since the last `clear_faults`.
  [[nodiscard]] std::uint64_t fault_count(fault_kind kind) const;
  /// Forgets the first fault, and sets all counts of faults to 0.
  void clear_faults();

  /// Adds memory until at least `bytes` are reserved. Addresses do not change. Throws
  /// `bad_argument` if `bytes` exceeds `max_bytes`.
  void grow(quarry::bytes bytes);

  /// Returns free segments at the end of the region to the system, until `bytes` bytes are left or
  /// the last segment is in use. On CUDA, memory is returned only in the parts in which it was
  /// mapped, of at most 1 GiB. Returns the new size of the heap. A value above the current size
  /// changes nothing.
  quarry::bytes shrink(quarry::bytes bytes);

  class implementation;

 private:
  implementation* implementation_;  // owned
};

/// Returns the kind in a few words, such as `double free`.
[[nodiscard]] QUARRY_API char const* name_of(fault_kind kind);

/// Writes the fault in one line: kind, size, address, lane and free memory.
QUARRY_API std::ostream& operator<<(std::ostream& out, fault const& entry);

}  // namespace quarry::inline QUARRY_ABI
