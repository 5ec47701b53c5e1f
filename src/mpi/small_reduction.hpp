// SPDX-License-Identifier: Apache-2.0
// Reductions of few numbers in meetings: the operands lie in the slots of a block.
#pragma once

#include "fast_path.hpp"
#include "meeting_place.hpp"
#include "reduction.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// A reduction of few numbers that meetings know: a type of C and an operation.
struct small_reduction {
  enum class number : std::uint32_t { none, int32, uint32, int64, uint64, real32, real64 };
  static constexpr int max_count = block_place::max_numbers;
  number type;
  MPI_Op op;

  /// How many meetings take less time than reduce_directly, whose time hardly depends on the count:
  /// 28, 125, 43, 100 and 500 us on an H200 with 1,024, 4,096, 16,384, 65,536 and 262,144 ranks,
  /// but 15 and 46 us with the first two if all numbers are in the heap (entry_reduction). The last
  /// two reduce one or two numbers in a meeting, in 5 to 10 and 60 to 90 us. The first two have all
  /// 32 in one.
  [[nodiscard]] QUARRY_HD static constexpr std::uint32_t best_meetings(std::uint32_t ranks) {
    return ranks < 4096 ? 3 : ranks < 65536 ? 6 : ranks < 200'000 ? 8 : 5;
  }

  [[nodiscard]] QUARRY_HD static constexpr number number_of(MPI_Datatype type) {
    switch (type) {
      case MPI_INT:
      case MPI_INT32_T:
        return number::int32;
      case MPI_UNSIGNED:
      case MPI_UINT32_T:
        return number::uint32;
      case MPI_LONG:
      case MPI_LONG_LONG:
      case MPI_INT64_T:
        return number::int64;
      case MPI_UNSIGNED_LONG:
      case MPI_UNSIGNED_LONG_LONG:
      case MPI_UINT64_T:
        return number::uint64;
      case MPI_FLOAT:
        return number::real32;
      case MPI_DOUBLE:
        return number::real64;
      default:
        return number::none;
    }
  }

  [[nodiscard]] QUARRY_HD static constexpr small_reduction of(int count, MPI_Datatype type,
                                                              MPI_Op op) {
    bool const is_known =
        count >= 1 && count <= max_count && (op == MPI_SUM || op == MPI_MAX || op == MPI_MIN);
    return {is_known ? number_of(type) : number::none, op};
  }
  [[nodiscard]] QUARRY_HD constexpr bool exists() const { return type != number::none; }
};

/// A number of 4 or 8 bytes as the first bytes of a word. Programs may place it at any address.
[[nodiscard]] QUARRY_FAST std::uint64_t load_number(void const* from, std::uint32_t size) {
  auto const address = reinterpret_cast<std::uint64_t>(from);
  if (size == 4 && address % 4 == 0) return *static_cast<std::uint32_t const*>(from);
  if (size == 8 && address % 8 == 0) return *static_cast<std::uint64_t const*>(from);
  std::uint64_t word = 0;
  QUARRY_NO_UNROLL
  for (std::uint32_t i = 0; i < size; ++i)
    word |= std::uint64_t{static_cast<unsigned char const*>(from)[i]} << 8 * i;
  return word;
}
QUARRY_FAST void store_number(void* to, std::uint64_t word, std::uint32_t size) {
  auto const address = reinterpret_cast<std::uint64_t>(to);
  if (size == 4 && address % 4 == 0) {
    *static_cast<std::uint32_t*>(to) = static_cast<std::uint32_t>(word);
  } else if (size == 8 && address % 8 == 0) {
    *static_cast<std::uint64_t*>(to) = word;
  } else {
    QUARRY_NO_UNROLL
    for (std::uint32_t i = 0; i < size; ++i)
      static_cast<unsigned char*>(to)[i] = static_cast<unsigned char>(word >> 8 * i);
  }
}

/// Combines `count` adjacent values, at most 8, pairwise: ((0 1)(2 3))((4 5)(6 7)).
template <class T, MPI_Op Op>
[[nodiscard]] QUARRY_HD std::uint64_t combine_eight(std::uint64_t const* from,
                                                    std::uint32_t count) {
  struct alignas(16) pair {
    std::uint64_t words[2];
  };
  T values[8];
  for (std::uint32_t i = 0; i < 8; i += 2) {  // what lies behind the last value is not used
    pair const two = *reinterpret_cast<pair const*>(from + i);
    std::memcpy(&values[i], &two.words[0], sizeof(T));
    std::memcpy(&values[i + 1], &two.words[1], sizeof(T));
  }
  auto const combine_pairs = [&](std::uint32_t present) {
    for (std::uint32_t distance = 1; distance < 8; distance *= 2)
      for (std::uint32_t i = 0; i < 8; i += 2 * distance)
        if (i + distance < present) values[i] = combine<T>(values[i], values[i + distance], Op);
  };
  if (count == 8) {
    combine_pairs(8);  // without conditions
  } else {
    combine_pairs(count);
  }
  std::uint64_t result = 0;
  std::memcpy(&result, &values[0], sizeof(T));
  return result;
}

/// Combines the `count` values of each of `numbers` numbers in the slots, in the order of a binary
/// tree over them. So the results depend neither on the lanes nor on the size of blocks, which is a
/// power of two, and are those of reductions by messages (reduce_to_first). A lane of the group,
/// the first one if there is one number, calls `store(number, result)` for each number.
template <class T, MPI_Op Op, class Group, class Store>
QUARRY_HD void combine_slots(Group const& group, block_place& place, std::uint32_t numbers,
                             std::uint32_t count, Store const& store) {
  std::uint64_t* from = place.slots;
  std::uint64_t* to = place.partial;
  QUARRY_NO_UNROLL
  for (;;) {
    std::uint32_t const parts = (count + 7) / 8;
    sync(group);
    QUARRY_NO_UNROLL
    for (std::uint32_t i = group.rank(); i < parts * numbers; i += group.size()) {  // of all eights
      std::uint32_t const number = numbers == 1 ? 0 : i / parts;
      std::uint32_t const part = i - number * parts;
      std::uint32_t const left = count - part * 8;
      std::uint64_t const result =
          combine_eight<T, Op>(from + block_place::slot(i * 8), left < 8 ? left : 8);
      if (parts == 1)
        store(number, result);
      else
        to[block_place::slot(number * block_place::padded(parts) + part)] = result;
    }
    if (parts == 1) return;
    std::uint64_t* const swapped = from;
    from = to;
    to = swapped;
    count = parts;
  }
}

template <class T, class Group, class Store>
QUARRY_HD void combine_slots(Group const& group, block_place& place, std::uint32_t numbers,
                             std::uint32_t count, MPI_Op op, Store const& store) {
  if (op == MPI_SUM) return combine_slots<T, MPI_SUM>(group, place, numbers, count, store);
  if (op == MPI_MAX) return combine_slots<T, MPI_MAX>(group, place, numbers, count, store);
  return combine_slots<T, MPI_MIN>(group, place, numbers, count, store);
}

template <class Group, class Store>
QUARRY_HD void combine_slots(Group const& group, block_place& place, std::uint32_t numbers,
                             std::uint32_t count, small_reduction how, Store const& store) {
  using number = small_reduction::number;
  switch (how.type) {
    case number::int32:
      return combine_slots<std::int32_t>(group, place, numbers, count, how.op, store);
    case number::uint32:
      return combine_slots<std::uint32_t>(group, place, numbers, count, how.op, store);
    case number::int64:
      return combine_slots<std::int64_t>(group, place, numbers, count, how.op, store);
    case number::uint64:
      return combine_slots<std::uint64_t>(group, place, numbers, count, how.op, store);
    case number::real32:
      return combine_slots<float>(group, place, numbers, count, how.op, store);
    case number::real64:
      return combine_slots<double>(group, place, numbers, count, how.op, store);
    case number::none:
      break;
  }
}

/// Copies `count` words to the slots, in eights: the words behind the last need not be set. All
/// loads are in flight at once: a lane that is alone would else wait for each.
template <class Group>
QUARRY_HD void gather_slots(Group const& group, block_place& place, std::uint64_t const* words,
                            std::uint32_t count) {
  sync(group);  // the slots have been read
  QUARRY_NO_UNROLL
  for (std::uint32_t i = group.rank() * 8; i < count; i += group.size() * 8) {
    std::uint64_t* const to = place.slots + block_place::slot(i);
#ifdef __CUDA_ARCH__
    auto const target = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
    auto const source = __cvta_generic_to_global(words + i);
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16;\n\t"
        "cp.async.cg.shared.global [%0+16], [%1+16], 16;\n\t"
        "cp.async.cg.shared.global [%0+32], [%1+32], 16;\n\t"
        "cp.async.cg.shared.global [%0+48], [%1+48], 16;"
        :
        : "r"(target), "l"(source)
        : "memory");
#else
    for (std::uint32_t k = i; k < i + 8 && k < count; ++k) to[k - i] = words[k];
#endif
  }
#ifdef __CUDA_ARCH__
  asm volatile("cp.async.wait_all;" : : : "memory");
#endif
}

/// The steps of a reduction in a meeting (represent_block). `values` has a word for each number of
/// each block, for this meeting; those of the next meeting lie elsewhere, because a block may begin
/// the next meeting while others read.
struct small_reduction_work {
  seat const& at;
  small_reduction how;
  std::uint32_t numbers;
  std::uint64_t* values;

  template <class Group>
  QUARRY_HD void in_block(Group const& group) const {
    bool const has_one_block = at.blocks == 1;
    std::uint64_t* const results = has_one_block ? &at.place.results[0] : values + at.block;
    std::uint32_t const distance = has_one_block ? 1 : block_place::padded(at.blocks);
    combine_slots(
        group, at.place, numbers, at.members, how,
        [&](std::uint32_t number, std::uint64_t result) { results[number * distance] = result; });
    if (numbers > 1) sync(group);  // the leader publishes what the lanes have stored
  }
  template <class Group>
  QUARRY_HD void in_world(Group const& group) const {
    std::uint32_t const distance = block_place::padded(at.blocks);
    std::uint32_t const at_once = block_place::numbers_of(at.blocks);
    QUARRY_NO_UNROLL
    for (std::uint32_t first = 0; first < numbers; first += at_once) {
      std::uint32_t const count = numbers - first < at_once ? numbers - first : at_once;
      gather_slots(group, at.place, values + first * distance, count * distance);
      combine_slots(group, at.place, count, at.blocks, how,
                    [&](std::uint32_t number, std::uint64_t result) {
                      at.place.results[first + number] = result;
                    });
    }
    if (numbers > 1) sync(group);
  }
};

/// How many words the blocks need for each of the two places of their values.
[[nodiscard]] QUARRY_HD constexpr std::uint32_t values_of(std::uint32_t blocks) {
  return block_place::padded(blocks) * block_place::max_numbers;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
