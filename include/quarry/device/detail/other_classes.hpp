// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/device/detail/joined_slices.hpp"
#include "quarry/device/detail/slice_supply.hpp"

namespace quarry::inline QUARRY_ABI::detail {

/// Serves a request with freed slices of other classes, if its own class has no memory, or if it
/// exceeds the largest slice and too few segments are free.
///
/// A segment stays with its class while any slice of it is allocated. So after a change of sizes
/// much memory may be in freed slices of classes that no lane requests any more. The search tries,
/// in this order:
///   1. the class that served the last such request;
///   2. of the smaller classes and the next larger one, the broadest class (bit_tree::breadth):
///      roughly, that with freed slices in most segments;
///   3. the next larger class;
///   4. adjacent slices of a smaller class (joined_slices), from the smallest possible class on;
///   5. larger slices.
/// It examines a few places of each class. Before a refusal it examines more places of the broadest
/// classes, and at last all places, for a limited time. Random places may miss the only adjacent
/// slices that are enough. But on a busy GPU, where lanes of a warp search one after another, a
/// load takes up to 60 us, and the time of a search of all places ends before it has seen them. The
/// wasted bytes are the price of an allocation that would fail otherwise.
///
///   label  statement                       partner  guarantee
///   (L)    reads and changes a hint                 none
class other_classes {
 public:
  /// Whether smaller slices are joined. The poison of an allocation of joined slices would be
  /// checked after single slices of them were in use, or the other way round.
  static constexpr bool joins_slices = !is_on(mitigation::poison);

  /// Whether slices of one segment can serve a request of `size` bytes that exceeds the largest
  /// slice. The limit is 63 slices of the class that has 64 in a segment, less the offset: all of
  /// them are free only in a free segment, and the words of smaller classes have less memory. In a
  /// segment of 64 MiB no class has the size of such requests, so slices serve none.
  [[nodiscard]] QUARRY_HD static bool may_serve(heap_state const& state, bytes size) {
    bytes const limit =
        state.segment_bytes() - state.segment_bytes() / bits_per_word - joined_slices::offset;
    return joins_slices && size <= limit &&
           size_class_of(static_cast<std::uint32_t>(size)) < max_size_classes;
  }

  /// Claims slices for some of `request.count` allocations of up to `request.size` bytes, each of
  /// `request.joined` adjacent slices of class `request.id`. O(classes).
  QUARRY_SLOW static slice_supply::supply acquire(slice_request& request) {
    heap_state& state = *request.state;
    size_class const own = request.own_id;
    simt::atomic_ref<std::uint32_t> hint{state.last_donors[own]};
    std::uint32_t const previous = hint.fetch_add(one_search, simt::relaxed);  // (L)
    request.random = previous;  // so that a lane's searches differ
    size_class const donor = previous % one_search;
    if (donor != 0 && simt::indirect_call(&claim_of_class, request, donor))
      return slice_supply::supply::found;
    bool has_claimed = false;
    if (request.now != slice_request::stage::what_was_freed)
      has_claimed = simt::indirect_call(&claim_of_broadest, request);
    if (!has_claimed && request.now != slice_request::stage::broad_classes)
      has_claimed = simt::indirect_call(&claim_of_any, request);
    if (!has_claimed)
      return request.patience.has_lasted(slice_request::max_microseconds)
                 ? slice_supply::supply::stalled
                 : slice_supply::supply::exhausted;
    std::uint32_t current = hint.load(simt::relaxed);  // (L)
    (void)hint.compare_exchange(current, current - current % one_search + request.id,
                                simt::relaxed);  // (L)
    return slice_supply::supply::found;
  }

 private:
  static constexpr std::uint32_t one_search = 256;  // of `last_donors`; more than there are classes
  static_assert(max_size_classes <= one_search);
  static constexpr std::uint32_t tries_of_a_class = 2;
  static constexpr std::uint32_t max_broad_classes = 4;
  static constexpr std::uint32_t tries_of_a_broad_class = 8;

  /// Claims slices of the broadest of the smaller classes and the next larger one; in the stage
  /// `broad_classes`, of one of the `max_broad_classes` broadest classes. Of equally broad classes
  /// it tries the largest first, whose slices need fewer neighbours.
  QUARRY_SLOW static bool claim_of_broadest(slice_request& request) {
    bool const is_thorough = request.now == slice_request::stage::broad_classes;
    size_class const end = is_thorough ? request.state->classes : end_of_next(request);
    size_class const own = request.own_id;
    size_class const first = joins_slices ? smallest_for(request) : own + 1;
    std::uint32_t previous = ~std::uint32_t{0};  // the classes that were not tried have lower keys
    QUARRY_NO_UNROLL
    for (std::uint32_t tries = is_thorough ? max_broad_classes : 1; tries != 0; --tries) {
      std::uint32_t best = 0;
      QUARRY_UNROLL_4
      for (size_class id = first; id < end; ++id) {
        std::uint32_t const breadth = request.state->class_tree(id).breadth();
        std::uint32_t const key = breadth * max_size_classes + id;
        if (id != own && breadth != 0 && key < previous && key > best) best = key;
      }
      if (best == 0) return false;
      if (simt::indirect_call(&claim_of_class, request, best % max_size_classes)) return true;
      previous = best;
    }
    return false;
  }

  /// The smallest class whose slices can be joined for the request, or its own class.
  QUARRY_SLOW static size_class smallest_for(slice_request const& request) {
    size_class first = joined_slices::smallest_class;
    QUARRY_NO_UNROLL
    while (first < request.own_id && joined_slices::count_for(request.size, first) > bits_per_word)
      ++first;
    return first;
  }

  [[nodiscard]] QUARRY_HD static size_class end_of_next(slice_request const& request) {
    size_class const end = request.own_id + 2;
    return end < request.state->classes ? end : request.state->classes;
  }

  QUARRY_SLOW static bool claim_of_any(slice_request& request) {
    size_class const own = request.own_id;
    size_class const end = request.state->classes;
    size_class const end_of_near = end_of_next(request);
    size_class const first = smallest_for(request);
    size_class const end_of_smaller =
        own < end ? own : end;  // a request may exceed the largest slice
    return simt::indirect_call(&claim_among, request, own + 1, end_of_near) ||
           (joins_slices && simt::indirect_call(&claim_among, request, first, end_of_smaller)) ||
           simt::indirect_call(&claim_among, request, end_of_near, end);
  }

  /// Claims slices of the first class from `first` up to `end` that has some.
  QUARRY_SLOW static bool claim_among(slice_request& request, size_class first, size_class end) {
    QUARRY_NO_UNROLL
    for (size_class id = first; id < end; ++id) {
      if (simt::indirect_call(&claim_of_class, request, id)) return true;
    }
    return false;
  }

  /// Sets `id`, `joined` and `count` of the request for slices of class `id`: as many as its lanes
  /// need, at most a word of them. Returns false if the class has no freed slices, or if one
  /// allocation needs more slices than a word has, or all of a segment, which are free only in a
  /// free segment. `last_donors` may name such a class, which served a smaller size of `own_id`.
  QUARRY_SLOW static bool select_class(slice_request& request, size_class id) {
    if (request.state->class_tree(id).empty()) return false;
    std::uint32_t const joined =
        id > request.own_id ? 1 : joined_slices::count_for(request.size, id);
    if (joined > bits_per_word ||
        (joined > 1 && joined >= request.state->layouts[id].slice.slices()))
      return false;
    std::uint32_t const most = bits_per_word / joined;
    request.id = id;
    request.joined = static_cast<std::uint8_t>(joined);
    request.count = joined * (request.count < most ? request.count : most);
    return true;
  }

  /// Claims slices of class `id`, and joins them if they are smaller than the request's class.
  QUARRY_SLOW static bool claim_of_class(slice_request& request, size_class id) {
    std::uint32_t const lanes = request.count;
    if (!simt::indirect_call(&select_class, request, id)) return false;
    bool const has_claimed =
        request.examines_all()
            ? simt::indirect_call(&slice_claim::claim_anywhere, request)
            : simt::indirect_call(&slice_claim::claim_returned, request,
                                  request.now == slice_request::stage::broad_classes
                                      ? tries_of_a_broad_class
                                      : tries_of_a_class);
    request.count = lanes;
    return has_claimed && (request.joined == 1 || simt::indirect_call(&join, request));
  }

  /// Joins the claimed slices, and releases those that are too few for an allocation. Returns
  /// whether any slices remain.
  QUARRY_SLOW static bool join(slice_request& request) {
    word const complete = lowest_runs(request.value, request.joined, bits_per_word);
    word const rest = request.value & ~complete;
    if (rest != 0)
      simt::indirect_call(&slice_return::return_claimed, *request.state, request.segment,
                          request.index, rest);
    request.value = complete;
    if (complete != 0)
      joined_slices::join(*request.state, request.segment, request.index, complete, request.joined);
    return complete != 0;
  }
};

}  // namespace quarry::inline QUARRY_ABI::detail
