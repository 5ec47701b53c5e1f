// SPDX-License-Identifier: Apache-2.0
// Private arrays whose elements are interleaved: what the lanes of a warp read at one index is side
// by side.
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/device/coalescing/lane_span.hpp"
#include "quarry/device/fault.hpp"
#include "quarry/device/heap_internals.hpp"
#include "quarry/simt/lane_group.hpp"

namespace quarry::inline QUARRY_ABI {

/// What stands before the first row of a superblock: who holds an array in it, and where the
/// upstream's memory begins.
///
/// It lies next to memory of the user's, so it is checked before it is relied on: `mark` depends on
/// its own address and on `offset`. A wild write, or another use of the memory, goes unseen only if
/// it makes the same 64 bits.
///
/// `holders` is atomic; everything else is Guarded by: `holders` too, since only `make`'s leader,
/// before others know of the superblock, and whoever clears the last bit write it.
///
/// Memory order. (Z) clears bits with an acquire-release RMW. Its release puts a lane's accesses to
/// its elements before it; only RMWs follow on `holders`, so whoever clears the last bit acquires
/// from all that left before, and gives the memory back after all of their accesses. What the next
/// owner may then do is ordered by the upstream's free and malloc.
struct array_superblock {
  std::uint32_t holders;  // bit k: the lane with rank k has not destroyed its array
  std::uint32_t offset;   // bytes from the upstream's pointer to this header
  std::uint64_t mark;

  enum class state { live, gone, unknown };

  [[nodiscard]] QUARRY_HD std::uint64_t live_mark() const {
    return (reinterpret_cast<std::uint64_t>(this) ^ offset) * 0x9e3779b97f4a7c15u;
  }
  [[nodiscard]] QUARRY_HD state look() const {
    return mark == live_mark() ? state::live : mark == ~live_mark() ? state::gone : state::unknown;
  }
  [[nodiscard]] QUARRY_HD void* upstream_memory() { return reinterpret_cast<char*>(this) - offset; }

  /// Takes the `leaving` ranks off the holders. Gives who held an array before; the caller is the
  /// last if nobody does now.
  [[nodiscard]] QUARRY_HD std::uint32_t leave(std::uint32_t leaving) {
    return simt::atomic_ref<std::uint32_t>{holders}.fetch_and(~leaving,
                                                              superblock_leave_order);  // (Z)
  }
};

/// A lane's own array, interleaved with those of the lanes that made theirs together: element i of
/// rank r lies at base + i * stride + r, stride being the number of these lanes. A warp that goes
/// through its arrays in step then reads one line where private arrays one after the other cost it
/// 32. (Seed: coalesced allocation, section 3; there each lane's bytes are one chunk of the
/// superblock.)
///
/// An object is 16 bytes, trivially copyable, and may be kept in memory and passed to any lane. It
/// is a handle: copies mean the same array, and **no destructor frees**; one of the copies must be
/// `destroy`ed, by any lane of any block or later kernel. Elements begin uninitialised. Different
/// lanes may use their arrays at once; lanes that share one must synchronise.
///
/// Invariants: a superblock is with the upstream exactly while a bit of its `holders` is one; rows
/// begin at a multiple of 128 bytes; every rank below `stride()` has `size()` elements at most as
/// many as there are rows.
///
/// Costs: one upstream allocation for the lanes, of 128 bytes and stride * (the largest size) *
/// sizeof(T): lanes that want less leave gaps. One index in a full warp touches 32 * sizeof(T)
/// bytes that are side by side: a quarter of a line of 128 bytes for 1-byte elements, one line for
/// 4, four for 16. Elements that the machine cannot load at once, of 12 bytes, say, take several
/// accesses to the same lines, so that an array for each member is better. A lane alone has stride
/// 1: an ordinary array.
template <class T>
class lane_array {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_const_v<T>);
  static_assert(alignof(T) <= 128, "rows begin at multiples of 128 bytes");
  static_assert(sizeof(T) < 1u << 27, "the size of a superblock fits 64 bits");

 public:
  using value_type = T;
  using iterator = lane_iterator<T>;
  using const_iterator = lane_iterator<T const>;

  /// No array.
  lane_array() = default;

  /// An array of `size` elements for each lane that comes here together with the same `heap`; never
  /// waits for one that is elsewhere. Each may want another size. `heap` is a trivially copyable
  /// handle with `malloc(bytes)`, aligned to 16 bytes, and `free(void*)`. If a size is above
  /// 2^32 - 1, or the heap has no memory, all of them get no array. One malloc, and a shuffle for
  /// each lane.
  template <class Heap>
  [[nodiscard]] QUARRY_HD static lane_array make(Heap const& heap, std::uint64_t size) {
    auto const group = simt::lane_group::coalesced<class make_site>().match_bytes(heap);
    std::uint64_t const rows = largest(group, size);
    array_superblock* shared = nullptr;
    if (group.is_leader()) shared = allocate(heap, rows, group.size());
    group.sync();  // the leader's acquire is everybody's
    shared = group.broadcast(shared);
    if (shared == nullptr) return {};
    return {reinterpret_cast<T*>(shared + 1) + group.rank(), static_cast<std::uint32_t>(size),
            group.size(), group.rank()};
  }

  /// Gives the array up, and the superblock back to `heap`, the one it is from, if it was the last;
  /// lanes that come together do it with one atomic. The object has no array then; without one
  /// nothing happens. O(1).
  ///
  /// False, and a fault if `heap` takes reports, if a copy of this object was destroyed before:
  /// `double_free`; or if the header was overwritten, or its memory is used for something else by
  /// now: `foreign_pointer`. Nothing else changes. Not told: a copy whose place another superblock
  /// has taken.
  template <class Heap>
  QUARRY_HD bool destroy(Heap const& heap) {
    if (first_ == nullptr) return true;
    T* const first = first_;
    array_superblock* const shared = superblock();
    first_ = nullptr;
    size_ = 0;
    auto const found = shared->look();
    if (found == array_superblock::state::unknown)
      return refuse(heap, fault_kind::foreign_pointer, first);
    if (found == array_superblock::state::gone || !leave(heap, shared))
      return refuse(heap, fault_kind::double_free, first);
    return true;
  }

  [[nodiscard]] QUARRY_HD explicit operator bool() const { return first_ != nullptr; }

  /// Requires `i` < `size()`, which is not checked.
  [[nodiscard]] QUARRY_HD T& operator[](std::uint32_t i) { return span()[i]; }
  [[nodiscard]] QUARRY_HD T const& operator[](std::uint32_t i) const { return span()[i]; }
  [[nodiscard]] QUARRY_HD iterator begin() { return span().begin(); }
  [[nodiscard]] QUARRY_HD iterator end() { return span().end(); }
  [[nodiscard]] QUARRY_HD const_iterator begin() const { return span().begin(); }
  [[nodiscard]] QUARRY_HD const_iterator end() const { return span().end(); }

  /// Element 0, or nullptr if there is no array; the others are `stride()` places apart.
  [[nodiscard]] QUARRY_HD T* data() { return first_; }
  [[nodiscard]] QUARRY_HD T const* data() const { return first_; }
  [[nodiscard]] QUARRY_HD std::uint32_t size() const { return size_; }
  [[nodiscard]] QUARRY_HD bool empty() const { return size_ == 0; }
  /// How many lanes made their arrays with this one, and which of them this is.
  [[nodiscard]] QUARRY_HD std::uint32_t stride() const { return stride_; }
  [[nodiscard]] QUARRY_HD std::uint32_t rank() const { return rank_; }

  /// The elements as a view, and part of them: see lane_span, also for the three below.
  [[nodiscard]] QUARRY_HD lane_span<T> span() { return {first_, size_, stride_}; }
  [[nodiscard]] QUARRY_HD lane_span<T const> span() const { return {first_, size_, stride_}; }
  [[nodiscard]] QUARRY_HD operator lane_span<T>() { return span(); }
  [[nodiscard]] QUARRY_HD operator lane_span<T const>() const { return span(); }
  [[nodiscard]] QUARRY_HD lane_span<T> subspan(std::uint32_t first, std::uint32_t count) {
    return span().subspan(first, count);
  }
  [[nodiscard]] QUARRY_HD lane_span<T const> subspan(std::uint32_t first,
                                                     std::uint32_t count) const {
    return span().subspan(first, count);
  }

  /// The side that is an ordinary array costs a warp a line for each lane, as always.
  QUARRY_HD std::uint32_t copy_from(T const* ordinary, std::uint32_t count) {
    return span().copy_from(ordinary, count);
  }
  QUARRY_HD std::uint32_t copy_to(T* ordinary, std::uint32_t count) const {
    return span().copy_to(ordinary, count);
  }
  QUARRY_HD void fill(T const& value) { span().fill(value); }

 private:
  static constexpr std::uint32_t line_bytes = 128;

  QUARRY_HD lane_array(T* first, std::uint32_t size, std::uint32_t stride, std::uint32_t rank)
      : first_{first},
        size_{size},
        stride_{static_cast<std::uint16_t>(stride)},
        rank_{static_cast<std::uint16_t>(rank)} {}

  [[nodiscard]] QUARRY_HD array_superblock* superblock() const {
    return reinterpret_cast<array_superblock*>(first_ - rank_) - 1;
  }

  [[nodiscard]] QUARRY_HD static std::uint64_t largest(simt::lane_group const& group,
                                                       std::uint64_t size) {
    std::uint64_t result = 0;
    QUARRY_NO_UNROLL
    for (simt::lane_mask rest = group.members(); rest != 0; rest &= rest - 1) {
      std::uint64_t const other = group.broadcast(size, lowest_one(rest));
      if (other > result) result = other;
    }
    return result;
  }

  /// A superblock for `lanes`, or nullptr. The header stands right before the first multiple of a
  /// line that leaves room for it: at most a line of the upstream's memory goes to header and
  /// alignment.
  template <class Heap>
  [[nodiscard]] QUARRY_HD static array_superblock* allocate(Heap const& heap, std::uint64_t rows,
                                                            std::uint32_t lanes) {
    if (rows > 0xFFFF'FFFFu) {
      if constexpr (heap_internals::takes_reports<Heap>)
        heap_internals::report(heap, fault_kind::out_of_memory, ~bytes{0}, nullptr, lanes);
      return nullptr;
    }
    // so that it is aligned to 16
    void* const memory = heap.malloc((line_bytes + rows * lanes * sizeof(T) + 15) / 16 * 16);
    if (memory == nullptr) return nullptr;
    auto const address = reinterpret_cast<std::uint64_t>(memory);
    std::uint64_t const first_row =
        (address + sizeof(array_superblock) + line_bytes - 1) / line_bytes * line_bytes;
    auto* const shared = reinterpret_cast<array_superblock*>(first_row) - 1;
    shared->holders = static_cast<std::uint32_t>(low_bits(lanes));
    shared->offset = static_cast<std::uint32_t>(first_row - sizeof(array_superblock) - address);
    shared->mark = shared->live_mark();
    return shared;
  }

  /// False if this lane's rank had left before.
  template <class Heap>
  [[nodiscard]] QUARRY_HD bool leave(Heap const& heap, array_superblock* shared) const {
    std::uint32_t const own = 1u << rank_;
    auto const group = simt::lane_group::coalesced<class leave_site>().match(shared);
    auto const all = static_cast<std::uint32_t>(group.or_reduce(own));
    // Copies of one object may come together: one of them is right.
    bool const first = count_ones(all) == group.size() || group.match(own).is_leader();
    group.sync();  // what every member did comes before the leader's release
    std::uint32_t held = 0;
    if (group.is_leader()) {
      held = shared->leave(all);
      if (held != 0 && (held & ~all) == 0) {
        shared->mark = ~shared->live_mark();
        heap.free(shared->upstream_memory());
      }
    }
    return (group.broadcast(held) & own) != 0 && first;
  }

  template <class Heap>
  QUARRY_HD static bool refuse([[maybe_unused]] Heap const& heap, [[maybe_unused]] fault_kind kind,
                               [[maybe_unused]] T const* first) {
    if constexpr (heap_internals::takes_reports<Heap>)
      heap_internals::report(heap, kind, 0, first, 1u);
    return false;
  }

  T* first_ = nullptr;
  std::uint32_t size_ = 0;
  std::uint16_t stride_ = 1;
  std::uint16_t rank_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI
