// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quarry/trace/event.hpp"

#include "module.hpp"

#include <nanobind/ndarray.h>
#include <cstdlib>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

namespace quarry::python {

/// The bytes of structs: NumPy views them as an array of records (python/quarry/traces.py).
using record_bytes = nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>;
/// The same as an argument.
using record_view = nb::ndarray<std::uint8_t const, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// A growing array of structs that NumPy takes over without a copy. Grows by `realloc`, which moves
/// pages of large arrays instead of copying them.
template <class Record>
class record_buffer {
  static_assert(std::is_trivially_copyable_v<Record>);

 public:
  record_buffer() = default;
  record_buffer(record_buffer const&) = delete;
  record_buffer& operator=(record_buffer const&) = delete;
  ~record_buffer() { std::free(records_); }

  /// Room for `count` records behind the last one.
  [[nodiscard]] std::span<Record> room(std::size_t count) {
    if (size_ + count > capacity_) resize(std::max(size_ + count, capacity_ + capacity_ / 2));
    return {records_ + size_, count};
  }
  /// Adds the first `count` records of the room.
  void add(std::size_t count) { size_ += count; }
  [[nodiscard]] std::size_t size() const { return size_; }

  /// Gives the records to NumPy. The buffer is empty afterwards.
  [[nodiscard]] record_bytes take() {
    resize(std::max<std::size_t>(size_, 1));
    void* const data = std::exchange(records_, nullptr);
    std::size_t const size = std::exchange(size_, 0) * sizeof(Record);
    capacity_ = 0;
    nb::capsule owner{data, [](void* freed) noexcept { std::free(freed); }};
    return record_bytes{static_cast<std::uint8_t*>(data), {size}, owner};
  }

 private:
  void resize(std::size_t capacity) {
    void* const moved = std::realloc(static_cast<void*>(records_), capacity * sizeof(Record));
    if (moved == nullptr) throw std::bad_alloc{};
    records_ = static_cast<Record*>(moved);
    capacity_ = capacity;
  }

  Record* records_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
};

/// The records that a NumPy array of bytes holds.
template <class Record>
[[nodiscard]] std::span<Record const> records_of(record_view const& bytes) {
  return {reinterpret_cast<Record const*>(bytes.data()), bytes.size() / sizeof(Record)};
}

}  // namespace quarry::python
