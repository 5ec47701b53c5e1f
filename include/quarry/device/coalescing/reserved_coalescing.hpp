// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/coalescing/static_coalescing.hpp"

namespace quarry::inline QUARRY_ABI {

/// Allocation for lanes that request the same sizes in the same order, each at its own time. No
/// lane waits.
///
/// The n-th call of a lane belongs to the n-th superblock of its warp. The first lane that makes
/// its n-th call reserves the superblock for all lanes of the warp. Later lanes take their parts,
/// which are adjacent, by their own count of calls. A lane cancels its part and must allocate in
/// another way if the part is not available at once: another lane is still reserving; the lane
/// requests another size; or the lane is so far ahead that its superblock's place in the ring is
/// still in use. A misprediction costs memory but never blocks.
///
/// A warp's ring has `places` entries; call n uses entry n mod `places`. An entry's control word
/// holds the number of the call, whether the superblock is ready, and one bit for each lane that
/// has taken or cancelled its part. An entry is reused when all bits are set and no lane is
/// reserving it. `calls` holds the number of calls of each lane, so that the reserving lane cancels
/// the parts of lanes that are past that call.
///
/// Memory order. All changes of a control word are compare-and-swaps, and a call begins with an RMW
/// of it (D), all acquire-release. A lane counts its call before its (D). So either its (D) comes
/// before the reserving lane's change, and the reserving lane sees the call counted; or the lane
/// sees the reservation. The first of the two to set the lane's bit decides, once. The change to
/// ready (Y) publishes superblock and size to the lanes that take parts. All loops are bounded: a
/// control word changes at most once per lane and call.
class reserved_coalescing {
 public:
  static constexpr std::uint32_t places = 4;

  struct entry {
    std::uint64_t control;
    detail::superblock* superblock;
    bytes size;  // the requested size
  };
  /// The ring of one warp. Initially zeroed.
  struct alignas(128) ring {
    entry entries[places];
    std::uint32_t calls[simt::warp_size];
  };

  enum class outcome : std::uint32_t {
    done,       ///< the lane owns the pointer
    exhausted,  ///< the upstream heap had no memory for the lane's warp
    elsewhere   ///< the lane must allocate in another way
  };
  struct result {
    void* pointer;
    outcome status;
  };

  /// The index of the ring of this lane's warp.
  [[nodiscard]] QUARRY_HD static std::uint32_t ring_of_this_lane() {
    auto const place = simt::this_place();
    return place.block * ((place.threads + simt::warp_size - 1) / simt::warp_size) +
           place.thread / simt::warp_size;
  }

  /// Allocates. Lanes that make the same call of one ring together, with one size, share the work.
  template <class Upstream>
  [[nodiscard]] QUARRY_HD static result malloc(Upstream const& upstream, ring& warp_ring,
                                               bytes size) {
    std::uint32_t const lane = simt::this_place().thread % simt::warp_size;
    std::uint32_t const call =
        simt::atomic_ref<std::uint32_t>{warp_ring.calls[lane]}.fetch_add(1, simt::acq_rel);  // (D)
    auto const group = simt::lane_group::coalesced<class reserved_malloc_site>()
                           .match(&warp_ring, call)
                           .match(size);
    std::uint64_t const own = std::uint64_t{1} << lane;
    grant got{nullptr, 0, outcome::elsewhere};
    if (group.is_leader())
      got = claim_parts(upstream, warp_ring, call, group.size() == 1 ? own : group.members(), size);
    group.sync();  // extends the leader's acquire to all members
    got.superblock = group.broadcast(got.superblock);
    got.lanes = group.broadcast(got.lanes);
    got.status = group.broadcast(got.status);
    if ((got.lanes & own) != 0) return {got.superblock->part_with_header(lane), outcome::done};
    return {nullptr, got.status == outcome::exhausted ? outcome::exhausted : outcome::elsewhere};
  }

  /// Declares that this lane makes no more calls, and cancels the parts that are reserved for it. A
  /// lane must call this if it ends before other lanes of its warp, or if it never allocates while
  /// other lanes of its warp do: a reservation includes all lanes of the warp.
  template <class Upstream>
  QUARRY_HD static void leave(Upstream const& upstream, ring& warp_ring) {
    std::uint32_t const lane = simt::this_place().thread % simt::warp_size;
    std::uint64_t const own = std::uint64_t{1} << lane;
    simt::atomic_ref<std::uint32_t> calls{warp_ring.calls[lane]};
    if (calls.load(simt::relaxed) < has_left) calls.fetch_add(has_left, simt::acq_rel);  // (D)
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < places; ++i) {
      simt::atomic_ref<std::uint64_t> control{warp_ring.entries[i].control};
      std::uint64_t seen = control.fetch_add(0, simt::acq_rel);  // (D)
      QUARRY_NO_UNROLL
      while (call_of(seen) != 0 && (seen & own) == 0) {
        detail::superblock* const superblock =
            phase_of(seen) == ready ? warp_ring.entries[i].superblock : nullptr;
        if (!control.compare_exchange(seen, seen | own, simt::acq_rel)) {  // (D)
          seen = control.load(simt::acquire);                              // (Y)
          continue;
        }
        if (phase_of(seen) == ready) static_coalescing::free(upstream, superblock);
        break;
      }
    }
  }

 private:
  static constexpr std::uint64_t all_lanes = ~std::uint32_t{0};
  static constexpr std::uint32_t has_left = 1u << 29;
  static constexpr std::uint64_t ready = 0;
  static constexpr std::uint64_t reserving = 1;
  static constexpr std::uint64_t failed = 2;

  [[nodiscard]] QUARRY_HD static std::uint64_t word_of(std::uint32_t call, std::uint64_t phase,
                                                       std::uint64_t lanes) {
    return std::uint64_t{call} << 34 | phase << 32 | lanes;
  }
  [[nodiscard]] QUARRY_HD static std::uint32_t call_of(std::uint64_t control) {
    return static_cast<std::uint32_t>(control >> 34);
  }
  [[nodiscard]] QUARRY_HD static std::uint64_t phase_of(std::uint64_t control) {
    return control >> 32 & 3;
  }

  /// Whether an entry can be reused for another call: no lane still needs it, and no lane is about
  /// to publish it.
  [[nodiscard]] QUARRY_HD static bool is_over(std::uint64_t control) {
    return call_of(control) == 0 ||
           ((control & all_lanes) == all_lanes && phase_of(control) != reserving);
  }

  /// The lanes of this lane's warp.
  [[nodiscard]] QUARRY_HD static std::uint32_t lanes_of_warp() {
    auto const place = simt::this_place();
    std::uint32_t const first = place.thread / simt::warp_size * simt::warp_size;
    return place.threads - first < simt::warp_size ? place.threads - first : simt::warp_size;
  }

  /// The result for the lanes of one call: the lanes of `lanes` have a part of `superblock`.
  struct grant {
    detail::superblock* superblock;
    std::uint64_t lanes;
    outcome status;
  };

  /// Takes the parts of the lanes of `callers`, which make the same call together.
  template <class Upstream>
  [[nodiscard]] QUARRY_HD static grant claim_parts(Upstream const& upstream, ring& warp_ring,
                                                   std::uint32_t call, std::uint64_t callers,
                                                   bytes size) {
    if (call >= has_left) return {nullptr, 0, outcome::elsewhere};
    entry& at = warp_ring.entries[call % places];
    simt::atomic_ref<std::uint64_t> control{at.control};
    std::uint64_t seen = control.fetch_add(0, simt::acq_rel);  // (D)
    QUARRY_NO_UNROLL
    for (;;) {
      if (call_of(seen) != call + 1) {
        if (call_of(seen) > call + 1 || !is_over(seen)) return {nullptr, 0, outcome::elsewhere};
        std::uint64_t const next = word_of(call + 1, reserving, callers);
        if (control.compare_exchange(seen, next, simt::acq_rel))  // (D)
          return reserve(upstream, warp_ring, at, call, callers, size);
        continue;
      }
      std::uint64_t const left = callers & ~seen;
      if (left == 0) return {nullptr, 0, outcome::elsewhere};  // these parts were cancelled
      // `at.superblock` belongs to this call while the bits of these lanes are clear
      detail::superblock* const superblock = phase_of(seen) == ready ? at.superblock : nullptr;
      bytes const failed_size =
          phase_of(seen) == failed ? at.size : 0;  // the same holds for `at.size`
      if (!control.compare_exchange(seen, seen | left, simt::acq_rel)) {  // (D)
        seen = control.load(simt::acquire);                               // (Y)
        continue;
      }
      if (phase_of(seen) == failed)
        return {nullptr, 0, failed_size == size ? outcome::exhausted : outcome::elsewhere};
      if (phase_of(seen) == reserving) return {nullptr, 0, outcome::elsewhere};
      if (superblock->part_bytes() == size) return {superblock, left, outcome::done};
      if (superblock->free_parts(count_ones(left))) upstream.free(superblock);
      return {nullptr, 0, outcome::elsewhere};
    }
  }

  /// Reserves for all lanes of the warp, and takes the parts of `callers`.
  template <class Upstream>
  [[nodiscard]] QUARRY_HD static grant reserve(Upstream const& upstream, ring& warp_ring, entry& at,
                                               std::uint32_t call, std::uint64_t callers,
                                               bytes size) {
    std::uint32_t const lanes = lanes_of_warp();
    detail::superblock* const superblock =
        static_coalescing::open<locate_by::header>(upstream, lanes, size);
    std::uint64_t cancelled = all_lanes & ~low_bits(lanes);
    QUARRY_NO_UNROLL
    for (std::uint32_t other = 0; other < lanes; ++other) {
      simt::atomic_ref<std::uint32_t> const calls{warp_ring.calls[other]};
      bool const is_past = calls.load(simt::relaxed) > call;  // (D) acquired with the word
      if (is_past) cancelled |= std::uint64_t{1} << other & ~callers;
    }
    simt::atomic_ref<std::uint64_t> control{at.control};
    std::uint64_t seen = control.load(simt::relaxed);  // (L) compare-and-swap decides
    std::uint64_t next = 0;
    at.superblock = superblock;
    at.size = size;
    QUARRY_NO_UNROLL
    do {
      std::uint64_t const done = (seen & all_lanes) | cancelled;
      next = word_of(call + 1, superblock == nullptr ? failed : ready, done);
      // the parts of `callers` and the parts that no lane has taken yet
      if (superblock != nullptr)
        superblock->owners = count_ones(callers) + count_ones(all_lanes & ~done);
    } while (!control.compare_exchange(seen, next, simt::acq_rel));  // (Y)
    if (superblock == nullptr) return {nullptr, 0, outcome::exhausted};
    return {superblock, callers, outcome::done};
  }
};

}  // namespace quarry::inline QUARRY_ABI
