// SPDX-License-Identifier: Apache-2.0
// Growing arrays on a heap: `vector` for a single lane, `shared_vector` for many lanes that append.
#pragma once

#include "quarry/core/bits.hpp"
#include "quarry/core/bytes.hpp"
#include "quarry/device/heap_ref.hpp"
#include "quarry/simt/atomic.hpp"
#include "quarry/simt/this_lane.hpp"

#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// A growing array that one lane uses at a time. Another lane may use it after a barrier or in a
/// later kernel.
///
/// Invariants: the first `size()` of `capacity()` elements exist; `data()` is null exactly if the
/// capacity is 0. No function blocks. A function that gets no memory returns false and loses no
/// element. The destructor frees the array. A vector is movable but not copyable, because a copy
/// may fail.
///
/// Costs: 16 bytes and the heap_ref. Appending is O(1) amortised; the capacity doubles.
template <class T, class Heap = heap_ref>
class vector {
  static_assert(std::is_nothrow_move_constructible_v<T>, "elements move when the array grows");
  static_assert(alignof(T) <= 16, "the heap aligns to 16 bytes");

 public:
  QUARRY_HD explicit vector(Heap heap) : heap_{heap} {}
  QUARRY_HD vector(vector&& other) noexcept
      : heap_{other.heap_},
        data_{std::exchange(other.data_, nullptr)},
        size_{std::exchange(other.size_, 0)},
        capacity_{std::exchange(other.capacity_, 0)} {}
  QUARRY_HD vector& operator=(vector&& other) noexcept {
    if (this == &other) return *this;
    reset();
    heap_ = other.heap_;
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }
  QUARRY_HD ~vector() { reset(); }

  /// Appends an element constructed from `arguments`, which may refer to an element of this vector.
  /// Returns false and changes nothing if there is no memory, or if the vector has 2^32 - 1
  /// elements.
  template <class... Arguments>
  [[nodiscard]] QUARRY_HD bool emplace_back(Arguments&&... arguments) {
    if (size_ < capacity_) {
      ::new (static_cast<void*>(data_ + size_++)) T(std::forward<Arguments>(arguments)...);
      return true;
    }
    if (size_ == max_size) return false;
    std::uint32_t const wanted = grown(size_ + 1);
    T* const fresh = allocate(wanted);
    if (fresh == nullptr) return false;
    ::new (static_cast<void*>(fresh + size_))
        T(std::forward<Arguments>(arguments)...);  // before the move: they may name an element
    move_to(fresh, wanted);
    ++size_;
    return true;
  }
  [[nodiscard]] QUARRY_HD bool push_back(T const& value) { return emplace_back(value); }

  /// Reserves room for `count` elements. Returns false and changes nothing if there is no memory.
  [[nodiscard]] QUARRY_HD bool reserve(std::uint32_t count) {
    if (count <= capacity_) return true;
    std::uint32_t const wanted = grown(count);
    T* const fresh = allocate(wanted);
    if (fresh == nullptr) return false;
    move_to(fresh, wanted);
    return true;
  }

  /// Removes the last element. The vector must not be empty.
  QUARRY_HD void pop_back() { data_[--size_].~T(); }

  /// Removes all elements and keeps the array.
  QUARRY_HD void clear() {
    while (size_ != 0) pop_back();
  }

  /// Removes all elements and frees the array.
  QUARRY_HD void reset() {
    clear();
    heap_.free(data_);
    data_ = nullptr;
    capacity_ = 0;
  }

  [[nodiscard]] QUARRY_HD T& operator[](std::uint32_t i) { return data_[i]; }
  [[nodiscard]] QUARRY_HD T const& operator[](std::uint32_t i) const { return data_[i]; }
  [[nodiscard]] QUARRY_HD T* data() { return data_; }
  [[nodiscard]] QUARRY_HD T const* data() const { return data_; }
  [[nodiscard]] QUARRY_HD T* begin() { return data_; }
  [[nodiscard]] QUARRY_HD T* end() { return data_ + size_; }
  [[nodiscard]] QUARRY_HD T const* begin() const { return data_; }
  [[nodiscard]] QUARRY_HD T const* end() const { return data_ + size_; }
  [[nodiscard]] QUARRY_HD std::uint32_t size() const { return size_; }
  [[nodiscard]] QUARRY_HD std::uint32_t capacity() const { return capacity_; }
  [[nodiscard]] QUARRY_HD bool empty() const { return size_ == 0; }

 private:
  static constexpr std::uint32_t max_size = 0xFFFF'FFFFu;

  /// The next capacity: twice the current capacity, at least `count`, and at least the heap's
  /// smallest size class.
  [[nodiscard]] QUARRY_HD std::uint32_t grown(std::uint32_t count) const {
    std::uint64_t wanted = std::uint64_t{capacity_} * 2;
    if (wanted > max_size || wanted < count) wanted = count;
    return wanted * sizeof(T) >= 16 ? static_cast<std::uint32_t>(wanted)
                                    : static_cast<std::uint32_t>(16 / sizeof(T));
  }
  [[nodiscard]] QUARRY_HD T* allocate(std::uint32_t count) const {
    return static_cast<T*>(heap_.malloc(bytes{count} * sizeof(T)));
  }
  QUARRY_HD void move_to(T* fresh, std::uint32_t capacity) {
    for (std::uint32_t i = 0; i < size_; ++i) {
      ::new (static_cast<void*>(fresh + i)) T(std::move(data_[i]));
      data_[i].~T();
    }
    heap_.free(data_);
    data_ = fresh;
    capacity_ = capacity;
  }

  Heap heap_;
  T* data_ = nullptr;
  std::uint32_t size_ = 0;
  std::uint32_t capacity_ = 0;
};

/// An array that many lanes append to at once. Its elements never move: part k holds `first_part`
/// << k elements. Zeroed memory is an empty array. `T` is trivially copyable.
///
/// Invariants, while no lane appends: there are `size()` elements without gaps, and every part that
/// they reach exists.
///
/// Any lane may append at any time. While a lane allocates a part, the other lanes that need this
/// part look for it a bounded number of times, and then allocate it, too. If the allocating lane
/// finds no memory, the lanes that wait for it return false. So the lanes do not exhaust the heap
/// by allocating one part many times. Read `size` and elements only in later kernels, or after a
/// barrier that follows all appends: an index is assigned before its element is written. `clear`
/// needs exclusive access.
///
/// Costs: 8 bytes for each of 26 parts. If no append failed, the unused part of the array is
/// smaller than the used part plus `first_part` elements.
///
///   label  statement                                 partner  guarantee
///   (I)    installs an allocated part, release       (A)      what the heap ordered before the
///   (A)    finds the part, acquire                   (I)      allocation comes before its use
///   (M)    sets or clears the mark «being allocated»          none
///   (N)    assigns an index                                   none
template <class T>
class shared_vector {
  static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 16);

 public:
  static constexpr std::uint32_t first_part = 64;

  /// Appends `value`. Returns false and changes no element if there is no memory, or if the array
  /// has 2^32 - 64 elements.
  template <class Heap>
  [[nodiscard]] QUARRY_HD bool push_back(Heap const& heap, T const& value) {
    simt::atomic_ref<std::uint32_t> const size{size_};
    std::uint32_t index = size.load(simt::relaxed);  // (N)
    for (;;) {
      T* const part = part_for(heap, index);
      if (part == nullptr) return false;
      if (size.compare_exchange(index, index + 1, simt::relaxed)) {  // (N)
        part[offset_of(index)] = value;
        return true;
      }
    }
  }

  [[nodiscard]] QUARRY_HD std::uint32_t size() const { return size_; }
  [[nodiscard]] QUARRY_HD T& operator[](std::uint32_t index) {
    return parts_[part_of(index)][offset_of(index)];
  }

  /// Removes all elements and frees the parts. Requires that no other lane uses the array.
  template <class Heap>
  QUARRY_HD void clear(Heap const& heap) {
    for (T*& part : parts_) {
      heap.free(part);
      part = nullptr;
    }
    size_ = 0;
  }

 private:
  static constexpr std::uint32_t part_count = 26;  // 64 * (2^26 - 1) elements: nearly 2^32
  static constexpr std::uint32_t max_looks = 1024;

  [[nodiscard]] QUARRY_HD static std::uint32_t part_of(std::uint32_t index) {
    return highest_one(std::uint64_t{index} / first_part + 1);
  }
  [[nodiscard]] QUARRY_HD static std::uint32_t offset_of(std::uint32_t index) {
    return index - first_part * ((1u << part_of(index)) - 1);
  }

  /// The entry of a part that a lane is allocating. No heap returns this address.
  [[nodiscard]] QUARRY_HD static T* allocating() {
    return reinterpret_cast<T*>(std::uintptr_t{alignof(T)});
  }

  /// Returns the part that holds `index`, and allocates it if it does not exist. If several lanes
  /// allocate it, one lane installs its part; the others free theirs.
  template <class Heap>
  [[nodiscard]] QUARRY_HD T* part_for(Heap const& heap, std::uint32_t index) {
    std::uint32_t const number = part_of(index);
    if (number >= part_count) return nullptr;
    simt::atomic_ref<T*> const part{parts_[number]};
    T* found = part.load(simt::acquire);  // (A)
    if (found != nullptr && found != allocating()) return found;
    bool const is_first =
        found == nullptr && part.compare_exchange(found, allocating(), simt::relaxed);  // (M)
    for (std::uint32_t look = 0; !is_first && look < max_looks; ++look) {
      found = part.load(simt::acquire);         // (A)
      if (found != allocating()) return found;  // or null: the other lane found no memory
      simt::pause(look);
    }
    return allocate_part(heap, part, number, is_first);
  }
  template <class Heap>
  [[nodiscard]] QUARRY_HD static T* allocate_part(Heap const& heap,
                                                  simt::atomic_ref<T*> const& part,
                                                  std::uint32_t number, bool is_first) {
    auto* const fresh = static_cast<T*>(heap.malloc((bytes{first_part} << number) * sizeof(T)));
    T* found = allocating();
    if (fresh == nullptr) {
      if (is_first && part.compare_exchange(found, nullptr, simt::relaxed)) return nullptr;  // (M)
      found = part.load(simt::acquire);                                                      // (A)
      return found == allocating() ? nullptr : found;
    }
    while (found == nullptr || found == allocating())
      if (part.compare_exchange(found, fresh, simt::release)) return fresh;  // (I)
    heap.free(fresh);
    return part.load(simt::acquire);  // (A)
  }

  std::uint32_t size_ = 0;     // atomic
  T* parts_[part_count] = {};  // atomic: null until a lane needs the part
};

}  // namespace quarry::inline QUARRY_ABI
