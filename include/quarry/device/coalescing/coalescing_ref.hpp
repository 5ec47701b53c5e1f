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

/// What kernels share of a coalescing heap. The host writes it (coalescing_heap).
template <class Upstream>
struct coalescing_state {
  Upstream upstream;
  superblock_map map;
  reserved_coalescing::ring* rings;
  std::uint32_t ring_count;
  fault_log faults;
};

/// What kernels hold of a coalescing heap: 8 bytes, passed by value. It owns nothing.
///
/// One allocation shared by the lanes of a group, so that neighbours' memory lies together and the
/// upstream heap is called once. `free`, `realloc` and `usable_size` take any pointer from any of
/// its calls, in any lane, block or later kernel, in any order. Each allocating call gives nullptr
/// if the upstream heap has no memory, to all lanes of the group, and leaves a fault.
template <class Upstream>
class coalescing_ref {
 public:
  coalescing_ref() = default;
  explicit coalescing_ref(coalescing_state<Upstream>* state) : state_{state} {}

  /// For lanes that are known to call together with one size; see static_coalescing. Aligned to 16
  /// bytes.
  template <coalesce Among, locate_by By>
  [[nodiscard]] QUARRY_HD void* malloc_static(bytes size) const {
    auto const got = static_coalescing::malloc<Among, By>(state_->upstream, state_->map, size);
    if (got.pointer == nullptr)
      report(got.map_is_full ? fault_kind::table_full : fault_kind::out_of_memory, size, nullptr);
    return got.pointer;
  }

  /// For whichever lanes are here, with any sizes; see dynamic_coalescing. Aligned as the size: to
  /// 16 bytes for its multiples, to 8, 4 or 2 for theirs.
  [[nodiscard]] QUARRY_HD void* malloc(bytes size) const {
    void* const result = dynamic_coalescing::malloc(state_->upstream, size);
    if (result == nullptr) report(fault_kind::out_of_memory, size, nullptr);
    return result;
  }

  /// For lanes that make the same calls but must not wait for each other; see reserved_coalescing.
  /// Aligned to 16 bytes, as long as lanes keep to the same sizes; otherwise as `malloc`, to which
  /// it falls back.
  [[nodiscard]] QUARRY_HD void* malloc_reserved(bytes size) const {
    std::uint32_t const ring = reserved_coalescing::ring_of_this_lane();
    if (ring < state_->ring_count) {
      auto const got = reserved_coalescing::malloc(state_->upstream, state_->rings[ring], size);
      if (got.what == reserved_coalescing::outcome::done) return got.pointer;
      if (got.what == reserved_coalescing::outcome::exhausted) {
        report(fault_kind::out_of_memory, size, nullptr);
        return nullptr;
      }
    }
    return malloc(size);
  }

  /// Ends this lane's part in `malloc_reserved`, until the host calls
  /// coalescing_heap::reset_reserved; see reserved_coalescing::leave.
  QUARRY_HD void leave() const {
    std::uint32_t const ring = reserved_coalescing::ring_of_this_lane();
    if (ring < state_->ring_count)
      reserved_coalescing::leave(state_->upstream, state_->rings[ring]);
  }

  /// Packed parts of one superblock for whichever lanes are here with one size: no header, no map,
  /// since the upstream heap tells the superblock from the address; see packed_coalescing. Aligned
  /// to 16 bytes.
  [[nodiscard]] QUARRY_HD void* malloc_packed(bytes size) const
    requires tells_allocations<Upstream>
  {
    void* const result = packed_coalescing::malloc(state_->upstream, size);
    if (result == nullptr) report(fault_kind::out_of_memory, size, nullptr);
    return result;
  }

  /// Slices of the upstream heap side by side, for whichever lanes are here with one size: no
  /// superblock, no header, no map. The group's tickets are consecutive, and so are its slices
  /// (heap_ref); each is freed and used again by itself. Aligned to 16 bytes.
  [[nodiscard]] QUARRY_HD void* malloc_slices(bytes size) const
    requires tells_allocations<Upstream>
  {
    return state_->upstream.malloc(size);
  }

  /// `count` objects of `size` bytes, all zero, from `malloc`; nullptr also if the product
  /// overflows.
  [[nodiscard]] QUARRY_HD void* calloc(bytes count, bytes size) const {
    bool const overflows = size != 0 && count > ~bytes{0} / size;
    void* const result = malloc(overflows ? ~bytes{0} : count * size);
    if (result != nullptr && !overflows) std::memset(result, 0, count * size);
    return result;
  }

  /// Moves an allocation to one of `size` bytes, keeping what fits; stays in place if it fits. On
  /// failure nullptr, and `pointer` is as it was. A null `pointer` allocates.
  [[nodiscard]] QUARRY_HD void* realloc(void* pointer, bytes size) const {
    if (pointer == nullptr) return malloc(size);
    allocation const at = find(pointer);
    bytes const old = at.kind == fault_kind::none ? size_of(at, pointer) : gone;
    if (old == gone) {
      report(at.kind == fault_kind::none ? fault_kind::double_free : at.kind, size, pointer);
      return nullptr;
    }
    if (size <= old) return pointer;
    void* const result = malloc(size);
    if (result == nullptr) return nullptr;
    std::memcpy(result, pointer, old);
    free(pointer);
    return result;
  }

  /// Gives an allocation back; nullptr is ignored. A double free and a foreign pointer leave a
  /// fault and change nothing, as far as they can be told: with a heap that tells allocations
  /// always, unless the other free is still going on; with CUDA's malloc as long as the superblock
  /// is not freed, and of a part in the map only if the bytes before it do not look like a header.
  /// An address inside a segment or a slice may be taken for an allocation, and the address of a
  /// superblock is one.
  QUARRY_HD void free(void* pointer) const {
    if (pointer == nullptr) return;
    allocation const at = find(pointer);
    if (at.kind != fault_kind::none || !release(at, pointer)) {
      report(at.kind == fault_kind::none ? fault_kind::double_free : at.kind, 0, pointer);
    }
  }

  /// Bytes that the allocation can hold; 0, and a fault, if `pointer` is not one.
  [[nodiscard]] QUARRY_HD bytes usable_size(void* pointer) const {
    allocation const at = find(pointer);
    bytes const result = at.kind == fault_kind::none ? size_of(at, pointer) : gone;
    if (result != gone) return result;
    report(at.kind == fault_kind::none ? fault_kind::double_free : at.kind, 0, pointer);
    return 0;
  }

  [[nodiscard]] QUARRY_HD Upstream const& upstream() const { return state_->upstream; }

 private:
  /// How an allocation was made.
  enum class layout : std::uint32_t {
    upstream,
    packed_part,
    part_in_map,
    part_with_header,
    segment
  };
  struct allocation {
    fault_kind kind;  // none, or why `pointer` is not one
    layout how;
    superblock* of;       // of a part
    std::uint32_t index;  // of a packed part; `of` is a packed_superblock then

    QUARRY_HD allocation(fault_kind why, layout made = {}, superblock* part_of = nullptr,
                         std::uint32_t number = 0)
        : kind{why}, how{made}, of{part_of}, index{number} {}
  };

  [[nodiscard]] QUARRY_HD allocation find(void* pointer) const {
    if (pointer == nullptr) return {fault_kind::foreign_pointer, {}, nullptr};
    void* begin = nullptr;
    if constexpr (tells_allocations<Upstream>) {
      begin = state_->upstream.allocation_of(pointer);
      if (begin == nullptr)
        return {
            state_->upstream.owns(pointer) ? fault_kind::double_free : fault_kind::foreign_pointer,
            {},
            nullptr};
      if (begin == pointer) return {fault_kind::none, layout::upstream, nullptr};
      auto const index = static_cast<packed_superblock*>(begin)->index_of(pointer);
      if (index != packed_superblock::none)
        return {fault_kind::none, layout::packed_part, static_cast<superblock*>(begin), index};
    }
    auto const address = reinterpret_cast<std::uint64_t>(pointer);
    if (segment_header::width_at(address) == 0) return {fault_kind::foreign_pointer, {}, nullptr};
    if (address % 16 == 0 && state_->map.capacity() != 0) {
      auto* const of = static_cast<superblock*>(state_->map.find(pointer));
      if (of != nullptr) return {fault_kind::none, layout::part_in_map, of};
    }
    if constexpr (tells_allocations<Upstream>) {
      // What lies before a part is not to be taken for a segment's header.
      if (!segment_header::begins_at(begin)) {
        auto* const of = static_cast<superblock*>(begin);
        if (of->may_have_part_at(pointer, false)) return {fault_kind::double_free, {}, nullptr};
        if (!of->may_have_part_at(pointer, true)) return {fault_kind::foreign_pointer, {}, nullptr};
      }
    }
    if (address % 16 != 0) return {fault_kind::none, layout::segment, nullptr};
    std::uint64_t const header = header_of(pointer).load(simt::acquire);  // (X)
    if constexpr (tells_allocations<Upstream> && is_on(mitigation::poison)) {
      // Another free may have gone on meanwhile, and poison is not a header.
      if (state_->upstream.allocation_of(pointer) != begin)
        return {fault_kind::double_free, {}, nullptr};
    }
    if ((header & segment_header::is_dynamic) != 0)
      return {fault_kind::none, layout::segment, nullptr};
    if (header == freed) return {fault_kind::double_free, {}, nullptr};
    auto* const of = superblock::named_by(header, pointer);
    bool const is_ours = of != nullptr && (begin == nullptr || begin == of);
    if (!is_ours || !of->may_have_part_at(pointer, true))
      return {fault_kind::foreign_pointer, {}, nullptr};
    return {fault_kind::none, layout::part_with_header, of};
  }

  /// False if another lane was first.
  ///
  /// Memory order. The header's exchange (X) is acquire-release, so that of two frees of one part
  /// one sees the other.
  [[nodiscard]] QUARRY_HD bool release(allocation const& at, void* pointer) const {
    switch (at.how) {
      case layout::upstream:
        state_->upstream.free(pointer);
        return true;
      case layout::packed_part:
        return packed_coalescing::free(state_->upstream,
                                       reinterpret_cast<packed_superblock*>(at.of), at.index);
      case layout::segment:
        return dynamic_coalescing::free(state_->upstream, pointer);
      case layout::part_in_map: {
        auto* const of = static_cast<superblock*>(state_->map.remove(pointer));
        if (of != nullptr) static_coalescing::free(state_->upstream, of);
        return of != nullptr;
      }
      case layout::part_with_header:
        if (header_of(pointer).exchange(freed, simt::acq_rel) == freed) return false;  // (X)
        break;
    }
    static_coalescing::free(state_->upstream, at.of);
    return true;
  }

  /// `gone` for a segment that is free.
  [[nodiscard]] QUARRY_HD bytes size_of(allocation const& at, void* pointer) const {
    if (at.how == layout::segment) {
      std::uint64_t const header = segment_header{pointer}.load();
      return (header & segment_header::is_free) != 0 ? gone : segment_header{pointer}.size(header);
    }
    if constexpr (tells_allocations<Upstream>) {
      if (at.how == layout::upstream) return state_->upstream.usable_size(pointer);
    }
    if (at.how == layout::packed_part)
      return reinterpret_cast<packed_superblock*>(at.of)->part_bytes();
    return at.of->part_bytes();
  }

  static constexpr bytes gone = ~bytes{0};
  static constexpr std::uint64_t freed = 4;  // names no superblock, and is not dynamic

  [[nodiscard]] QUARRY_HD static simt::atomic_ref<std::uint64_t> header_of(void* pointer) {
    return simt::atomic_ref<std::uint64_t>{
        *reinterpret_cast<std::uint64_t*>(static_cast<char*>(pointer) - 8)};
  }

  QUARRY_HD void report(fault_kind kind, bytes size, void const* pointer) const {
    fault what;
    what.kind = kind;
    what.size = size;
    what.address = reinterpret_cast<std::uint64_t>(pointer);
    state_->faults.record(what);
  }

  coalescing_state<Upstream>* state_ = nullptr;
};

}  // namespace quarry::inline QUARRY_ABI
