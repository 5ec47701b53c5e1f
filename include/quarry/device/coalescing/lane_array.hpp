// SPDX-License-Identifier: Apache-2.0
// Private arrays with interleaved elements: the elements that the lanes of a warp read at one index
// are adjacent.
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/device/coalescing/lane_span.hpp"
#include "quarry/device/detail/heap_internals.hpp"
#include "quarry/device/detail/superblock.hpp"
#include "quarry/device/fault.hpp"
#include "quarry/simt/lane_group.hpp"

namespace quarry::inline QUARRY_ABI {

/// A lane's own array, interleaved with the arrays of the lanes that called `make` together.
/// Element i of the lane with rank r lies at base + i * stride + r; stride is the number of these
/// lanes. If the lanes of a full warp access one index of their arrays of 4-byte elements, they
/// access one cache line. With separate private arrays they would access 32 lines. (After GPU MPI
/// coalescing, section 3; there each lane's bytes are one contiguous part of the superblock.)
///
/// An object is a handle of 16 bytes. It is trivially copyable and can be stored in memory and
/// passed to any lane. Copies refer to the same array, and **no destructor frees it**: a lane of
/// any thread block or of a later kernel must `destroy` one of the copies. Elements are initially
/// uninitialised. Different lanes may use their arrays at once; lanes that share an array must
/// synchronise.
///
/// Invariants: (1) A superblock is allocated from the upstream exactly while a bit of its `owners`
/// is one. (2) Rows start at a multiple of 128 bytes. (3) For every rank below `stride()`, `size()`
/// is at most the number of rows.
///
/// Costs: one upstream allocation for all lanes, of 128 bytes plus stride * (the largest size) *
/// sizeof(T). A lane with a smaller size leaves gaps. One index in a full warp touches 32 *
/// sizeof(T) adjacent bytes. These are a quarter of a 128-byte line for 1-byte elements, one line
/// for 4-byte elements, and four lines for 16-byte elements. An element that the hardware cannot
/// load at once (for example 12 bytes) takes several accesses to the same lines; use one array per
/// member instead. A single lane has stride 1: an ordinary array.
template <class T>
class lane_array {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_const_v<T>);
  static_assert(alignof(T) <= 128, "rows begin at multiples of 128 bytes");
  static_assert(sizeof(T) < 1u << 27, "the size of a superblock fits 64 bits");

 public:
  using value_type = T;
  using iterator = lane_iterator<T>;
  using const_iterator = lane_iterator<T const>;

  /// Makes an object without an array.
  lane_array() = default;

  /// Makes an array of `size` elements for each lane that calls together with the same `heap`.
  /// Sizes may differ between lanes. `heap` is a trivially copyable handle with `malloc(bytes)`,
  /// aligned to 16 bytes, and `free(void*)`. If a size exceeds 2^32 - 1 or the heap has no memory,
  /// no lane of the group gets an array. Never waits for a lane that is elsewhere. Costs one
  /// malloc, and one shuffle per lane.
  template <class Heap>
  [[nodiscard]] QUARRY_HD static lane_array make(Heap const& heap, std::uint64_t size) {
    auto const group = simt::lane_group::coalesced<class make_site>().match_bytes(heap);
    std::uint64_t const rows = largest(group, size);
    detail::superblock* shared = nullptr;
    if (group.is_leader()) shared = allocate(heap, rows, group.size());
    group.sync();  // extends the leader's acquire to all members
    shared = group.broadcast(shared);
    if (shared == nullptr) return {};
    return {reinterpret_cast<T*>(shared + 1) + group.rank(), static_cast<std::uint32_t>(size),
            group.size(), group.rank()};
  }

  /// Destroys the array. The call that destroys the last array of the superblock also frees the
  /// superblock to `heap`, which must be the heap that `make` used. Afterwards the object has no
  /// array. Has no effect on an object without an array. Lanes that call together share one atomic.
  /// O(1).
  ///
  /// Returns false, and records a fault if `heap` accepts reports, in two cases. `double_free`: a
  /// copy of this object was destroyed before. `foreign_pointer`: the header was overwritten, or
  /// its memory has another use by now. Nothing else changes. Not detected: a copy whose address
  /// now belongs to another superblock.
  template <class Heap>
  QUARRY_HD bool destroy(Heap const& heap) {
    if (first_ == nullptr) return true;
    T* const first = first_;
    detail::superblock* const shared = superblock();
    first_ = nullptr;
    size_ = 0;
    using contents = detail::superblock::contents;
    bool const is_live = shared->has_rows(contents::rows);
    if (!is_live && !shared->has_rows(contents::freed_rows))
      return refuse(heap, fault_kind::foreign_pointer, first);
    if (!is_live || !leave(heap, shared)) return refuse(heap, fault_kind::double_free, first);
    return true;
  }

  [[nodiscard]] QUARRY_HD explicit operator bool() const { return first_ != nullptr; }

  /// Returns element `i`. `i` must be less than `size()`; this is not checked.
  [[nodiscard]] QUARRY_HD T& operator[](std::uint32_t i) { return span()[i]; }
  [[nodiscard]] QUARRY_HD T const& operator[](std::uint32_t i) const { return span()[i]; }
  [[nodiscard]] QUARRY_HD iterator begin() { return span().begin(); }
  [[nodiscard]] QUARRY_HD iterator end() { return span().end(); }
  [[nodiscard]] QUARRY_HD const_iterator begin() const { return span().begin(); }
  [[nodiscard]] QUARRY_HD const_iterator end() const { return span().end(); }

  /// The address of element 0, or nullptr if there is no array. Adjacent elements are `stride()`
  /// elements of type T apart.
  [[nodiscard]] QUARRY_HD T* data() { return first_; }
  [[nodiscard]] QUARRY_HD T const* data() const { return first_; }
  [[nodiscard]] QUARRY_HD std::uint32_t size() const { return size_; }
  [[nodiscard]] QUARRY_HD bool empty() const { return size_ == 0; }
  /// The number of lanes that made their arrays together, and the position of this lane among them.
  [[nodiscard]] QUARRY_HD std::uint32_t stride() const { return stride_; }
  [[nodiscard]] QUARRY_HD std::uint32_t rank() const { return rank_; }

  /// Views of all elements or of some elements. lane_span documents these functions, `copy_from`,
  /// `copy_to` and `fill`.
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

  /// If each lane of a warp copies from or to an ordinary array of its own, each access to these
  /// arrays costs one line per lane.
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

  [[nodiscard]] QUARRY_HD detail::superblock* superblock() const {
    return reinterpret_cast<detail::superblock*>(first_ - rank_) - 1;
  }

  [[nodiscard]] QUARRY_HD static std::uint64_t largest(simt::lane_group const& group,
                                                       std::uint64_t size) {
    std::uint64_t result = 0;
    QUARRY_NO_UNROLL
    for (simt::lane_mask remaining = group.members(); remaining != 0; remaining &= remaining - 1) {
      std::uint64_t const member_size = group.broadcast(size, lowest_one(remaining));
      if (member_size > result) result = member_size;
    }
    return result;
  }

  /// Allocates a superblock for `lanes`. Returns nullptr if there is no memory. The header lies
  /// right before the first line boundary that leaves room for it, so header and alignment use at
  /// most one line of the upstream allocation.
  template <class Heap>
  [[nodiscard]] QUARRY_HD static detail::superblock* allocate(Heap const& heap, std::uint64_t rows,
                                                              std::uint32_t lanes) {
    if (rows > 0xFFFF'FFFFu) {
      if constexpr (detail::heap_internals::takes_reports<Heap>)
        detail::heap_internals::report(heap, fault_kind::out_of_memory, ~bytes{0}, nullptr, lanes);
      return nullptr;
    }
    // A multiple of 16 bytes, so that the upstream aligns the allocation to 16.
    void* const memory = heap.malloc((line_bytes + rows * lanes * sizeof(T) + 15) / 16 * 16);
    if (memory == nullptr) return nullptr;
    auto const address = reinterpret_cast<std::uint64_t>(memory);
    std::uint64_t const first_row =
        (address + sizeof(detail::superblock) + line_bytes - 1) / line_bytes * line_bytes;
    auto* const shared = reinterpret_cast<detail::superblock*>(first_row) - 1;
    shared->open_rows(lanes, first_row - sizeof(detail::superblock) - address);
    return shared;
  }

  /// Removes this array's rank from the owners. Returns false if the rank was already removed.
  template <class Heap>
  [[nodiscard]] QUARRY_HD bool leave(Heap const& heap, detail::superblock* shared) const {
    std::uint32_t const own_bit = 1u << rank_;
    auto const group = simt::lane_group::coalesced<class leave_site>().match(shared);
    auto const bits = static_cast<std::uint32_t>(group.or_reduce(own_bit));
    // Several lanes may destroy copies of one object together: only one of them succeeds.
    bool const is_first = count_ones(bits) == group.size() || group.match(own_bit).is_leader();
    group.sync();  // orders every member's accesses before the leader's release
    std::uint32_t allocated = 0;
    if (group.is_leader()) {
      allocated = shared->leave(bits);
      if (allocated != 0 && (allocated & ~bits) == 0) {
        shared->close_rows();
        heap.free(shared->upstream_memory());
      }
    }
    return (group.broadcast(allocated) & own_bit) != 0 && is_first;
  }

  template <class Heap>
  QUARRY_HD static bool refuse([[maybe_unused]] Heap const& heap, [[maybe_unused]] fault_kind kind,
                               [[maybe_unused]] T const* first) {
    if constexpr (detail::heap_internals::takes_reports<Heap>)
      detail::heap_internals::report(heap, kind, 0, first, 1u);
    return false;
  }

  T* first_ = nullptr;
  std::uint32_t size_ = 0;
  std::uint16_t stride_ = 1;
  std::uint16_t rank_ = 0;
};

}  // namespace quarry::inline QUARRY_ABI
