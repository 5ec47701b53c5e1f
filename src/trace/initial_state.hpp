// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/trace/event.hpp"
#include "trace/address_map.hpp"
#include "trace/range_set.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI::trace {

/// What a history does not say: the allocations and segments in use before its first entry. A
/// history is a ring, or begins when the program has run for a while. Found are the allocations
/// that are freed without being allocated, and those that the snapshot has without being allocated.
/// Devices may use equal addresses.
class initial_state {
 public:
  void add(event const& each) {
    if (each.address == 0) return;
    device& memory = devices_[each.allocator];
    switch (each.kind) {
      case event_kind::allocate:
        (void)memory.allocations.insert(each.address, true);
        break;
      case event_kind::deallocate:
        if (!memory.allocations.remove(each.address)) add_initial(each, event_kind::allocate);
        break;
      case event_kind::reserve:
        memory.segments.add(each.address, each.size);
        break;
      case event_kind::unreserve:
        remove_segment(each);
        break;
      default:
        break;
    }
  }
  /// The free of an allocation is requested. The allocation stays in use.
  void add_requested_free(event const& each) {
    if (each.address != 0 && devices_[each.allocator].allocations.insert(each.address, true))
      add_initial(each, event_kind::allocate);
  }
  /// Adds what the snapshot has at its end and the history did not allocate. `call_site()` is the
  /// number of its call site; it is called only for what is added.
  template <class CallSite>
  void add_final_allocation(event each, CallSite const& call_site) {
    if (each.address == 0 || devices_[each.allocator].allocations.remove(each.address)) return;
    each.call_site = call_site();
    add_initial(each, event_kind::allocate);
  }
  template <class CallSite>
  void add_final_segment(event const& each, CallSite const& call_site) {
    if (each.address == 0) return;
    std::size_t const count = events_.size();
    remove_segment(each);
    for (std::size_t i = count; i < events_.size(); ++i) events_[i].call_site = call_site();
  }
  /// The segments, then the allocations.
  [[nodiscard]] std::vector<event> take() {
    std::stable_partition(events_.begin(), events_.end(),
                          [](event const& each) { return each.kind == event_kind::reserve; });
    return std::move(events_);
  }

 private:
  void add_initial(event each, event_kind kind) {
    each.kind = kind;
    events_.push_back(each);
  }
  /// Expandable segments grow and shrink by parts, so a part may be of several reserved ranges.
  void remove_segment(event each) {
    devices_[each.allocator].segments.remove(each.address, each.size,
                                             [&](std::uint64_t base, bytes size) {
                                               each.address = base;
                                               each.size = size;
                                               add_initial(each, event_kind::reserve);
                                             });
  }

  struct device {
    address_map<bool> allocations;
    range_set segments;
  };
  std::map<std::uint32_t, device> devices_;  // by their allocators
  std::vector<event> events_;
};

}  // namespace quarry::inline QUARRY_ABI::trace
