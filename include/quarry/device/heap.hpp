// SPDX-License-Identifier: Apache-2.0
// The heap as the host owns it: create, hand out refs, look at what kernels did, grow, shrink,
// reset, destroy.
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
  /// Of memory to begin with; rounded up to whole segments
  quarry::bytes bytes = 0;
  quarry::bytes max_bytes = 0;  ///< what it can grow to; 0: no more than `bytes`
  /// A power of two, 64 KiB to 64 MiB; 0: by `bytes`, a 512th (below 1 GiB a 1024th), at most 16
  /// MiB. Allocations of more than half a segment take whole ones; no alignment may be larger.
  quarry::bytes segment_bytes = 0;
  backend where = backend::automatic;  ///< automatic: a CUDA device if there is one
  /// Which CUDA device; the one that is current, unless told
  int device = current_device;
  /// Hardened mode: of canaries and of the randomised start; 0: by the clock
  std::uint64_t seed = 0;
};

/// What a heap's memory is used for, in bytes, at a moment when no kernel changes it.
struct heap_stats {
  bytes reserved = 0;       ///< has memory
  bytes allocated = 0;      ///< in allocations, as rounded to their size classes
  bytes free_segments = 0;  ///< in segments that any size can have
  bytes largest_free = 0;   ///< the largest allocation that would succeed
  bytes free_slices = 0;    ///< free in segments that are bound to a size class
  bytes metadata = 0;       ///< beside `reserved`, whatever is in use; for all of `max_bytes`
  std::uint64_t allocations = 0;

  /// Share of the memory that is free, but not for the largest allocation: 0 is none.
  [[nodiscard]] double fragmentation() const {
    bytes const all_free = reserved - allocated;
    return all_free == 0 ? 0.0
                         : 1.0 - static_cast<double>(largest_free) / static_cast<double>(all_free);
  }
};

/// An allocation that was not freed.
struct live_allocation {
  void* address;
  quarry::bytes bytes;
};

/// A heap that kernels allocate from (after seed: Gallatin). Owns its memory; `ref()` is what
/// kernels get.
///
/// On CUDA a kernel that allocates needs up to 1 KiB of stack a thread for the slow paths, beside
/// its own. The compiler knows that (`ptxas -v` says it), and CUDA's default limit suffices.
///
/// A heap belongs to one device: kernels of another one have no access to its memory. Host
/// functions work whatever device is current, and leave it so.
///
/// Host functions are not thread-safe, and all but `ref` must run while no kernel uses the heap; on
/// CUDA they wait for the device. They throw `bad_argument` for bad options, `out_of_memory` if the
/// system or the device has no memory, and `resource_failed` for their other failures. A kernel
/// that uses a ref after its heap was destroyed is refused with a fault of kind `destroyed`, for
/// the last 16 heaps destroyed. Kernels compiled with other mitigations than the library are
/// refused with `wrong_version`.
class QUARRY_API heap {
 public:
  explicit heap(heap_options options);
  ~heap();
  heap(heap&&) noexcept;
  heap& operator=(heap&&) noexcept;

  [[nodiscard]] heap_ref ref() const;
  [[nodiscard]] backend where() const;

  /// Where its allocations lie, and nothing else: `region_bytes` bytes from `region`, as reserved.
  /// O(1), for the heap's life.
  [[nodiscard]] void* region() const;
  [[nodiscard]] quarry::bytes region_bytes() const;

  /// Frees everything at once. Refs stay valid, pointers do not. Size classes that were in use get
  /// as many segments again, as far as they fit in three quarters of the memory; other classes and
  /// large allocations can still have what is not used.
  void reset();

  [[nodiscard]] heap_stats stats() const;

  /// Checks every invariant; gives what is wrong, nothing if all is well.
  [[nodiscard]] std::vector<std::string> audit() const;

  /// All allocations that were not freed, by address.
  [[nodiscard]] std::vector<live_allocation> live_allocations() const;

  /// The first fault since the last `clear_faults`, if there was one.
  [[nodiscard]] std::optional<fault> first_fault() const;
  [[nodiscard]] std::uint64_t fault_count(fault_kind kind) const;
  void clear_faults();

  /// Gives memory to more segments, until `bytes` have some. Addresses do not change. Throws
  /// `bad_argument` beyond what was reserved.
  void grow(quarry::bytes bytes);

  /// Takes memory from free segments at the far end, until `bytes` are left or a segment is in use.
  /// Gives what is left.
  quarry::bytes shrink(quarry::bytes bytes);

  class implementation;

 private:
  implementation* implementation_;  // owned
};

[[nodiscard]] QUARRY_API char const* name_of(fault_kind kind);

/// What, how much, who, and what was free: one line.
QUARRY_API std::ostream& operator<<(std::ostream& out, fault const& what);

}  // namespace quarry::inline QUARRY_ABI
