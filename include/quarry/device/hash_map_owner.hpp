// SPDX-License-Identifier: Apache-2.0
// A hash map that the host owns: the host makes, fills, searches, clears and destroys it.
#pragma once

#include "quarry/core/errors.hpp"
#include "quarry/device/detail/kernel_memory.hpp"
#include "quarry/device/hash_map.hpp"
#include "quarry/simt/launch.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

namespace quarry::inline QUARRY_ABI {

/// The results of many inserts: their sum is the number of keys.
struct insert_counts {
  std::uint64_t inserted = 0;
  std::uint64_t duplicates = 0;  ///< the map already had the key, or the input has the key twice
  std::uint64_t table_full = 0;  ///< the table had no cell for the key
};

/// Each lane inserts some of `count` pairs, and adds its results to `counts`.
template <class Key, class Value>
struct insert_all {
  hash_map_ref<Key, Value> map;
  Key const* keys;
  Value const* values;
  std::uint64_t count;
  insert_counts* counts;

  QUARRY_HD void operator()() const {
    auto const lane = simt::this_place();
    insert_counts sum;
    for (std::uint64_t i = lane.rank(); i < count; i += lane.count()) {
      change_result const result = map.insert(keys[i], values[i]);
      sum.inserted += result == change_result::done;
      sum.duplicates += result == change_result::duplicate;
      sum.table_full += result == change_result::table_full;
    }
    add(counts->inserted, sum.inserted);
    add(counts->duplicates, sum.duplicates);
    add(counts->table_full, sum.table_full);
  }

 private:
  QUARRY_HD static void add(std::uint64_t& total, std::uint64_t part) {
    if (part != 0) simt::atomic_ref{total}.fetch_add(part, simt::relaxed);  // (N) a statistic
  }
};

/// Each lane searches for some of `count` keys, and adds the number of keys that it found to
/// `*found`.
template <class Key, class Value>
struct find_all {
  hash_map_ref<Key, Value> map;
  Key const* keys;
  Value* values;
  bool* is_found;
  std::uint64_t count;
  std::uint64_t* found;

  QUARRY_HD void operator()() const {
    auto const lane = simt::this_place();
    std::uint64_t sum = 0;
    for (std::uint64_t i = lane.rank(); i < count; i += lane.count()) {
      is_found[i] = map.find(keys[i], values[i]);
      sum += is_found[i];
    }
    if (sum != 0) simt::atomic_ref{*found}.fetch_add(sum, simt::relaxed);  // (N) a statistic
  }
};

/// Owns the memory of a hash map, which kernels of the backend can access. Kernels get `ref()`.
///
/// The map calls `launch(grid, kernel)`, which must run the kernel on the map's backend and wait
/// for it: with CUDA, simt::launch_cuda and a synchronisation; on the CPU, simt::launch_threads.
/// Not thread-safe; no kernel may use the map during a call of a member function.
///
/// Memory order. (N) orders nothing: the host reads the sums after the kernel has ended.
template <class Key, class Value, class Launch>
class hash_map {
 public:
  /// Makes an empty map with cells for `capacity` keys, rounded up to a power of two. Twice the
  /// expected number of keys is a good capacity. Throws `bad_argument` if `capacity` is 0 or more
  /// than 2^31, and `out_of_memory` or `resource_failed`. O(capacity).
  hash_map(Launch launch, backend kind, std::uint32_t capacity)
      : launch_{std::move(launch)},
        backend_kind_{kind},
        capacity_{checked(capacity)},
        cells_{kind, bytes{capacity_} * sizeof(hash_map_cell<Key, Value>)} {}

  /// Returns the handle for kernels. It is valid while this map exists.
  [[nodiscard]] hash_map_ref<Key, Value> ref() const {
    return {static_cast<hash_map_cell<Key, Value>*>(cells_.data()), capacity_};
  }
  [[nodiscard]] std::uint32_t capacity() const { return capacity_; }

  /// Forgets all keys, including erased keys: all cells are empty again. O(capacity).
  void clear() { cells_.zero(0, cells_.size()); }

  /// Inserts `keys[i]` with `values[i]`, for all i, by one kernel; the spans are memory of the
  /// host. If `keys` contains a key several times, the kernel inserts one of these pairs, and it is
  /// not specified which pair. Throws `bad_argument` if the spans differ in size, `out_of_memory`,
  /// `resource_failed`, and what `launch` throws. If the launch fails, some pairs may be inserted.
  /// O(keys) expected.
  insert_counts insert(std::span<Key const> keys, std::span<Value const> values) {
    check_sizes("insert", keys.size(), values.size());
    if (keys.empty()) return {};
    detail::kernel_memory const device_keys = copy_of(keys), device_values = copy_of(values);
    return insert(static_cast<Key const*>(device_keys.data()),
                  static_cast<Value const*>(device_values.data()), keys.size());
  }
  /// Does the same from memory that kernels can access.
  insert_counts insert(Key const* keys, Value const* values, std::uint64_t count) {
    if (count == 0) return {};
    detail::kernel_memory counts{backend_kind_, sizeof(insert_counts)};
    launch_(lanes_for(count), insert_all<Key, Value>{ref(), keys, values, count,
                                                     static_cast<insert_counts*>(counts.data())});
    insert_counts result;
    counts.read(&result, 0, sizeof result);
    return result;
  }

  /// Searches for all keys by one kernel; the spans are memory of the host. Sets `is_found[i]`, and
  /// sets `values[i]` to the value of `keys[i]`. The values of missing keys do not change. Returns
  /// the number of keys that were found. Throws `bad_argument` if the spans differ in size,
  /// `out_of_memory`, `resource_failed`, and what `launch` throws. O(keys) expected.
  std::uint64_t find(std::span<Key const> keys, std::span<Value> values, std::span<bool> is_found) {
    check_sizes("find", keys.size(), values.size());
    check_sizes("find", keys.size(), is_found.size());
    if (keys.empty()) return 0;
    detail::kernel_memory const device_keys = copy_of(keys), device_values = copy_of(values);
    detail::kernel_memory const device_found{backend_kind_, is_found.size_bytes()};
    std::uint64_t const result =
        find(static_cast<Key const*>(device_keys.data()), static_cast<Value*>(device_values.data()),
             static_cast<bool*>(device_found.data()), keys.size());
    device_values.read(values.data(), 0, values.size_bytes());
    device_found.read(is_found.data(), 0, is_found.size_bytes());
    return result;
  }
  /// Does the same with memory that kernels can access.
  std::uint64_t find(Key const* keys, Value* values, bool* is_found, std::uint64_t count) {
    if (count == 0) return 0;
    detail::kernel_memory found{backend_kind_, sizeof(std::uint64_t)};
    launch_(lanes_for(count), find_all<Key, Value>{ref(), keys, values, is_found, count,
                                                   static_cast<std::uint64_t*>(found.data())});
    std::uint64_t result = 0;
    found.read(&result, 0, sizeof result);
    return result;
  }

 private:
  static constexpr std::uint32_t max_capacity = 1u << 31;

  [[nodiscard]] static std::uint32_t checked(std::uint32_t capacity) {
    if (capacity == 0 || capacity > max_capacity) {
      throw bad_argument{"hash_map: capacity is " + std::to_string(capacity) +
                         "; it must be from 1 to 2147483648"};
    }
    return std::bit_ceil(capacity);
  }
  static void check_sizes(char const* call, std::size_t keys, std::size_t elements) {
    if (keys != elements) {
      throw bad_argument{std::string{"hash_map::"} + call + ": " + std::to_string(keys) +
                         " keys, but a span has " + std::to_string(elements) + " elements"};
    }
  }
  template <class T>
  [[nodiscard]] detail::kernel_memory copy_of(std::span<T> elements) const {
    detail::kernel_memory result{backend_kind_, elements.size_bytes()};
    result.write(0, elements.data(), elements.size_bytes());
    return result;
  }
  [[nodiscard]] static simt::grid lanes_for(std::uint64_t count) {
    return {static_cast<std::uint32_t>(std::min<std::uint64_t>((count + 255) / 256, 4096)), 256};
  }

  Launch launch_;
  backend backend_kind_;
  std::uint32_t capacity_;
  detail::kernel_memory cells_;
};

}  // namespace quarry::inline QUARRY_ABI
