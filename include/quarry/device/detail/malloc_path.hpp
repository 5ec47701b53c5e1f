// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/detail/hardening.hpp"
#include "quarry/device/detail/large_allocations.hpp"
#include "quarry/device/detail/other_classes.hpp"
#include "quarry/device/detail/random_claim.hpp"
#include "quarry/simt/lane_group.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// The heap's `malloc`, without the checks of the hardened mode. The fast path takes one atomic for
/// all lanes that request one size class. A slow path serves the lanes that get no slice there. A
/// third path serves requests that exceed the largest slice.
class malloc_path {
 public:
  /// Allocates `size` bytes: a slice, or whole segments if `size` exceeds the largest slice. If the
  /// class has no memory, or too few segments are free, slices of other classes serve the request.
  [[nodiscard]] QUARRY_HD static void* allocate(heap_handle const& heap, bytes size) {
    return size > heap.largest_slice() ? allocate_large(heap, size)
                                       : allocate_slice(heap, static_cast<std::uint32_t>(size));
  }

  /// Does the same. Its lanes check whether all request one class, in place of grouping by class.
  [[nodiscard]] QUARRY_HD static void* allocate_together(heap_handle const& heap, bytes size) {
    if (size > heap.largest_slice()) return allocate_large(heap, size);
    auto const slice_bytes = static_cast<std::uint32_t>(size);
    auto const group = simt::lane_group::coalesced<class malloc_all_site>();
    // One number identifies heap and class: states are aligned to 256 bytes; classes are fewer.
    bool const is_one_class = group.all_equal(reinterpret_cast<std::uint64_t>(&heap.state()) +
                                              size_class_of(slice_bytes));
    return is_one_class ? claim_ticket(heap, group, group, slice_bytes)
                        : allocate_slice(heap, slice_bytes);
  }

  [[nodiscard]] QUARRY_HD static void* allocate_slice(heap_handle const& heap, std::uint32_t size) {
    auto const callers = simt::lane_group::coalesced<class malloc_site>();
    return claim_ticket(heap, callers, callers.match(&heap.state(), size_class_of(size)), size);
  }

  /// Allocates `size` bytes, at most `largest_slice`, with the alignment of their size class: no
  /// slices of other classes serve it. Takes the slow path.
  [[nodiscard]] QUARRY_HD static void* allocate_of_own_class(heap_handle const& heap, bytes size) {
    return search(heap, static_cast<std::uint32_t>(size), slice_request::stage::own_class_only);
  }

  /// Allocates whole segments from the end of the region (after Gallatin, algorithm 1). They are
  /// aligned to the size of a segment. Records a failure if `reports` is true.
  [[nodiscard]] QUARRY_HD static void* allocate_segments(heap_handle const& heap, bytes size,
                                                         bool reports = true) {
    return simt::indirect_call([heap, size, reports]() -> void* {
      void* const result = claim_segments(heap, size);
      return result != nullptr || !reports ? result : heap.fail(fault_kind::out_of_memory, size);
    });
  }

  /// Whether an allocation of `old` usable bytes can serve `size` of them, and `allocate` would not
  /// find a smaller size class or fewer segments for them.
  [[nodiscard]] QUARRY_HD static bool fits_in_place(heap_handle const& heap, bytes old,
                                                    bytes size) {
    if (size > old) return false;
    old = hardening::padded(old);
    size = hardening::padded(size);
    if (old > heap.largest_slice())
      return size > heap.largest_slice() && size + heap.segment_bytes() > old;
    return size_class_of(static_cast<std::uint32_t>(size)) ==
           size_class_of(static_cast<std::uint32_t>(old));
  }

 private:
  /// Allocates whole segments, or adjacent slices if there are none.
  [[nodiscard]] QUARRY_HD static void* allocate_large(heap_handle const& heap, bytes size) {
    bool const may_join = other_classes::may_serve(heap.state(), size);
    void* const result = allocate_segments(heap, size, !may_join);
    if (result != nullptr || !may_join) return result;
    return search(heap, static_cast<std::uint32_t>(size), slice_request::stage::other_classes);
  }

  /// Claims whole segments. Returns nullptr if there are too few, or if the heap is destroyed.
  [[nodiscard]] QUARRY_HD static void* claim_segments(heap_handle const& heap, bytes size) {
    heap_state& state = heap.state();
    if (state.magic != heap_state::magic_alive || size > heap.region_bytes()) return nullptr;
    auto const wanted =
        static_cast<std::uint32_t>((size + heap.segment_bytes() - 1) >> heap.segment_shift());
    std::uint32_t first = simt::indirect_call(&large_allocations::claim, state, wanted);
    if (is_on(mitigation::quarantine) && first == bit_tree::none) {
      hardening::empty_quarantine(heap);
      first = large_allocations::claim(state, wanted);
    }
    return first == bit_tree::none ? nullptr : heap.address(first, 0);
  }

  /// The fast path: one atomic addition for the group; a member's ticket determines its slice. The
  /// layout is loaded first, so that both accesses overlap. The lane with the counter's last ticket
  /// records that before any lane waits for tickets.
  ///
  /// `callers` called `malloc` together; `group` are those of them that want this class. If one of
  /// them needs the slow path, all of them wait for it. Otherwise a lane could return alone and
  /// compute. Meanwhile the hardware may not run a lane of its warp that replaces a run, for which
  /// other warps wait.
  [[nodiscard]] QUARRY_HD static void* claim_ticket(heap_handle const& heap,
                                                    simt::lane_group const& callers,
                                                    simt::lane_group const& group,
                                                    std::uint32_t size) {
    heap_state& state = heap.state();
    size_class const id = size_class_of(size);
    std::uint32_t const index = simt::warp_hint() % counters_per_class;
    class_layout const layout = state.layouts[id];
    word previous = 0;
    if (group.is_leader()) previous = state.ticket_counter_at(id, index).claim(group.size());
    callers.sync();  // extends the leaders' acquire to all members
    previous = callers.broadcast(previous, group.leader());
    segment_run const run = ticket_counter::run_of(previous);
    ticket_slice const found = ticket_counter::slice_of(
        layout, run, index, ticket_counter::ticket_of(previous) + group.rank());
    if (found.is_last) simt::indirect_call(&run_supply::record_used_up, state, id, run);
    void* result = nullptr;
    if (found.is_valid) result = heap.address(found.segment, bytes{found.slice} * layout.size);
    if (callers.ballot(!found.is_valid) != 0) {
      if (!found.is_valid)
        result = serve_slowly(heap, size, ticket_counter::ticket_of(previous),
                              ticket_wait::others_replace_run(layout, previous, index));
      callers.sync();
    }
    return result;
  }

  /// The slow path. `ticket` is a ticket of the class that was not valid. The first lanes after a
  /// run's end search at once: one of them opens the next run. If others came first, a lane waits
  /// for that run, or claims freed slices, and searches if it got none.
  QUARRY_HD static void* serve_slowly(heap_handle const& heap, std::uint32_t size,
                                      std::uint32_t ticket, bool others_replace_run) {
    if (others_replace_run) {
      void* const slice = simt::indirect_call([heap, size, ticket]() -> void* {
        size_class const id = size_class_of(size);
        random_claim::result const freed = random_claim::claim(heap, id, ticket);
        return freed.is_roomy ? ticket_wait::claim(heap, id, ticket) : freed.slice;
      });
      if (slice != nullptr) return slice;
    }
    return search(heap, size, slice_request::stage::own_class);
  }

  /// Searches all memory for slices. Serves the whole group, so that its lanes stay together in the
  /// kernel's next steps.
  QUARRY_HD static void* search(heap_handle const& handle, std::uint32_t size,
                                slice_request::stage first) {
    return simt::indirect_call([handle, size, first]() -> void* {
      size_class const id = size_class_of(size);
      heap_handle const heap = handle;  // `serve_all` takes the address of this copy only
      if (heap.state().magic != heap_state::magic_alive) return heap.fail(fault_kind::destroyed, 0);
      auto const group = simt::lane_group::coalesced<class malloc_slow_site>().match(
          &heap.state(), static_cast<std::uint32_t>(first) << 8 | id);
      slice_request request{&heap.state(), id, group.size()};
      request.size = group.max_reduce(size);
      // The quarantine retains memory that can serve the request better than other classes.
      bool const has_class = first == slice_request::stage::own_class;
      request.now =
          is_on(mitigation::quarantine) && has_class ? slice_request::stage::own_class_only : first;
      void* result = nullptr;
      fault_kind failure = simt::indirect_call(&serve_all, heap, group, request, result);
      if (is_on(mitigation::quarantine) && failure == fault_kind::out_of_memory) {
        hardening::empty_quarantine(heap, group.rank(), group.size());
        group.sync();
        request.restart(first);
        failure = simt::indirect_call(&serve_all, heap, group, request, result);
      }
      if (failure != fault_kind::none) {
        simt::lane_mask const waiting = group.ballot(result == nullptr);
        if (group.is_leader()) heap.report(failure, request.size, nullptr, count_ones(waiting));
      }
      return result;
    });
  }

  /// Serves all members that have no result, one grant after another. Returns the failure of
  /// the last stage, if any.
  QUARRY_SLOW static fault_kind serve_all(heap_handle const& heap, simt::lane_group group,
                                          slice_request& request, void*& result) {
    simt::lane_mask waiting = group.ballot(result == nullptr);
    QUARRY_NO_UNROLL
    while (waiting != 0) {
      fault_kind const failure = simt::indirect_call(&serve, heap, group, request, waiting, result);
      if (failure != fault_kind::none && !request.begin_next_stage()) return failure;
      waiting = group.ballot(result == nullptr);
    }
    return fault_kind::none;
  }

  /// Acquires one grant for the `waiting` members. Returns the failure if there is no grant.
  QUARRY_SLOW static fault_kind serve(heap_handle const& heap, simt::lane_group group,
                                      slice_request& request, simt::lane_mask waiting,
                                      void*& result) {
    request.count = count_ones(waiting);
    auto supply = slice_supply::supply::exhausted;
    if (group.is_leader())
      supply = simt::indirect_call(
          request.asks_other_classes() ? &other_classes::acquire : &slice_supply::acquire, request);
    group.sync();  // extends the leader's acquire to all members
    supply = group.broadcast(supply);
    if (supply != slice_supply::supply::found) {
      return supply == slice_supply::supply::stalled ? fault_kind::stalled
                                                     : fault_kind::out_of_memory;
    }
    simt::indirect_call(&share, group, request);
    if (result == nullptr)
      result = simt::indirect_call(&slice_in_grant, heap, request, group.rank_among(waiting));
    return fault_kind::none;
  }

  /// Copies the grant of the leader's request to all members.
  QUARRY_SLOW static void share(simt::lane_group group, slice_request& request) {
    request.origin = group.broadcast(request.origin);
    request.id = group.broadcast(request.id);
    request.joined = group.broadcast(request.joined);
    request.counter = group.broadcast(request.counter);
    request.segment = group.broadcast(request.segment);
    request.index = group.broadcast(request.index);
    request.value = group.broadcast(request.value);
  }

  /// Returns the slice of the member with rank `rank` among the waiting members, or nullptr if the
  /// grant is too small.
  QUARRY_SLOW static void* slice_in_grant(heap_handle const& heap, slice_request const& request,
                                          std::uint32_t rank) {
    class_layout const& layout = heap.state().layouts[request.id];
    if (request.origin == slice_request::source::bits) {
      if (rank * request.joined >= count_ones(request.value)) return nullptr;
      std::uint32_t const slice =
          request.index * bits_per_word +
          (request.joined > 1 ? joined_slices::first_of_rank(request.value, request.joined, rank)
                              : select_one(request.value, rank));
      return heap.address(request.segment, bytes{slice} * layout.size +
                                               (request.joined > 1 ? joined_slices::offset : 0));
    }
    ticket_slice const found =
        ticket_counter::slice_of(layout, ticket_counter::run_of(request.value), request.counter,
                                 ticket_counter::ticket_of(request.value) + rank);
    return found.is_valid ? heap.address(found.segment, bytes{found.slice} * layout.size) : nullptr;
  }
};

}  // namespace quarry::inline QUARRY_ABI::detail
