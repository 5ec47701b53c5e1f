// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/core/bytes.hpp"
#include "quarry/device/change_result.hpp"
#include "quarry/simt/atomic.hpp"
#include "quarry/simt/this_lane.hpp"

namespace quarry::inline QUARRY_ABI {

/// A set of 32-bit ids that many lanes change concurrently. The set uses open addressing with
/// linear probing in an array on a heap. The capacity is a power of two. Zeroed memory is an empty
/// set without an array. Every id except `none` can be a member.
///
/// Growth. When 3/4 of the cells are used (all cells, for a capacity of at most 16), an insertion
/// replaces the array by an array for the current members. The new array is twice as large, unless
/// many cells are tombstones. If there is no memory for a new array, insertions use up to 15/16 of
/// the cells, and the cells of erased members. When less than 1/4 of the cells hold members, an
/// erasure replaces the array by a smaller array.
///
/// Invariants, checked by `audit` while no lane changes the set:
///   1. The array has `capacity_` cells, a power of two, or there is no array.
///   2. A cell changes from `none` to a member, and from a member to `tombstone`. It changes back
///      only while the gate is closed.
///   3. Every member is in exactly one cell. No cell between the hash position of the member and
///      this cell is `none`. An insertion cannot pass an empty cell, so two insertions of the
///      same id meet at the same cell, where one insertion fails.
///   4. The counts are the number of cells that are not `none`, and the number of members in
///      cells. The id that marks tombstones cannot be stored in a cell. A bit of the gate says
///      whether this id is a member.
///
/// A lane that inserts stores the id first and then counts it, and another lane may erase the id in
/// between. So the number of members may be negative briefly, at most by the number of lanes
/// inside. While the gate is closed, no lane is inside, and the counts are exact.
///
/// Any lane may call any function at any time, except `clear` and `audit`, which need exclusive use
/// of the set. To replace the array, a lane closes the gate, waits for the lanes inside, and keeps
/// other lanes out. A lane inside waits for no other lane and does not call the heap. The lane that
/// closed the gate calls the heap, and does not wait for other lanes of the set meanwhile. So no
/// wait depends on another wait, not even among the lanes of one warp: with independent thread
/// scheduling, it suffices that every lane makes progress eventually.
///
/// If the heap is full, an insertion that needs a larger array closes the gate but gets no array,
/// and many lanes may wait for it. They do not try one after another: the gate counts such
/// failures, and a lane that sees that an insertion failed during its own call fails, too. (The
/// count wraps after 64 failures. If exactly a multiple of 64 insertions failed, the lane tries
/// itself.)
///
/// Costs: O(1) expected; the cost of replacing the array is amortised. 24 bytes, and 4 bytes per
/// cell. Rejected: a scan of an unsorted array, which costs O(degree) per edge under a hub with
/// 10^5 neighbours. While the heap has memory, cells of erased members are reused only when the
/// array is replaced, so churn costs a replacement for every quarter of the capacity.
///
/// Problem. `cells_` and `capacity_` are plain, and a lane replaces both.
/// Race. Lanes enter while that lane closes the gate.
/// Re-check. (E) returns the gate's previous word. If it was closed, the lane undoes its entry (D).
/// Price. Two RMWs of the gate for each call. A change is one compare-and-swap of a cell.
///
///   label  statement                        partner  guarantee
///   (O)    opens the gate, release          (E)      the array is written before it is read: only
///   (E)    enters, acquire                  (O)      RMWs change the gate
///   (X)    leaves, release                  (W)      the last access comes before a replacement;
///   (W)    waits for lanes inside, acquire  (X)      the counts are exact
///   (B)    closes the gate; (W) follows              none
///   (L)    reads the gate; (E) decides               none
///   (D)    undoes an entry                           none: the lane accessed nothing
///   (P)    accesses a cell                           none: an id says nothing about other memory
///   (M)    one id's membership, in the gate          none, for the same reason
///   (N)    counts                                    none
///   (F)    counts failures                           none: a lane only learns that it may fail
class id_set {
 public:
  static constexpr std::uint32_t none = 0xFFFF'FFFFu;

  /// Adds `id`. Returns `done`, `duplicate`, `out_of_memory` or `reserved_id`. O(1) expected,
  /// amortised.
  template <class Heap>
  [[nodiscard]] QUARRY_HD change_result insert(Heap const& heap, std::uint32_t id) {
    if (id == none) return change_result::reserved_id;
    if (id == tombstone) return insert_tombstone_id();
    std::uint32_t const failures = failures_of(gate().load(simt::relaxed));  // (F)
    for (;;) {
      std::uint32_t const current_failures = failures_of(enter());                  // (F)
      bool const has_room = used(counts().load(simt::relaxed)) < limit(capacity_);  // (N)
      change_result result = change_result::out_of_memory;
      bool is_final = false;
      if (has_room) {
        result = insert_shared(id);
        is_final = result != change_result::out_of_memory;
      } else if (current_failures != failures) {
        result = result_in_full_set(id);
        is_final = result != change_result::done;
      }
      leave();
      if (is_final) return result;
      if (!close()) continue;  // another lane makes room
      change_result const exclusive_result = insert_exclusive(heap, id);
      if (exclusive_result == change_result::out_of_memory) count_failure();
      open();
      return exclusive_result;
    }
  }

  /// Removes `id`. Returns `done`, `absent` or `reserved_id`. A failure to allocate a smaller array
  /// is not an error. O(1) expected, amortised.
  template <class Heap>
  [[nodiscard]] QUARRY_HD change_result erase(Heap const& heap, std::uint32_t id) {
    if (id == none) return change_result::reserved_id;
    if (id == tombstone) return erase_tombstone_id();
    enter();
    change_result result = change_result::absent;
    bool must_shrink = false;
    std::uint32_t const index = find(id);
    std::uint32_t expected = id;
    if (index != none && cell(index).compare_exchange(expected, tombstone, simt::relaxed)) {  // (P)
      std::uint64_t const previous = counts().fetch_sub(one_member, simt::relaxed);           // (N)
      must_shrink = is_sparse(members(previous - one_member), capacity_);
      result = change_result::done;
    }
    leave();
    if (must_shrink && close()) {
      shrink(heap);
      open();
    }
    return result;
  }

  /// Returns whether `id` is a member. O(1) expected.
  [[nodiscard]] QUARRY_HD bool contains(std::uint32_t id) {
    if (id == none) return false;
    if (id == tombstone) return (gate().load(simt::relaxed) & tombstone_is_member) != 0;  // (M)
    enter();
    bool const result = find(id) != none;
    leave();
    return result;
  }

  /// The number of members. The result may be out of date on return.
  [[nodiscard]] QUARRY_HD std::uint32_t size() {
    return members(counts().load(simt::relaxed)) + (contains(tombstone) ? 1 : 0);  // (N)
  }

  /// Calls `visit(id)` for the members in the cells `first`, `first` + `stride`, and so on, so
  /// that `stride` lanes visit all members. `visit` must neither wait nor change this set.
  template <class Visit>
  QUARRY_HD void for_each(std::uint32_t first, std::uint32_t stride, Visit visit) {
    enter();
    for (std::uint64_t index = first; index < capacity_; index += stride) {
      std::uint32_t const id = cell(static_cast<std::uint32_t>(index)).load(simt::relaxed);  // (P)
      if (id != none && id != tombstone) visit(id);
    }
    leave();
    if (first == 0 && contains(tombstone)) visit(tombstone);
  }

  /// Removes all members. Requires that no other lane uses the set.
  template <class Heap>
  QUARRY_HD void clear(Heap const& heap) {
    heap.free(cells_);
    *this = id_set{};
  }

  /// Whether the invariants hold. Requires that no other lane uses the set. O(capacity).
  [[nodiscard]] QUARRY_HD bool audit() {
    if ((gate_ & (closed | lanes_inside)) != 0 || (capacity_ & (capacity_ - 1)) != 0 ||
        (cells_ == nullptr) != (capacity_ == 0))
      return false;
    std::uint32_t used_count = 0;
    std::uint32_t member_count = 0;
    for (std::uint32_t index = 0; index < capacity_; ++index) {
      std::uint32_t const id = cells_[index];
      used_count += id != none ? 1 : 0;
      if (id == none || id == tombstone) continue;
      ++member_count;
      if (find(id) != index) return false;
    }
    return used(counts_) == used_count && members(counts_) == member_count;
  }

 private:
  static constexpr std::uint32_t tombstone = 0xFFFF'FFFEu;  // marks the cell of an erased member
  static constexpr std::uint32_t closed = 1u << 31;
  static constexpr std::uint32_t tombstone_is_member = 1u << 30;
  static constexpr std::uint32_t lanes_inside = (1u << 24) - 1;
  static constexpr std::uint32_t failures_bits = tombstone_is_member - 1 - lanes_inside;
  static constexpr std::uint32_t min_capacity = 4;  // 16 bytes: the heap's smallest size class
  static constexpr std::uint64_t one_used = std::uint64_t{1} << 32;
  static constexpr std::uint64_t one_member = 1;

  /// If the number of members, the lower half, is negative, it has borrowed from the upper half.
  /// Adding 2^31 undoes the borrow.
  [[nodiscard]] QUARRY_HD static std::uint32_t used(std::uint64_t counts) {
    return static_cast<std::uint32_t>((counts + (std::uint64_t{1} << 31)) >> 32);
  }
  /// The number of members; 0 while the stored number is negative.
  [[nodiscard]] QUARRY_HD static std::uint32_t members(std::uint64_t counts) {
    auto const number = static_cast<std::int32_t>(static_cast<std::uint32_t>(counts));
    return number < 0 ? 0 : static_cast<std::uint32_t>(number);
  }
  [[nodiscard]] QUARRY_HD static std::uint32_t limit(std::uint32_t capacity) {
    return capacity <= 16 ? capacity : capacity / 4 * 3;
  }
  /// How many cells may be used if there is no memory for a larger array. Without empty cells,
  /// the search for an id that is not a member would examine the whole array.
  [[nodiscard]] QUARRY_HD static std::uint32_t last_limit(std::uint32_t capacity) {
    return capacity <= 16 ? capacity : capacity / 16 * 15;
  }
  [[nodiscard]] QUARRY_HD static bool is_sparse(std::uint32_t members, std::uint32_t capacity) {
    return members == 0 || (capacity > min_capacity && members < capacity / 4);
  }
  /// The number of cells for `members` members and at least one more, at most 2/3 full.
  [[nodiscard]] QUARRY_HD static std::uint32_t capacity_for(std::uint32_t members) {
    std::uint32_t const wanted = members + members / 2 + 1;
    return wanted <= min_capacity ? min_capacity : 2u << highest_one(wanted - 1);
  }

  [[nodiscard]] QUARRY_HD simt::atomic_ref<std::uint32_t> gate() { return simt::atomic_ref{gate_}; }
  [[nodiscard]] QUARRY_HD simt::atomic_ref<std::uint64_t> counts() {
    return simt::atomic_ref{counts_};
  }
  [[nodiscard]] QUARRY_HD simt::atomic_ref<std::uint32_t> cell(std::uint32_t index) {
    return simt::atomic_ref{cells_[index]};
  }

  /// Returns the gate's word at that time.
  QUARRY_HD std::uint32_t enter() {
    for (std::uint32_t attempts = 0;; ++attempts) {
      if ((gate().load(simt::relaxed) & closed) == 0) {                     // (L)
        std::uint32_t const previous = gate().fetch_add(1, simt::acquire);  // (E)
        if ((previous & closed) == 0) return previous;
        gate().fetch_sub(1, simt::relaxed);  // (D)
      }
      simt::pause(attempts);
    }
  }
  QUARRY_HD void leave() { gate().fetch_sub(1, simt::release); }  // (X)

  /// Closes the gate and waits until no lane is inside. Returns false without waiting if another
  /// lane has closed the gate.
  [[nodiscard]] QUARRY_HD bool close() {
    if ((gate().fetch_or(closed, simt::relaxed) & closed) != 0) return false;  // (B)
    while ((gate().load(simt::acquire) & lanes_inside) != 0) simt::pause();    // (W)
    return true;
  }

  /// The number of insertions that found all cells used and no memory, modulo 64.
  [[nodiscard]] QUARRY_HD static std::uint32_t failures_of(std::uint32_t gate_word) {
    return gate_word & failures_bits;
  }
  /// Requires that this lane has closed the gate: other lanes change only other bits then.
  QUARRY_HD void count_failure() {
    std::uint32_t const one_failure = lanes_inside + 1;
    if (failures_of(gate().load(simt::relaxed)) == failures_bits) {  // (F)
      gate().fetch_and(~failures_bits, simt::relaxed);               // (F)
    } else {
      gate().fetch_add(one_failure, simt::relaxed);  // (F)
    }
  }
  QUARRY_HD void open() { gate().fetch_and(~closed, simt::release); }  // (O)

  /// The cell of `id`, or `none`. Requires that the caller is inside or has closed the gate.
  [[nodiscard]] QUARRY_HD std::uint32_t find(std::uint32_t id) {
    std::uint32_t const mask = capacity_ - 1;
    for (std::uint32_t step = 0; step < capacity_; ++step) {
      std::uint32_t const index = (mix(id) + step) & mask;
      std::uint32_t const found = cell(index).load(simt::relaxed);  // (P)
      if (found == id) return index;
      if (found == none) break;
    }
    return none;
  }

  /// The result of an insertion of `id` after another lane found no room and no memory. It is
  /// `duplicate`, `out_of_memory`, or `done` if the insertion could use the cell of an erased
  /// member.
  [[nodiscard]] QUARRY_HD change_result result_in_full_set(std::uint32_t id) {
    change_result result = change_result::out_of_memory;
    for (std::uint32_t step = 0; step < capacity_; ++step) {
      std::uint32_t const found =
          cell((mix(id) + step) & (capacity_ - 1)).load(simt::relaxed);  // (P)
      if (found == id) return change_result::duplicate;
      if (found == tombstone) result = change_result::done;
      if (found == none) break;
    }
    return result;
  }

  /// Inserts while other lanes may be inside. Returns `out_of_memory` if every cell is used.
  [[nodiscard]] QUARRY_HD change_result insert_shared(std::uint32_t id) {
    std::uint32_t const mask = capacity_ - 1;
    for (std::uint32_t step = 0; step < capacity_; ++step) {
      auto const candidate = cell((mix(id) + step) & mask);
      std::uint32_t found = candidate.load(simt::relaxed);                          // (P)
      if (found == none && candidate.compare_exchange(found, id, simt::relaxed)) {  // (P)
        counts().fetch_add(one_used + one_member, simt::relaxed);                   // (N)
        return change_result::done;
      }
      if (found == id) return change_result::duplicate;
    }
    return change_result::out_of_memory;
  }

  /// Inserts while no other lane is inside. Requires that this lane has closed the gate. If a
  /// larger array cannot be allocated, the function uses the remaining cells up to `last_limit`,
  /// and the cells of erased members.
  template <class Heap>
  QUARRY_SLOW change_result insert_exclusive(Heap const& heap, std::uint32_t id) {
    if (find(id) != none) return change_result::duplicate;
    std::uint64_t const snapshot = counts().load(simt::relaxed);  // (N)
    if (used(snapshot) >= limit(capacity_)) (void)replace(heap, capacity_for(members(snapshot)));
    if (insert_in_array(id)) return change_result::done;
    bool const has_tombstones = used(snapshot) - members(snapshot) > capacity_ / 16;
    if (capacity_ <= 16 || !has_tombstones) return change_result::out_of_memory;
    remove_tombstones();
    return insert_in_array(id) ? change_result::done : change_result::out_of_memory;
  }

  /// Inserts an id that is not a member, with the gate closed. Uses the cell of an erased member,
  /// or an empty cell if fewer than `last_limit` are used.
  [[nodiscard]] QUARRY_HD bool insert_in_array(std::uint32_t id) {
    bool const has_empty_cell = used(counts().load(simt::relaxed)) < last_limit(capacity_);  // (N)
    for (std::uint32_t step = 0; step < capacity_; ++step) {
      std::uint32_t const index = (mix(id) + step) & (capacity_ - 1);
      if (cells_[index] != none && cells_[index] != tombstone) continue;
      if (cells_[index] == none && !has_empty_cell) return false;
      counts().fetch_add(one_member + (cells_[index] == none ? one_used : 0),
                         simt::relaxed);  // (N)
      cells_[index] = id;
      return true;
    }
    return false;
  }

  /// Makes the cells of erased members empty, with the gate closed, and without memory. Requires
  /// an empty cell. There is one: `insert_in_array` uses the first tombstone that it meets, so its
  /// failure means that it stopped at an empty cell. O(capacity).
  ///
  /// It begins after an empty cell, and visits all cells in the order of probing. So no search path
  /// crosses the starting point. It moves each member to the first empty cell of its search path,
  /// which is the member's own cell or a cell that was visited before. Cells that were visited
  /// before stay in use, so the paths of members that were moved stay whole.
  QUARRY_SLOW void remove_tombstones() {
    std::uint32_t const mask = capacity_ - 1;
    std::uint32_t start = 0;
    while (cells_[start] != none) ++start;
    std::uint32_t removed = 0;
    for (std::uint32_t step = 1; step < capacity_; ++step) {
      std::uint32_t const index = (start + step) & mask;
      std::uint32_t const id = cells_[index];
      if (id == none) continue;
      cells_[index] = none;
      if (id == tombstone) {
        ++removed;
        continue;
      }
      std::uint32_t target = mix(id) & mask;
      while (cells_[target] != none) target = (target + 1) & mask;
      cells_[target] = id;
    }
    counts().fetch_sub(removed * one_used, simt::relaxed);  // (N)
  }

  /// Replaces the array by a smaller array, or frees it if the set is empty. Requires that this
  /// lane has closed the gate.
  template <class Heap>
  QUARRY_SLOW void shrink(Heap const& heap) {
    std::uint32_t const member_count = members(counts().load(simt::relaxed));  // (N)
    if (cells_ == nullptr || !is_sparse(member_count, capacity_)) return;
    if (member_count != 0) {
      (void)replace(heap, capacity_for(member_count));
      return;
    }
    heap.free(cells_);
    cells_ = nullptr;
    capacity_ = 0;
    counts().fetch_and(0, simt::relaxed);  // (N)
  }

  /// Moves the members to a new array. Returns false and changes nothing if the allocation fails.
  template <class Heap>
  [[nodiscard]] QUARRY_HD bool replace(Heap const& heap, std::uint32_t capacity) {
    auto* const fresh =
        static_cast<std::uint32_t*>(heap.malloc(bytes{capacity} * sizeof(std::uint32_t)));
    if (fresh == nullptr) return false;
    for (std::uint32_t index = 0; index < capacity; ++index) fresh[index] = none;
    std::uint32_t member_count = 0;
    for (std::uint32_t old_index = 0; old_index < capacity_; ++old_index) {
      std::uint32_t const id = cells_[old_index];
      if (id == none || id == tombstone) continue;
      std::uint32_t index = mix(id) & (capacity - 1);
      while (fresh[index] != none) index = (index + 1) & (capacity - 1);
      fresh[index] = id;
      ++member_count;
    }
    heap.free(cells_);
    cells_ = fresh;
    capacity_ = capacity;
    std::uint64_t const tombstones = used(counts().load(simt::relaxed)) - member_count;  // (N)
    counts().fetch_sub(tombstones * one_used, simt::relaxed);                            // (N)
    return true;
  }

  [[nodiscard]] QUARRY_HD change_result insert_tombstone_id() {
    bool const was_member =
        (gate().fetch_or(tombstone_is_member, simt::relaxed) & tombstone_is_member) != 0;  // (M)
    return was_member ? change_result::duplicate : change_result::done;
  }
  [[nodiscard]] QUARRY_HD change_result erase_tombstone_id() {
    bool const was_member =
        (gate().fetch_and(~tombstone_is_member, simt::relaxed) & tombstone_is_member) != 0;  // (M)
    return was_member ? change_result::done : change_result::absent;
  }

  // lanes inside: bits 0 to 23, more than a device runs at once; failed insertions: bits 24 to 29;
  // bit 30: `tombstone` is a member; bit 31: closed
  std::uint32_t gate_ = 0;
  std::uint32_t capacity_ = 0;      // Guarded by: the gate
  std::uint32_t* cells_ = nullptr;  // Guarded by: the gate; while it is open, cells are atomics
  std::uint64_t counts_ = 0;        // atomic: used cells: upper half; members, signed: lower half
};

static_assert(sizeof(id_set) == 24);

}  // namespace quarry::inline QUARRY_ABI
