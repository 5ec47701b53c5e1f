// SPDX-License-Identifier: Apache-2.0
// The free memory of the recorded allocator, event by event.
#include "quarry/trace/event.hpp"

#include "event_buffer.hpp"

#include <nanobind/stl/vector.h>
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <vector>

namespace quarry::python {
namespace {

using namespace nb::literals;
using trace::event;
using trace::event_kind;

/// After an event: the bytes of all free chunks, and of the largest one.
struct free_bytes {
  std::uint64_t all, largest;
};

/// The parts of the reserved blocks that no allocation uses, in one address space.
///
/// Invariants: `free_` has disjoint chunks, each inside one block of `blocks_` and apart from every
/// allocation of `live_`; two chunks touch only where a block ends. `sizes_` counts their sizes.
/// O(log n) for each event, with n blocks, allocations and chunks.
class address_space {
 public:
  void allocate(std::uint64_t base, bytes size) {
    deallocate(base);  // its free is missing
    if (size == 0) return;
    live_.emplace(base, end_of(base, size));
    use(base, end_of(base, size));
  }
  void deallocate(std::uint64_t base) {
    auto const found = live_.find(base);
    if (found == live_.end()) return;
    std::uint64_t const end = found->second;
    live_.erase(found);
    add_free(base, end);
  }
  void reserve(std::uint64_t base, bytes size) {
    std::uint64_t const end = end_of(base, size);
    if (base == end) return;
    unreserve(base, size);  // its return is missing
    blocks_.emplace(base, end);
    add_free(base, end);
  }
  /// Returns a range, which may be a part of a block or of several; with the size 0, a whole block.
  void unreserve(std::uint64_t base, bytes size) {
    std::uint64_t end = end_of(base, size);
    if (auto const whole = blocks_.find(base); size == 0 && whole != blocks_.end())
      end = whole->second;
    use(base, end);
    auto at = first_behind(blocks_, base);
    while (at != blocks_.end() && at->first < end) {
      auto const [block, block_end] = *at;
      at = blocks_.erase(at);
      if (block < base) blocks_.emplace(block, base);
      if (block_end > end) blocks_.emplace(end, block_end);
    }
  }
  [[nodiscard]] free_bytes counts() const {
    return {all_, sizes_.empty() ? 0 : sizes_.rbegin()->first};
  }

 private:
  using ranges = std::map<std::uint64_t, std::uint64_t>;  // base -> end

  [[nodiscard]] static std::uint64_t end_of(std::uint64_t base, bytes size) {
    return base + std::min<std::uint64_t>(size, ~base);
  }
  /// The first range that ends behind an address.
  [[nodiscard]] static ranges::iterator first_behind(ranges& all, std::uint64_t address) {
    auto const at = all.upper_bound(address);
    return at != all.begin() && std::prev(at)->second > address ? std::prev(at) : at;
  }
  void insert(std::uint64_t base, std::uint64_t end) {
    free_.emplace(base, end);
    ++sizes_[end - base];
    all_ += end - base;
  }
  ranges::iterator erase(ranges::iterator chunk) {
    std::uint64_t const size = chunk->second - chunk->first;
    auto const count = sizes_.find(size);
    if (--count->second == 0) sizes_.erase(count);
    all_ -= size;
    return free_.erase(chunk);
  }
  /// Removes a range from the free chunks.
  void use(std::uint64_t base, std::uint64_t end) {
    auto at = first_behind(free_, base);
    while (at != free_.end() && at->first < end) {
      auto const [chunk, chunk_end] = *at;
      at = erase(at);
      if (chunk < base) insert(chunk, base);
      if (chunk_end > end) insert(end, chunk_end);
    }
  }
  /// Adds what blocks have of a range and no allocation uses.
  void add_free(std::uint64_t base, std::uint64_t end) {
    use(base, end);  // chunks stay disjoint even if recorded allocations overlap
    for (auto block = first_behind(blocks_, base); block != blocks_.end() && block->first < end;
         ++block) {
      std::uint64_t next = std::max(block->first, base);
      std::uint64_t const last = std::min(block->second, end);
      for (auto used = first_behind(live_, next); used != live_.end() && used->first < last;
           ++used) {
        if (used->first > next) add_piece(next, used->first, *block);
        next = std::max(next, used->second);
      }
      if (next < last) add_piece(next, last, *block);
    }
  }
  /// Adds a chunk, and joins it with its neighbours of the same block.
  void add_piece(std::uint64_t base, std::uint64_t end, ranges::value_type const& block) {
    auto at = free_.lower_bound(base);
    if (at != free_.end() && at->first == end && end < block.second) {
      end = at->second;
      at = erase(at);
    }
    if (at != free_.begin() && std::prev(at)->second == base && base > block.first) {
      base = std::prev(at)->first;
      erase(std::prev(at));
    }
    insert(base, end);
  }

  ranges blocks_, live_, free_;
  std::map<std::uint64_t, std::uint64_t> sizes_;  // of `free_`: how many have a size
  std::uint64_t all_ = 0;
};

/// Follows a trace. Blocks without a reserve in the trace do not count.
class free_space {
 public:
  /// The free bytes after each of the next events. `spaces` has the number of the address space of
  /// each allocator; devices may use equal addresses.
  record_bytes add(record_view const& bytes, std::vector<std::uint32_t> const& spaces) {
    auto const events = records_of<event>(bytes);
    record_buffer<free_bytes> result;
    {
      released_gil const no_gil;
      auto const counts = result.room(events.size());
      for (std::size_t i = 0; i < events.size(); ++i) counts[i] = after(events[i], spaces);
    }
    result.add(events.size());
    return result.take();
  }

 private:
  free_bytes after(event const& each, std::vector<std::uint32_t> const& spaces) {
    std::uint32_t const number = each.allocator < spaces.size() ? spaces[each.allocator] : 0;
    if (number >= spaces_.size()) spaces_.resize(number + std::size_t{1});
    address_space& space = spaces_[number];
    switch (each.kind) {
      case event_kind::allocate:
        space.allocate(each.address, each.granted == 0 ? each.size : each.granted);
        break;
      case event_kind::deallocate:
        space.deallocate(each.address);
        break;
      case event_kind::reserve:
        space.reserve(each.address, each.size);
        break;
      case event_kind::unreserve:
        space.unreserve(each.address, each.size);
        break;
      default:
        break;
    }
    free_bytes sum{0, 0};
    for (address_space const& one : spaces_) {
      auto const [all, largest] = one.counts();
      sum.all += all;
      sum.largest = std::max(sum.largest, largest);
    }
    return sum;
  }

  std::vector<address_space> spaces_;
};

}  // namespace

void add_free_space(nb::module_& core) {
  nb::class_<free_space>(core, "FreeSpace",
                         "The free memory of the recorded allocator, event by event.")
      .def(nb::init<>())
      .def("add", &free_space::add, "events"_a, "spaces"_a);
}

}  // namespace quarry::python
