// SPDX-License-Identifier: Apache-2.0
// Sorting, searching and arithmetic of the C library.
#include "copy_bytes.hpp"
#include "progress.hpp"
#include "thread_copy.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

using comparison = int (*)(void const*, void const*);
using comparison_with_context = int (*)(void const*, void const*, void*);

/// The order of two elements, with or without the context of qsort_r.
struct element_order {
  comparison plain;
  comparison_with_context with_context;
  void* context;

  QUARRY_HD int operator()(char const* first, char const* second) const {
    return plain != nullptr ? plain(first, second) : with_context(first, second, context);
  }
};

QUARRY_HD void swap_elements(char* first, char* second, bytes size) {
  for (bytes i = 0; i < size; ++i) {
    char const old = first[i];
    first[i] = second[i];
    second[i] = old;
  }
}

/// Merges the sorted runs [begin, middle) and [middle, end) of `from` into `to`. A GPU copies an
/// element by words in a fraction of the time that it takes by bytes.
template <class Unit>
QUARRY_HD void merge(char const* from, char* to, bytes begin, bytes middle, bytes end, bytes size,
                     element_order const& order) {
  char const* left = from + begin * size;
  char const* const left_end = from + middle * size;
  char const* right = left_end;
  char const* const right_end = from + end * size;
  for (char* target = to + begin * size; target != to + end * size;) {
    bool const takes_left = left != left_end && (right == right_end || order(left, right) <= 0);
    char const*& taken = takes_left ? left : right;
    for (char const* const next = taken + size; taken != next; taken += sizeof(Unit)) {
      *reinterpret_cast<Unit*>(target) = *reinterpret_cast<Unit const*>(taken);
      target += sizeof(Unit);
    }
  }
}

/// Sorts and keeps the order of equal elements, as glibc does. `spare` has room for all elements.
/// Runs that are in order are copied as they are: programs often sort what is sorted in parts.
template <class Unit>
QUARRY_SLOW void merge_sort(char* data, char* spare, bytes count, bytes size,
                            element_order const& order) {
  constexpr bytes shortest_compared = 8;  // one more comparison for so many elements
  char* from = data;
  char* to = spare;
  for (bytes length = 1; length < count; length *= 2) {
    for (bytes begin = 0; begin < count; begin += 2 * length) {
      bytes const middle = begin + length < count ? begin + length : count;
      bytes const end = middle + length < count ? middle + length : count;
      bool const is_in_order =
          middle == end || (2 * length >= shortest_compared &&
                            order(from + (middle - 1) * size, from + middle * size) <= 0);
      if (is_in_order) {
        copy_bytes(to + begin * size, from + begin * size, (end - begin) * size);
      } else {
        merge<Unit>(from, to, begin, middle, end, size, order);
      }
    }
    char* const merged = to;
    to = from;
    from = merged;
  }
  if (from != data) copy_bytes(data, from, count * size);
}

/// Sorts without other memory. Does not keep the order of equal elements.
QUARRY_HD void heap_sort(char* data, bytes count, bytes size, element_order const& order) {
  bytes first = count / 2;
  bytes end = count;
  while (end > 1) {
    if (first > 0) {
      --first;
    } else {
      swap_elements(data, data + --end * size, size);
    }
    for (bytes parent = first, child; (child = 2 * parent + 1) < end; parent = child) {
      if (child + 1 < end && order(data + child * size, data + (child + 1) * size) < 0) ++child;
      if (order(data + parent * size, data + child * size) >= 0) break;
      swap_elements(data + parent * size, data + child * size, size);
    }
  }
}

QUARRY_SLOW void sort(char* data, bytes count, bytes size, element_order const& order) {
  if (count < 2 || size == 0) return;
  auto* const spare = static_cast<char*>(allocate(count * size));
  if (spare == nullptr) return heap_sort(data, count, size, order);
  std::uint64_t const bits = reinterpret_cast<std::uint64_t>(data) | size;
  if (bits % sizeof(long_word) == 0) {
    merge_sort<long_word>(data, spare, count, size, order);
  } else if (bits % sizeof(narrow_word) == 0) {
    merge_sort<narrow_word>(data, spare, count, size, order);
  } else {
    merge_sort<char>(data, spare, count, size, order);
  }
  release(spare);
}

template <class Integer>
struct division {
  Integer quotient, remainder;
};
template struct division<int>;  // complete, as functions with C linkage require
template struct division<long>;
template struct division<long long>;

/// As the program's own divisions, reports a divisor of zero, with the place of the last MPI call.
template <class T>
QUARRY_HD division<T> divide(T value, T divisor) {
  if (divisor == 0) quarry_mpi_divides_by_zero(own_record().place);
  return {value / divisor, value % divisor};
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD void quarry_c_qsort(void* data, unsigned long count, unsigned long size,
                              int (*order)(void const*, void const*)) {
  sort(static_cast<char*>(data), count, size, {order, nullptr, nullptr});
}
QUARRY_HD void quarry_c_qsort_r(void* data, unsigned long count, unsigned long size,
                                int (*order)(void const*, void const*, void*), void* context) {
  sort(static_cast<char*>(data), count, size, {nullptr, order, context});
}
QUARRY_HD void* quarry_c_bsearch(void const* key, void const* data, unsigned long count,
                                 unsigned long size, int (*order)(void const*, void const*)) {
  auto const* first = static_cast<char const*>(data);
  while (count != 0) {
    char const* const middle = first + count / 2 * size;
    int const result = order(key, middle);
    if (result == 0) return const_cast<char*>(middle);
    if (result > 0) {
      first = middle + size;
      --count;
    }
    count /= 2;
  }
  return nullptr;
}

QUARRY_HD int quarry_c_abs(int value) { return value < 0 ? -value : value; }
QUARRY_HD long quarry_c_labs(long value) { return value < 0 ? -value : value; }
QUARRY_HD long long quarry_c_llabs(long long value) { return value < 0 ? -value : value; }
QUARRY_HD division<int> quarry_c_div(int value, int divisor) { return divide(value, divisor); }
QUARRY_HD division<long> quarry_c_ldiv(long value, long divisor) { return divide(value, divisor); }
QUARRY_HD division<long long> quarry_c_lldiv(long long value, long long divisor) {
  return divide(value, divisor);
}

}  // extern "C"
