// SPDX-License-Identifier: Apache-2.0
// Elements at equal distances, as in a lane_array: an iterator and a view.
#pragma once

#include "quarry/core/config.hpp"

#include <array>  // declares the iterator tags at a third of the price of <iterator>
#include <type_traits>

namespace quarry::inline QUARRY_ABI {

/// An iterator over elements that lie `stride` elements apart. Models std::random_access_iterator.
///
/// It stores an element index, and each access multiplies the index by the stride. So distances and
/// comparisons, which sorting needs often, need no division; in a plain loop, compilers turn the
/// product into an addition. Only iterators over the same elements are comparable. 24 bytes.
template <class T>
class lane_iterator {
 public:
  using iterator_category = std::random_access_iterator_tag;
  using value_type = std::remove_cv_t<T>;
  using difference_type = std::ptrdiff_t;
  using pointer = T*;
  using reference = T&;

  lane_iterator() = default;
  QUARRY_HD lane_iterator(T* first, std::uint32_t stride, difference_type index)
      : first_{first}, index_{index}, stride_{stride} {}
  /// Converts an iterator over mutable elements to an iterator over const elements.
  template <class Other>
    requires std::is_same_v<Other const, T>
  QUARRY_HD lane_iterator(lane_iterator<Other> const& other)
      : first_{other.first_}, index_{other.index_}, stride_{other.stride_} {}

  [[nodiscard]] QUARRY_HD T& operator*() const { return first_[index_ * stride_]; }
  [[nodiscard]] QUARRY_HD T* operator->() const { return &**this; }
  [[nodiscard]] QUARRY_HD T& operator[](difference_type n) const { return *(*this + n); }

  QUARRY_HD lane_iterator& operator+=(difference_type n) {
    index_ += n;
    return *this;
  }
  QUARRY_HD lane_iterator& operator-=(difference_type n) { return *this += -n; }
  QUARRY_HD lane_iterator& operator++() { return *this += 1; }
  QUARRY_HD lane_iterator& operator--() { return *this += -1; }
  QUARRY_HD lane_iterator operator++(int) {
    lane_iterator const previous = *this;
    ++*this;
    return previous;
  }
  QUARRY_HD lane_iterator operator--(int) {
    lane_iterator const previous = *this;
    --*this;
    return previous;
  }
  [[nodiscard]] friend QUARRY_HD lane_iterator operator+(lane_iterator it, difference_type n) {
    return it += n;
  }
  [[nodiscard]] friend QUARRY_HD lane_iterator operator+(difference_type n, lane_iterator it) {
    return it += n;
  }
  [[nodiscard]] friend QUARRY_HD lane_iterator operator-(lane_iterator it, difference_type n) {
    return it -= n;
  }
  [[nodiscard]] friend QUARRY_HD difference_type operator-(lane_iterator const& a,
                                                           lane_iterator const& b) {
    return a.index_ - b.index_;
  }

  // Five operators instead of <=>, because a CUDA compiler treats the result types of <=> as host
  // code.
  [[nodiscard]] friend QUARRY_HD bool operator==(lane_iterator const& a, lane_iterator const& b) {
    return a - b == 0;
  }
  [[nodiscard]] friend QUARRY_HD bool operator<(lane_iterator const& a, lane_iterator const& b) {
    return a - b < 0;
  }
  [[nodiscard]] friend QUARRY_HD bool operator>(lane_iterator const& a, lane_iterator const& b) {
    return a - b > 0;
  }
  [[nodiscard]] friend QUARRY_HD bool operator<=(lane_iterator const& a, lane_iterator const& b) {
    return a - b <= 0;
  }
  [[nodiscard]] friend QUARRY_HD bool operator>=(lane_iterator const& a, lane_iterator const& b) {
    return a - b >= 0;
  }

 private:
  template <class>
  friend class lane_iterator;

  T* first_ = nullptr;
  difference_type index_ = 0;
  std::uint32_t stride_ = 1;
};

/// A view of `size()` elements that lie `stride()` elements apart: a lane_array, a part of a
/// lane_array, or (with stride 1) an ordinary array. It owns nothing and is trivially copyable. It
/// becomes invalid when the elements' memory is freed. 16 bytes.
///
/// As with std::span, a const view can change its elements; a lane_span<T const> cannot.
template <class T>
class lane_span {
 public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;
  using iterator = lane_iterator<T>;

  lane_span() = default;
  /// `stride` counts elements.
  QUARRY_HD lane_span(T* first, std::uint32_t size, std::uint32_t stride)
      : first_{first}, size_{size}, stride_{stride} {}
  template <class Other>
    requires std::is_same_v<Other const, T>
  QUARRY_HD lane_span(lane_span<Other> const& other)
      : lane_span{other.data(), other.size(), other.stride()} {}

  /// Returns element `i`. `i` must be less than `size()`; this is not checked.
  [[nodiscard]] QUARRY_HD T& operator[](std::uint32_t i) const {
    return first_[std::uint64_t{i} * stride_];
  }
  [[nodiscard]] QUARRY_HD iterator begin() const { return {first_, stride_, 0}; }
  [[nodiscard]] QUARRY_HD iterator end() const { return {first_, stride_, size_}; }

  /// The address of element 0. Adjacent elements are `stride()` elements of type T apart.
  [[nodiscard]] QUARRY_HD T* data() const { return first_; }
  [[nodiscard]] QUARRY_HD std::uint32_t size() const { return size_; }
  [[nodiscard]] QUARRY_HD std::uint32_t stride() const { return stride_; }
  [[nodiscard]] QUARRY_HD bool empty() const { return size_ == 0; }

  /// Returns a view of `count` elements from index `first`. If this view ends earlier, the result
  /// has fewer elements. O(1).
  [[nodiscard]] QUARRY_HD lane_span subspan(std::uint32_t first, std::uint32_t count) const {
    if (first >= size_) return {};
    return {&(*this)[first], minimum(count, size_ - first), stride_};
  }

  /// Copies the first `count` elements of an ordinary array into the view, or as many as fit.
  /// Returns the number of copied elements. O(count).
  QUARRY_HD std::uint32_t copy_from(T const* ordinary, std::uint32_t count) const {
    std::uint32_t const copied = minimum(count, size_);
    for (std::uint32_t i = 0; i < copied; ++i) (*this)[i] = ordinary[i];
    return copied;
  }

  /// Copies the first `count` elements, or all if there are fewer, to an ordinary array. Returns
  /// the number of copied elements. O(count).
  QUARRY_HD std::uint32_t copy_to(value_type* ordinary, std::uint32_t count) const {
    std::uint32_t const copied = minimum(count, size_);
    for (std::uint32_t i = 0; i < copied; ++i) ordinary[i] = (*this)[i];
    return copied;
  }

  /// Sets every element to `value`. O(size).
  QUARRY_HD void fill(T const& value) const {
    value_type const copy = value;  // `value` may refer to one of the elements
    for (std::uint32_t i = 0; i < size_; ++i) (*this)[i] = copy;
  }

 private:
  [[nodiscard]] QUARRY_HD static std::uint32_t minimum(std::uint32_t a, std::uint32_t b) {
    return a < b ? a : b;
  }

  T* first_ = nullptr;
  std::uint32_t size_ = 0;
  std::uint32_t stride_ = 1;
};

}  // namespace quarry::inline QUARRY_ABI
