// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/coalescing/static_coalescing.hpp"

namespace quarry::inline QUARRY_ABI {

/// Allocation for lanes that request the same sizes in the same order, but not at the same time. No
/// lane waits.
///
/// The n-th call of a lane belongs to the n-th superblock of its warp. The first lane that makes
/// its n-th call reserves the superblock for all lanes of the warp. Later lanes take their parts,
/// which are adjacent, by their own count of calls. If its part is not available at once, a lane
/// cancels the part and must allocate in another way. There are three reasons: another lane is
/// still reserving, the lane requests another size, or its superblock's entry in the ring is still
/// in use. The third case happens to a lane that is far ahead of the others. A misprediction costs
/// memory but never blocks.
///
/// A warp's ring has `ring_entries` entries; call n uses entry n mod `ring_entries`. An entry's
/// control word holds the number of the call, whether the superblock is ready, and one bit for each
/// lane that has taken or cancelled its part. An entry is reused when all bits are set and no lane
/// is reserving a superblock in it.
///
/// Problem. A lane that is past a call never takes its part of that call, so the reserving lane
/// must cancel the part.
/// Race. A lane counts its call while another lane reserves for that call.
/// Re-check. A lane counts its call in `calls`, and then begins with an RMW of the control word
/// (D). Either the reserving lane sees the count, or the lane sees the reservation. The
/// compare-and-swap that sets the lane's bit decides.
/// Price. All loops are bounded: a control word changes at most once per lane and call.
///
///   label  statement                               partner  guarantee
///   (D)    RMWs of the control word, acq_rel       (D)      the later one sees the counted calls
///   (Y)    sets the entry to ready, acq_rel        (D) (Y)  publishes superblock and size
///   (L)    reads the word; an RMW decides                   none
class reserved_coalescing {
 public:
  static constexpr std::uint32_t ring_entries = 4;

  struct entry {
    std::uint64_t control;
    detail::superblock* superblock;
    bytes size;  // the requested size
  };
  /// The ring of one warp. Initially zeroed.
  struct alignas(128) ring {
    entry entries[ring_entries];
    std::uint32_t calls[simt::warp_size];  // from 2^29 on, calls are `unavailable`
  };

  enum class outcome : std::uint32_t {
    done,        ///< the lane owns the pointer
    exhausted,   ///< the upstream heap had no memory for the lane's warp
    unavailable  ///< the part is not available: the lane must allocate in another way
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

  /// Allocates. Lanes that make the same call of one ring together, with one size, share one update
  /// of the control word.
  template <class Upstream>
  [[nodiscard]] QUARRY_HD static result malloc(Upstream const& upstream, ring& warp_ring,
                                               bytes size) {
    std::uint32_t const lane = simt::this_place().thread % simt::warp_size;
    std::uint32_t const call =
        simt::atomic_ref{warp_ring.calls[lane]}.fetch_add(1, simt::acq_rel);  // (D)
    auto const group = simt::lane_group::coalesced<class reserved_malloc_site>()
                           .match(&warp_ring, call)
                           .match(size);
    std::uint64_t const own_bit = std::uint64_t{1} << lane;
    grant granted{nullptr, 0, outcome::unavailable};
    if (group.is_leader())
      granted = claim_parts(upstream, warp_ring, call,
                            group.size() == 1 ? own_bit : group.members(), size);
    group.sync();  // extends the leader's acquire to all members
    granted.superblock = group.broadcast(granted.superblock);
    granted.lanes = group.broadcast(granted.lanes);
    granted.status = group.broadcast(granted.status);
    if ((granted.lanes & own_bit) != 0)
      return {granted.superblock->part_with_header(lane), outcome::done};
    return {nullptr,
            granted.status == outcome::exhausted ? outcome::exhausted : outcome::unavailable};
  }

  /// Declares that this lane makes no more calls, and cancels the parts that are reserved for it. A
  /// reservation includes all lanes of the warp. So a lane must call this function if it ends
  /// before other lanes of its warp, or if it never allocates although other lanes of its warp do.
  template <class Upstream>
  QUARRY_HD static void leave(Upstream const& upstream, ring& warp_ring) {
    std::uint32_t const lane = simt::this_place().thread % simt::warp_size;
    std::uint64_t const own_bit = std::uint64_t{1} << lane;
    simt::atomic_ref<std::uint32_t> calls{warp_ring.calls[lane]};
    if (calls.load(simt::relaxed) < has_left) calls.fetch_add(has_left, simt::acq_rel);  // (D)
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < ring_entries; ++i) {
      simt::atomic_ref<std::uint64_t> control{warp_ring.entries[i].control};
      std::uint64_t current = control.fetch_add(0, simt::acq_rel);  // (D)
      QUARRY_NO_UNROLL
      while (call_of(current) != 0 && (current & own_bit) == 0) {
        detail::superblock* const superblock =
            phase_of(current) == ready ? warp_ring.entries[i].superblock : nullptr;
        if (!control.compare_exchange(current, current | own_bit, simt::acq_rel)) {  // (D)
          current = control.load(simt::acquire);                                     // (Y)
          continue;
        }
        if (phase_of(current) == ready) static_coalescing::free(upstream, superblock);
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
    if (call >= has_left) return {nullptr, 0, outcome::unavailable};
    entry& target = warp_ring.entries[call % ring_entries];
    simt::atomic_ref<std::uint64_t> control{target.control};
    std::uint64_t current = control.fetch_add(0, simt::acq_rel);  // (D)
    QUARRY_NO_UNROLL
    for (;;) {
      if (call_of(current) != call + 1) {
        if (call_of(current) > call + 1 || !is_over(current))
          return {nullptr, 0, outcome::unavailable};
        std::uint64_t const next = word_of(call + 1, reserving, callers);
        if (control.compare_exchange(current, next, simt::acq_rel))  // (D)
          return reserve(upstream, warp_ring, target, call, callers, size);
        continue;
      }
      std::uint64_t const remaining = callers & ~current;
      if (remaining == 0) return {nullptr, 0, outcome::unavailable};  // these parts were cancelled
      // `target.superblock` and `target.size` belong to this call while the bits of these lanes are
      // clear
      detail::superblock* const superblock =
          phase_of(current) == ready ? target.superblock : nullptr;
      bytes const failed_size = phase_of(current) == failed ? target.size : 0;
      if (!control.compare_exchange(current, current | remaining, simt::acq_rel)) {  // (D)
        current = control.load(simt::acquire);                                       // (Y)
        continue;
      }
      if (phase_of(current) == failed)
        return {nullptr, 0, failed_size == size ? outcome::exhausted : outcome::unavailable};
      if (phase_of(current) == reserving) return {nullptr, 0, outcome::unavailable};
      if (superblock->part_bytes() == size) return {superblock, remaining, outcome::done};
      if (superblock->free_parts(count_ones(remaining))) upstream.free(superblock);
      return {nullptr, 0, outcome::unavailable};
    }
  }

  /// Reserves for all lanes of the warp, and takes the parts of `callers`.
  template <class Upstream>
  [[nodiscard]] QUARRY_HD static grant reserve(Upstream const& upstream, ring& warp_ring,
                                               entry& target, std::uint32_t call,
                                               std::uint64_t callers, bytes size) {
    std::uint32_t const lanes = lanes_of_warp();
    detail::superblock* const superblock =
        static_coalescing::open<locate_by::header>(upstream, lanes, size);
    std::uint64_t cancelled = all_lanes & ~low_bits(lanes);
    QUARRY_NO_UNROLL
    for (std::uint32_t other_lane = 0; other_lane < lanes; ++other_lane) {
      simt::atomic_ref<std::uint32_t> const calls{warp_ring.calls[other_lane]};
      bool const is_past = calls.load(simt::relaxed) > call;  // (D) acquired with the word
      if (is_past) cancelled |= std::uint64_t{1} << other_lane & ~callers;
    }
    simt::atomic_ref<std::uint64_t> control{target.control};
    std::uint64_t current = control.load(simt::relaxed);  // (L) compare-and-swap decides
    std::uint64_t next = 0;
    target.superblock = superblock;
    target.size = size;
    QUARRY_NO_UNROLL
    do {
      std::uint64_t const taken = (current & all_lanes) | cancelled;
      next = word_of(call + 1, superblock == nullptr ? failed : ready, taken);
      // the parts of `callers` and the parts that no lane has taken yet
      if (superblock != nullptr)
        superblock->owners = count_ones(callers) + count_ones(all_lanes & ~taken);
    } while (!control.compare_exchange(current, next, simt::acq_rel));  // (Y)
    if (superblock == nullptr) return {nullptr, 0, outcome::exhausted};
    return {superblock, callers, outcome::done};
  }
};

}  // namespace quarry::inline QUARRY_ABI
