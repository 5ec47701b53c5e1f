// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/coalescing/dynamic_coalescing.hpp"
#include "quarry/device/coalescing/packed_coalescing.hpp"
#include "quarry/device/coalescing/reserved_coalescing.hpp"
#include "quarry/device/coalescing/upstream.hpp"
#include "quarry/device/fault.hpp"
#include "quarry/device/heap_ref.hpp"
#include "quarry/device/mitigations.hpp"

#include <cstring>

namespace quarry::inline QUARRY_ABI {

/// The state of a coalescing heap that kernels share. The host initialises it (coalescing_heap).
template <class Upstream>
struct coalescing_state {
  Upstream upstream;
  detail::superblock_map map;
  reserved_coalescing::ring* rings;
  std::uint32_t ring_count;
  fault_log faults;
};

/// A kernel's handle to a coalescing heap: 8 bytes, passed by value. It owns nothing.
///
/// The lanes of a group share one upstream allocation, so that their memory is contiguous and the
/// group calls the upstream heap once. `free`, `realloc` and `usable_size` accept a pointer from
/// any allocating function, in any lane, thread block or later kernel, in any order. If the
/// upstream heap has no memory, an allocating call returns nullptr to all lanes of the group and
/// records a fault.
template <class Upstream>
class coalescing_ref {
 public:
  coalescing_ref() = default;
  QUARRY_HD explicit coalescing_ref(coalescing_state<Upstream>* state) : state_{state} {}

  /// Allocates for lanes that are known to call together with one size; see static_coalescing. The
  /// result is aligned to 16 bytes.
  template <coalesce Among, locate_by By>
  [[nodiscard]] QUARRY_HD void* malloc_static(bytes size) const {
    auto const granted = static_coalescing::malloc<Among, By>(state_->upstream, state_->map, size);
    if (granted.pointer == nullptr)
      report(granted.map_is_full ? fault_kind::table_full : fault_kind::out_of_memory, size,
             nullptr);
    return granted.pointer;
  }

  /// Allocates for the lanes that happen to call together, with any sizes; see dynamic_coalescing.
  /// The result is aligned to the largest of 16, 8, 4, 2 and 1 bytes that divides the size.
  [[nodiscard]] QUARRY_HD void* malloc(bytes size) const {
    void* const result = dynamic_coalescing::malloc(state_->upstream, size);
    if (result == nullptr) report(fault_kind::out_of_memory, size, nullptr);
    return result;
  }

  /// Allocates for lanes that make the same calls but must not wait for each other; see
  /// reserved_coalescing. The result is aligned to 16 bytes if the lanes request the same sizes. A
  /// lane whose size differs falls back to `malloc`, with the alignment of `malloc`.
  [[nodiscard]] QUARRY_HD void* malloc_reserved(bytes size) const {
    std::uint32_t const ring = reserved_coalescing::ring_of_this_lane();
    if (ring < state_->ring_count) {
      auto const granted = reserved_coalescing::malloc(state_->upstream, state_->rings[ring], size);
      if (granted.status == reserved_coalescing::outcome::done) return granted.pointer;
      if (granted.status == reserved_coalescing::outcome::exhausted) {
        report(fault_kind::out_of_memory, size, nullptr);
        return nullptr;
      }
    }
    return malloc(size);
  }

  /// Ends this lane's participation in `malloc_reserved` until the host calls
  /// coalescing_heap::reset_reserved; see reserved_coalescing::leave.
  QUARRY_HD void leave() const {
    std::uint32_t const ring = reserved_coalescing::ring_of_this_lane();
    if (ring < state_->ring_count)
      reserved_coalescing::leave(state_->upstream, state_->rings[ring]);
  }

  /// Allocates packed parts of one superblock for the lanes that call together with one size; see
  /// packed_coalescing. Parts need no header and no map, because the upstream heap finds the
  /// superblock by the address. The result is aligned to 16 bytes.
  [[nodiscard]] QUARRY_HD void* malloc_packed(bytes size) const
    requires tells_allocations<Upstream>
  {
    void* const result = packed_coalescing::malloc(state_->upstream, size);
    if (result == nullptr) report(fault_kind::out_of_memory, size, nullptr);
    return result;
  }

  /// Allocates slices of the upstream heap for the lanes that call together with one size, without
  /// superblock, header or map. The group draws consecutive tickets, whose slices are adjacent
  /// except where two units of the ticket counter meet. Reused slices may lie apart. Each slice is
  /// freed and reused separately. The result is aligned to 16 bytes.
  [[nodiscard]] QUARRY_HD void* malloc_slices(bytes size) const
    requires tells_allocations<Upstream>
  {
    return state_->upstream.malloc(size);
  }

  /// Allocates `count` objects of `size` bytes with `malloc`, all zero. Returns nullptr if the
  /// product overflows.
  [[nodiscard]] QUARRY_HD void* calloc(bytes count, bytes size) const {
    bool const overflows = size != 0 && count > ~bytes{0} / size;
    void* const result = malloc(overflows ? ~bytes{0} : count * size);
    if (result != nullptr && !overflows) std::memset(result, 0, count * size);
    return result;
  }

  /// Resizes an allocation and keeps the bytes that fit. It stays in place if `size` fits. Returns
  /// nullptr and changes nothing if it fails. A null `pointer` allocates.
  [[nodiscard]] QUARRY_HD void* realloc(void* pointer, bytes size) const {
    if (pointer == nullptr) return malloc(size);
    allocation const found = find(pointer);
    bytes const old = found.kind == fault_kind::none ? size_of(found, pointer) : no_size;
    if (old == no_size) {
      report_invalid(found, size, pointer);
      return nullptr;
    }
    if (size <= old) return pointer;
    void* const result = malloc(size);
    if (result == nullptr) return nullptr;
    std::memcpy(result, pointer, old);
    free(pointer);
    return result;
  }

  /// Frees an allocation; ignores nullptr. A detected double free or foreign pointer records a
  /// fault and changes nothing. If the upstream heap has `allocation_of`, both mistakes are always
  /// detected, unless the first free is still in progress during the second. With other heaps, such
  /// as CUDA's malloc, both mistakes are detected until the superblock is freed. For a part in the
  /// map, this holds only if the bytes before the part do not look like a header. Interior pointers
  /// are not always detected: an address inside a segment or a slice may pass as an allocation, and
  /// the address of a superblock always does.
  QUARRY_HD void free(void* pointer) const {
    if (pointer == nullptr) return;
    allocation const found = find(pointer);
    if (found.kind != fault_kind::none || !release(found, pointer))
      report_invalid(found, 0, pointer);
  }

  /// Returns the bytes that the allocation can hold. Returns 0 and records a fault if `pointer` is
  /// not an allocation.
  [[nodiscard]] QUARRY_HD bytes usable_size(void* pointer) const {
    allocation const found = find(pointer);
    bytes const result = found.kind == fault_kind::none ? size_of(found, pointer) : no_size;
    if (result != no_size) return result;
    report_invalid(found, 0, pointer);
    return 0;
  }

  [[nodiscard]] QUARRY_HD Upstream const& upstream() const { return state_->upstream; }

 private:
  /// The function that made an allocation.
  enum class layout_kind : std::uint32_t {
    upstream,
    packed_part,
    part_in_map,
    part_with_header,
    segment
  };
  struct allocation {
    fault_kind kind;  // none, or the reason why `pointer` is not an allocation
    layout_kind layout;
    detail::superblock* superblock;  // the superblock of a part
    std::uint32_t index;             // the index of a packed part

    QUARRY_HD allocation(fault_kind reason, layout_kind form = {},
                         detail::superblock* owner = nullptr, std::uint32_t number = 0)
        : kind{reason}, layout{form}, superblock{owner}, index{number} {}
  };

  [[nodiscard]] QUARRY_HD allocation find(void* pointer) const {
    if (pointer == nullptr) return fault_kind::foreign_pointer;
    void* base = nullptr;
    if constexpr (tells_allocations<Upstream>) {
      base = state_->upstream.allocation_of(pointer);
      if (base == nullptr)
        return state_->upstream.owns(pointer) ? fault_kind::double_free
                                              : fault_kind::foreign_pointer;
      if (base == pointer) return {fault_kind::none, layout_kind::upstream};
      auto* const superblock = static_cast<detail::superblock*>(base);
      auto const index = superblock->index_of(pointer);
      if (index != detail::superblock::no_part)
        return {fault_kind::none, layout_kind::packed_part, superblock, index};
    }
    auto const address = reinterpret_cast<std::uint64_t>(pointer);
    if (detail::segment_header::width_at(address) == 0) return fault_kind::foreign_pointer;
    if (address % 16 == 0 && state_->map.capacity() != 0) {
      auto* const superblock = static_cast<detail::superblock*>(state_->map.find(pointer));
      if (superblock != nullptr) return {fault_kind::none, layout_kind::part_in_map, superblock};
    }
    if constexpr (tells_allocations<Upstream>) {
      // The bytes before a part must not be mistaken for the header of a segment.
      if (!detail::segment_header::begins_at(base)) {
        auto* const superblock = static_cast<detail::superblock*>(base);
        if (superblock->may_have_part_at(pointer, false)) return fault_kind::double_free;
        if (!superblock->may_have_part_at(pointer, true)) return fault_kind::foreign_pointer;
      }
    }
    if (address % 16 != 0) return {fault_kind::none, layout_kind::segment};
    std::uint64_t const header = header_of(pointer).load(simt::acquire);  // (X)
    if constexpr (tells_allocations<Upstream> && is_on(mitigation::poison)) {
      // Another free may have completed meanwhile, and poison is not a header.
      if (state_->upstream.allocation_of(pointer) != base) return fault_kind::double_free;
    }
    if ((header & detail::segment_header::is_dynamic) != 0)
      return {fault_kind::none, layout_kind::segment};
    if (header == freed) return fault_kind::double_free;
    auto* const superblock = detail::superblock::named_by(header, pointer);
    bool const is_matching = superblock != nullptr && (base == nullptr || base == superblock);
    if (!is_matching || !superblock->may_have_part_at(pointer, true))
      return fault_kind::foreign_pointer;
    return {fault_kind::none, layout_kind::part_with_header, superblock};
  }

  /// Frees the allocation. Returns false if another lane freed it first.
  ///
  /// Memory order. The header's compare-and-swap (X) is acquire-release, so that of two frees of
  /// one part, the later free sees the change of the earlier free. The compare-and-swap expects the
  /// part's own header. If another lane's free completed since `find`, the memory holds other
  /// bytes by now, which stay as they are.
  [[nodiscard]] QUARRY_HD bool release(allocation const& found, void* pointer) const {
    switch (found.layout) {
      case layout_kind::upstream:
        state_->upstream.free(pointer);
        return true;
      case layout_kind::packed_part:
        return packed_coalescing::free(state_->upstream, found.superblock, found.index);
      case layout_kind::segment:
        return dynamic_coalescing::free(state_->upstream, pointer);
      case layout_kind::part_in_map: {
        auto* const superblock = static_cast<detail::superblock*>(state_->map.remove(pointer));
        if (superblock != nullptr) static_coalescing::free(state_->upstream, superblock);
        return superblock != nullptr;
      }
      case layout_kind::part_with_header:
        if (std::uint64_t own_header = found.superblock->header_of(pointer);
            !header_of(pointer).compare_exchange(own_header, freed, simt::acq_rel))  // (X)
          return false;
        break;
    }
    static_coalescing::free(state_->upstream, found.superblock);
    return true;
  }

  /// Returns the size of the allocation, or `no_size` for a segment that is free.
  [[nodiscard]] QUARRY_HD bytes size_of(allocation const& found, void* pointer) const {
    if (found.layout == layout_kind::segment) {
      std::uint64_t const header = detail::segment_header{pointer}.load();
      return (header & detail::segment_header::is_free) != 0
                 ? no_size
                 : detail::segment_header{pointer}.size(header);
    }
    if constexpr (tells_allocations<Upstream>) {
      if (found.layout == layout_kind::upstream) return state_->upstream.usable_size(pointer);
    }
    return found.superblock->part_bytes();
  }

  static constexpr bytes no_size = ~bytes{0};
  static constexpr std::uint64_t freed = 4;  // a header without `is_dynamic` and without superblock

  [[nodiscard]] QUARRY_HD static simt::atomic_ref<std::uint64_t> header_of(void* pointer) {
    return simt::atomic_ref{*reinterpret_cast<std::uint64_t*>(static_cast<char*>(pointer) - 8)};
  }

  /// Reports why `pointer` was refused: `found.kind`, or a free by another lane since `find`.
  QUARRY_HD void report_invalid(allocation const& found, bytes size, void const* pointer) const {
    report(found.kind == fault_kind::none ? fault_kind::double_free : found.kind, size, pointer);
  }
  QUARRY_HD void report(fault_kind kind, bytes size, void const* pointer) const {
    fault found_fault;
    found_fault.kind = kind;
    found_fault.size = size;
    found_fault.address = reinterpret_cast<std::uint64_t>(pointer);
    state_->faults.record(found_fault);
  }

  coalescing_state<Upstream>* state_ = nullptr;
};

}  // namespace quarry::inline QUARRY_ABI
