// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/detail/hardening.hpp"
#include "quarry/device/detail/large_allocations.hpp"
#include "quarry/simt/lane_group.hpp"

#include <cstring>
#include <new>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// A kernel's handle to a heap: 16 bytes, passed by value. It owns nothing, and copies refer to the
/// same heap.
///
/// Any lane may call any function at any time. Lanes that call together share one atomic operation
/// per size class (after Gallatin, algorithm 3). Pointers are aligned to 16 bytes, valid in later
/// kernels, and freed by any lane. A lane's writes before `free` happen before the next owner's
/// accesses after `malloc`.
///
/// If there is no memory, an allocating call searches for up to 10 ms, returns nullptr and records
/// a fault for the host.
class heap_ref {
 public:
  heap_ref() = default;
  /// `build`: `heap_build` of the library, which may differ from the caller's.
  heap_ref(detail::heap_state* state, std::uint64_t base, std::uint32_t segment_shift,
           std::uint32_t reserved, std::uint32_t build)
      : state_{state},
        packed_{base | std::uint64_t{std::bit_width(std::bit_ceil(reserved)) - 1u} << 11 |
                std::uint64_t{segment_shift - 16} << 7 | build} {}

  /// Allocates at least `size` bytes. Returns nullptr if there is no memory. Size 0 returns a
  /// unique pointer. O(1), except for the slow paths of slice_supply.
  [[nodiscard]] QUARRY_HD void* malloc(bytes size) const {
    if (!is_usable()) return nullptr;
    bytes const padded = detail::hardening::padded(size);
    void* const result = padded > largest_slice()
                             ? malloc_large(padded)
                             : malloc_slice(size_class_of(static_cast<std::uint32_t>(padded)));
    return detail::hardening::prepare(*this, *state_, result);
  }

  /// `malloc` for lanes that all request one size from one heap. It checks whether all requests are
  /// equal, which is faster than grouping equal requests. If they differ, it acts as `malloc`.
  [[nodiscard]] QUARRY_HD void* malloc_all(bytes size) const {
    if (!is_usable()) return nullptr;
    bytes const padded = detail::hardening::padded(size);
    if (padded > largest_slice())
      return detail::hardening::prepare(*this, *state_, malloc_large(padded));
    auto const id = size_class_of(static_cast<std::uint32_t>(padded));
    auto const group = simt::lane_group::coalesced<class malloc_all_site>();
    // One number identifies heap and class: states are aligned to 256 bytes; classes are fewer.
    bool const is_one_class = group.all_equal(reinterpret_cast<std::uint64_t>(state_) + id);
    return detail::hardening::prepare(
        *this, *state_, is_one_class ? claim_ticket(group, group, id) : malloc_slice(id));
  }

  /// Allocates `count` objects of `size` bytes, all zero; nullptr if their product overflows.
  [[nodiscard]] QUARRY_HD void* calloc(bytes count, bytes size) const {
    if (!is_usable()) return nullptr;
    if (size != 0 && count > ~bytes{0} / size) return fail(fault_kind::out_of_memory, ~bytes{0});
    void* const result = malloc(count * size);
    if (result != nullptr) std::memset(result, 0, count * size);
    return result;
  }

  /// Allocates `size` bytes at a multiple of `alignment`, a power of two up to the segment size.
  [[nodiscard]] QUARRY_HD void* aligned_malloc(bytes alignment, bytes size) const {
    if (!is_usable()) return nullptr;
    if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > segment_bytes()) {
      return fail(fault_kind::bad_alignment, alignment);
    }
    if (alignment <= min_alignment) return malloc(size);
    // Slices of a power-of-two class are aligned to it, and segments to the segment size.
    bytes const needed =
        detail::hardening::padded(size) < alignment ? alignment : detail::hardening::padded(size);
    if (needed > segment_bytes() / 2)
      return detail::hardening::prepare(*this, *state_, malloc_large(needed));
    std::uint32_t const power = 1u << (highest_one(needed - 1) + 1);
    return detail::hardening::prepare(*this, *state_, malloc_slice(size_class_of(power)));
  }

  /// Resizes an allocation and keeps the bytes that fit. On failure returns nullptr and changes
  /// nothing. A null `pointer` allocates; size 0 shrinks to the smallest class. A move is O(bytes).
  /// The allocation stays in place if its size class stays the same, or if it shrinks and there is
  /// no memory for a smaller allocation (which records a fault).
  [[nodiscard]] QUARRY_HD void* realloc(void* pointer, bytes size) const {
    if (pointer == nullptr) return malloc(size);
    bytes const old = usable_size(pointer);
    if (old == 0) return nullptr;
    if (fits_in_place(old, size)) return pointer;
    void* const result = malloc(size);
    if (result == nullptr) return size <= old ? pointer : nullptr;
    std::memcpy(result, pointer, old < size ? old : size);
    free(pointer);
    return result;
  }

  /// Frees an allocation; ignores nullptr. A double free, a foreign pointer and an interior pointer
  /// record a fault and change nothing. Not detected: a second free after the memory was allocated
  /// again, and, except in the hardened mode, a free of a slice that was never allocated. O(1)
  /// (after Gallatin, algorithm 4).
  QUARRY_HD void free(void* pointer) const {
    if (pointer == nullptr || !is_usable()) return;
    pointer = detail::hardening::retire(*this, *state_, pointer);
    if (pointer != nullptr) free_now(pointer);
  }

  /// Frees an allocation if it can hold `size` bytes, else records `size_mismatch`.
  QUARRY_HD void free(void* pointer, bytes size) const {
    if (pointer == nullptr || !is_usable()) return;
    bytes const current_size = usable_size(pointer);
    if (current_size == 0) return;
    if (size > current_size) {
      report(fault_kind::size_mismatch, size, pointer);
      return;
    }
    free(pointer);
  }

  /// Returns the bytes that the allocation can hold. Returns 0 and records a fault if no allocation
  /// can start at `pointer`. Only the hardened mode detects that the allocation was freed.
  [[nodiscard]] QUARRY_HD bytes usable_size(void const* pointer) const {
    if (!is_usable()) return 0;
    location const place = locate<entry_source::memory>(pointer);
    if (place.kind != fault_kind::none) {
      report(place.kind, 0, pointer);
      return 0;
    }
    return detail::hardening::usable(place.is_large ? bytes{place.use.count()} << segment_shift()
                                                    : place.size);
  }

  /// Returns whether the address lies in the heap's region.
  [[nodiscard]] QUARRY_HD bool owns(void const* pointer) const {
    return is_usable() && offset_of(pointer) < region_bytes();
  }

  /// Returns the base address of the live allocation that contains `pointer`, or nullptr if there
  /// is no such allocation. O(1); records no fault.
  [[nodiscard]] QUARRY_HD void* allocation_of(void const* pointer) const {
    if (!is_usable()) return nullptr;
    return simt::indirect_call([heap = *this, pointer]() -> void* {
      location const place = heap.locate<entry_source::memory>(pointer);
      if (place.is_large) {
        if (place.use.is_head()) return heap.address(place.segment, 0);
        return place.use.is_tail() ? heap.address(place.segment - place.use.count(), 0) : nullptr;
      }
      if (place.slice >= place.slices) return nullptr;
      std::uint32_t const index = place.slice / bits_per_word;
      detail::block const target =
          detail::heap_state::block_in(heap.words_of(place.segment), heap.segment_shift(),
                                       place.slices, index / detail::words_per_block);
      bool const is_free_slice =
          (target.word_at(index % detail::words_per_block).peek() >> place.slice % bits_per_word &
           1) != 0;
      if (is_free_slice || target.peek().is_free()) return nullptr;
      void* const result = heap.address(place.segment, bytes{place.slice} * place.size);
      return detail::hardening::was_freed(heap, *heap.state_, result) ? nullptr : result;
    });
  }

  /// Allocates and constructs a T from `arguments`. Returns nullptr if there is no memory.
  template <class T, class... Arguments>
  [[nodiscard]] QUARRY_HD T* make(Arguments&&... arguments) const {
    void* const memory =
        alignof(T) <= min_alignment ? malloc(sizeof(T)) : aligned_malloc(alignof(T), sizeof(T));
    return memory == nullptr ? nullptr : ::new (memory) T(std::forward<Arguments>(arguments)...);
  }

  /// Destroys and frees an object that `make` returned; ignores nullptr.
  template <class T>
  QUARRY_HD void destroy(T* object) const {
    if (object == nullptr) return;
    object->~T();
    free(object);
  }

 private:
  friend struct detail::heap_internals;  // calls and documents the next two functions

  QUARRY_HD void free_now(void* pointer) const {
    location const place = locate<entry_source::cache>(pointer);
    if (place.kind == fault_kind::none && !place.is_large) {
      free_slice(place, pointer);
    } else {  // a large allocation, or the cached entry of the segment is stale or wrong
      free_past_cache(pointer);
    }
  }

  QUARRY_HD void report(fault_kind kind, bytes size, void const* pointer,
                        std::uint32_t lanes = 1) const {
    return simt::indirect_call([heap = *this, kind, size, pointer, lanes] {
      fault entry;
      entry.kind =
          heap.state_->magic == detail::heap_state::magic_alive ? kind : fault_kind::destroyed;
      entry.size = size;
      entry.address = reinterpret_cast<std::uint64_t>(pointer);
      if (kind == fault_kind::out_of_memory) {
        entry.free_segments_bytes = bytes{heap.state_->free_segments.count()}
                                    << heap.segment_shift();
      }
      heap.state_->faults.record(entry, lanes);
    });
  }

  /// The position of an address, and whether an allocation can start there.
  struct location {
    fault_kind kind;
    bool is_large;
    std::uint32_t segment, slice;
    detail::segment_use use;
    std::uint32_t size, slices;  // the bytes of each slice of the segment, and how many it has
  };

  /// The source of a segment's entry for `locate` (segment_entry).
  enum class entry_source { cache, memory };

  [[nodiscard]] QUARRY_HD bool is_usable() const {
    if ((packed_ & 0x7f) == heap_build) return true;
    if (state_ != nullptr) report(fault_kind::wrong_version, 0, nullptr);
    return false;
  }

  [[nodiscard]] QUARRY_HD std::uint64_t base() const { return packed_ & ~std::uint64_t{0xffff}; }
  [[nodiscard]] QUARRY_HD std::uint32_t segment_shift() const { return 16 + (packed_ >> 7 & 0xf); }
  [[nodiscard]] QUARRY_HD bytes segment_bytes() const { return bytes{1} << segment_shift(); }
  /// Entries of the segment table: the reserved segments, rounded up to a power of two.
  [[nodiscard]] QUARRY_HD std::uint32_t entries() const { return 1u << (packed_ >> 11 & 0x1f); }

  [[nodiscard]] QUARRY_HD std::uint64_t offset_of(void const* pointer) const {
    return reinterpret_cast<std::uint64_t>(pointer) - base();
  }
  [[nodiscard]] QUARRY_HD bytes region_bytes() const {
    return bytes{state_->segments_reserved} << segment_shift();
  }
  [[nodiscard]] QUARRY_HD bytes largest_slice() const { return segment_bytes() / 2; }

  /// The first word of the slice bitmap of a segment.
  [[nodiscard]] QUARRY_HD word* words_of(std::uint32_t segment) const {
    return state_->bits +
           std::size_t{segment} * detail::heap_state::stride_of_bits(segment_shift());
  }

  [[nodiscard]] QUARRY_HD void* address(std::uint32_t segment, bytes offset) const {
    return reinterpret_cast<void*>(base() + (std::uint64_t{segment} << segment_shift()) + offset);
  }

  [[nodiscard]] QUARRY_HD void* malloc_slice(size_class id) const {
    auto const callers = simt::lane_group::coalesced<class malloc_site>();
    return claim_ticket(callers, callers.match(state_, id), id);
  }

  /// The fast path: one atomic addition for the group; a member's ticket determines its slice. The
  /// layout is loaded first, so that both accesses overlap. The lane with the counter's last ticket
  /// records that before any lane waits for tickets.
  ///
  /// `callers` called `malloc` together; `group` are those of them that want this class. If one
  /// needs the slow path, all wait for it: while a lane that returned alone computes, the hardware
  /// may not run a lane of its warp that replaces a run, for which other warps wait.
  [[nodiscard]] QUARRY_HD void* claim_ticket(simt::lane_group const& callers,
                                             simt::lane_group const& group, size_class id) const {
    std::uint32_t const index = simt::warp_hint() % detail::counters_per_class;
    detail::class_layout const layout = state_->layouts[id];
    word previous = 0;
    if (group.is_leader()) previous = state_->ticket_counter_at(id, index).claim(group.size());
    group.sync();  // extends the leader's acquire to all members
    previous = group.broadcast(previous);
    detail::segment_run const run = detail::ticket_counter::run_of(previous);
    detail::ticket_slice const place = detail::ticket_counter::slice_of(
        layout, run, index, detail::ticket_counter::ticket_of(previous) + group.rank());
    if (place.is_last) simt::indirect_call(&detail::slice_supply::record_used_up, *state_, id, run);
    void* result = nullptr;
    if (place.is_valid) result = address(place.segment, bytes{place.slice} * layout.size);
    if (callers.ballot(!place.is_valid) != 0) {
      if (!place.is_valid) result = malloc_slow(id);
      callers.sync();
    }
    return result;
  }

  /// Serves the whole group, so that its lanes stay together in the kernel's next steps.
  QUARRY_HD void* malloc_slow(size_class id) const {
    return simt::indirect_call([self = *this, id]() -> void* {
      heap_ref const heap = self;  // `serve_all` takes the address of this copy only
      if (heap.state_->magic != detail::heap_state::magic_alive)
        return heap.fail(fault_kind::destroyed, 0);
      auto const group =
          simt::lane_group::coalesced<class malloc_slow_site>().match(heap.state_, id);
      detail::slice_request request{heap.state_, id, group.size()};
      void* result = nullptr;
      fault_kind failure = simt::indirect_call(&serve_all, heap, group, request, result);
      if (is_on(mitigation::quarantine) && failure == fault_kind::out_of_memory) {
        // The quarantine retains memory that can serve the request.
        detail::hardening::empty_quarantine(heap, *heap.state_, group.rank(), group.size());
        group.sync();
        request.restart();
        failure = simt::indirect_call(&serve_all, heap, group, request, result);
      }
      if (failure != fault_kind::none) {
        simt::lane_mask const waiting = group.ballot(result == nullptr);
        if (group.is_leader())
          heap.report(failure, size_of_class(id), nullptr, count_ones(waiting));
      }
      return result;
    });
  }

  /// Allocates whole segments from the end of the region (after Gallatin, algorithm 1).
  QUARRY_HD void* malloc_large(bytes size) const {
    return simt::indirect_call([heap = *this, size]() -> void* {
      if (heap.state_->magic != detail::heap_state::magic_alive)
        return heap.fail(fault_kind::destroyed, size);
      bytes const count = (size + heap.segment_bytes() - 1) >> heap.segment_shift();
      if (size > heap.region_bytes() || count == 0)
        return heap.fail(fault_kind::out_of_memory, size);
      auto const wanted = static_cast<std::uint32_t>(count);
      detail::heap_state& state = *heap.state_;
      std::uint32_t first = simt::indirect_call(&detail::large_allocations::claim, state, wanted);
      if (is_on(mitigation::quarantine) && first == detail::bit_tree::none) {
        detail::hardening::empty_quarantine(heap, state);
        first = detail::large_allocations::claim(state, wanted);
      }
      if (first == detail::bit_tree::none) return heap.fail(fault_kind::out_of_memory, size);
      return heap.address(first, 0);
    });
  }

  /// Frees with the current entry of the segment. A pointer that it rejects is not allocated.
  QUARRY_HD void free_past_cache(void* pointer) const {
    return simt::indirect_call([heap = *this, pointer] {
      location const place = heap.locate<entry_source::memory>(pointer);
      fault_kind kind = place.kind;
      if (kind == fault_kind::none) {
        bool const is_freed =
            place.is_large ? detail::large_allocations::free(*heap.state_, place.segment, place.use)
                           : heap.free_one_slice(place);
        if (is_freed) return;
        kind = fault_kind::double_free;
      }
      heap.report(kind, 0, pointer);
    });
  }

  /// Lanes that free slices of one word share one atomic.
  ///
  /// The slice's bit and the state of a free slice block show a double free at no extra cost. Only
  /// the hardened mode checks whether a slice was allocated since its segment was formatted.
  QUARRY_HD void free_slice(location const& place, void* pointer) const {
    size_class const id = place.use.slices_class();
    std::uint32_t const index = place.slice / bits_per_word;
    word const own_bit = word{1} << place.slice % bits_per_word;
    if constexpr (is_on(mitigation::canary)) {
      if (!state_->was_handed_out(id, place.segment, place.slice)) {
        report(fault_kind::double_free, 0, pointer);
        return;
      }
    }
    auto group = simt::lane_group::coalesced<class free_site>().match(
        state_, (place.segment << (segment_shift() - 10)) + index);
    // Lanes that read the entry separately may have seen different uses of the segment.
    if (!group.all_equal(place.use.key())) group = group.match(place.use.key());
    word const slices = group.or_reduce(own_bit);
    bool is_double_free = count_ones(slices) != group.size() && !group.match(own_bit).is_leader();
    group.sync();  // orders every member's writes before the leader's release
    detail::slice_return::result outcome{0, false};
    if (group.is_leader()) {
      detail::block const target = detail::heap_state::block_in(
          words_of(place.segment), segment_shift(), place.slices, index / detail::words_per_block);
      outcome = detail::slice_return::release(*state_, id, place.use.generation(), target,
                                              place.segment, index, slices);
    }
    if (group.ballot(outcome.is_stale || outcome.double_freed != 0) != 0) {
      is_double_free = (group.broadcast(outcome.double_freed) & own_bit) != 0 || is_double_free;
      if (group.broadcast(outcome.is_stale) && !is_double_free) free_past_cache(pointer);
    }
    if (is_double_free) report(fault_kind::double_free, 0, pointer);
  }

  [[nodiscard]] QUARRY_HD bool free_one_slice(location const& place) const {
    std::uint32_t const index = place.slice / bits_per_word;
    detail::block const target = detail::heap_state::block_in(
        words_of(place.segment), segment_shift(), place.slices, index / detail::words_per_block);
    auto const outcome = detail::slice_return::release(
        *state_, place.use.slices_class(), place.use.generation(), target, place.segment, index,
        word{1} << place.slice % bits_per_word);
    return !outcome.is_stale && outcome.double_freed == 0;
  }

  template <entry_source Source>
  [[nodiscard]] QUARRY_HD location locate(void const* pointer) const {
    std::uint64_t const offset = offset_of(pointer);
    auto const segment = static_cast<std::uint32_t>(offset >> segment_shift());
    location place{fault_kind::foreign_pointer, true, segment, 0, detail::segment_use{}, 0, 0};
    if (offset >> segment_shift() >= entries()) return place;
    auto const segment_offset =
        static_cast<std::uint32_t>(offset) & (static_cast<std::uint32_t>(segment_bytes()) - 1);
    detail::segment_entry& entry = state_->segments[place.segment];
    detail::segment_entry::view const entry_view =
        Source == entry_source::cache ? entry.look() : entry.look_past_cache();
    place.use = entry_view.use;
    if (place.use.is_slices()) {
      place.is_large = false;
      place.size = size_of_class(place.use.slices_class());
      place.slices = entry_view.layout.slices();
      place.slice = entry_view.layout.by_size().quotient(segment_offset);
      bool const is_start =
          place.slice * place.size == segment_offset && place.slice < place.slices;
      place.kind = is_start ? fault_kind::none : fault_kind::interior_pointer;
    } else if (place.use.is_head()) {
      place.kind = segment_offset == 0 ? fault_kind::none : fault_kind::interior_pointer;
    } else if (place.use.is_tail()) {
      place.kind = fault_kind::interior_pointer;
    }
    return place;
  }

  [[nodiscard]] QUARRY_HD bool fits_in_place(bytes old, bytes size) const {
    if (size > old) return false;
    old = detail::hardening::padded(old);
    size = detail::hardening::padded(size);
    if (old > largest_slice()) return size > largest_slice() && size + segment_bytes() > old;
    return size_class_of(static_cast<std::uint32_t>(size)) ==
           size_class_of(static_cast<std::uint32_t>(old));
  }

  QUARRY_HD void* fail(fault_kind kind, bytes size) const {
    report(kind, size, nullptr);
    return nullptr;
  }

  /// Serves all members that have no result, one grant after another. Returns the failure, if any.
  QUARRY_SLOW static fault_kind serve_all(heap_ref const& heap, simt::lane_group group,
                                          detail::slice_request& request, void*& result) {
    fault_kind failure = fault_kind::none;
    simt::lane_mask waiting = group.ballot(result == nullptr);
    QUARRY_NO_UNROLL
    while (waiting != 0 && failure == fault_kind::none) {
      failure = simt::indirect_call(&serve, heap, group, request, waiting, result);
      waiting = group.ballot(result == nullptr);
    }
    return failure;
  }

  /// Acquires one grant for the `waiting` members. Returns the failure if there is no grant.
  QUARRY_SLOW static fault_kind serve(heap_ref const& heap, simt::lane_group group,
                                      detail::slice_request& request, simt::lane_mask waiting,
                                      void*& result) {
    request.count = count_ones(waiting);
    auto supply = detail::slice_supply::supply::exhausted;
    if (group.is_leader()) supply = simt::indirect_call(&detail::slice_supply::acquire, request);
    group.sync();  // extends the leader's acquire to all members
    supply = group.broadcast(supply);
    if (supply != detail::slice_supply::supply::found) {
      return supply == detail::slice_supply::supply::stalled ? fault_kind::stalled
                                                             : fault_kind::out_of_memory;
    }
    simt::indirect_call(&share, group, request);
    if (result == nullptr)
      result = simt::indirect_call(&place_in_grant, heap, request, group.rank_among(waiting));
    return fault_kind::none;
  }

  /// Copies the grant of the leader's request to all members.
  QUARRY_SLOW static void share(simt::lane_group group, detail::slice_request& request) {
    request.origin = group.broadcast(request.origin);
    request.counter = group.broadcast(request.counter);
    request.segment = group.broadcast(request.segment);
    request.index = group.broadcast(request.index);
    request.value = group.broadcast(request.value);
  }

  /// Returns the slice of the member with rank `rank` among the waiting members, or nullptr if the
  /// grant is too small.
  QUARRY_SLOW static void* place_in_grant(heap_ref const& heap,
                                          detail::slice_request const& request,
                                          std::uint32_t rank) {
    detail::class_layout const& layout = heap.state_->layouts[request.id];
    if (request.origin == detail::slice_request::source::bits) {
      if (rank >= count_ones(request.value)) return nullptr;
      std::uint32_t const slice = request.index * bits_per_word + select_one(request.value, rank);
      return heap.address(request.segment, bytes{slice} * layout.size);
    }
    detail::ticket_slice const place = detail::ticket_counter::slice_of(
        layout, detail::ticket_counter::run_of(request.value), request.counter,
        detail::ticket_counter::ticket_of(request.value) + rank);
    return place.is_valid ? heap.address(place.segment, bytes{place.slice} * layout.size) : nullptr;
  }

  detail::heap_state* state_ = nullptr;
  // base of the region: 48, log2 of the table's entries: 5, segment shift - 16: 4, build: 7
  std::uint64_t packed_ = 0;
};

static_assert(sizeof(heap_ref) <= 16);

}  // namespace quarry::inline QUARRY_ABI
