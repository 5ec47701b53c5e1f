// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "types.hpp"

#include <type_traits>

namespace quarry::inline QUARRY_ABI::mpi {

/// An operation that the program made.
struct user_op {
  MPI_User_function* function;
  std::uint32_t commutes;
  std::uint32_t references;  // the handle, and collective operations that have begun
  std::uint32_t is_freed;    // the handle is invalid
  std::uint32_t is_large;    // the function is an MPI_User_function_c
};

/// Keeps the operation until `release_op`, although the program may free its handle.
QUARRY_SLOW void retain_op(rank_state& rank, MPI_Op op);
QUARRY_SLOW void release_op(rank_state& rank, MPI_Op op);

inline constexpr MPI_Op first_user_op = 0x1000;

/// The value as a type in which sums and products are defined for all values.
template <class T>
[[nodiscard]] QUARRY_HD constexpr auto wrapping(T value) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<std::uint64_t>(value);
  } else {
    return value;
  }
}

/// The predefined operations on numbers. `left` is of lower ranks. Sums and products of integers
/// wrap, as with other MPIs.
template <class T>
[[nodiscard]] QUARRY_HD constexpr T combine(T left, T right, MPI_Op op) {
  switch (op) {
    case MPI_MAX:
      return left < right ? right : left;
    case MPI_MIN:
      return right < left ? right : left;
    case MPI_SUM:
      return static_cast<T>(wrapping(left) + wrapping(right));
    case MPI_PROD:
      return static_cast<T>(wrapping(left) * wrapping(right));
    default:
      break;
  }
  if constexpr (std::is_integral_v<T>) {
    switch (op) {
      case MPI_LAND:
        return static_cast<T>(left != 0 && right != 0);
      case MPI_LOR:
        return static_cast<T>(left != 0 || right != 0);
      case MPI_LXOR:
        return static_cast<T>((left != 0) != (right != 0));
      case MPI_BAND:
        return static_cast<T>(left & right);
      case MPI_BOR:
        return static_cast<T>(left | right);
      case MPI_BXOR:
        return static_cast<T>(left ^ right);
      default:
        break;
    }
  }
  return right;
}

/// Whether the operation exists and accepts the type.
[[nodiscard]] QUARRY_SLOW bool is_reducible(rank_state& rank, MPI_Op op, MPI_Datatype type);

/// in_out[i] = input[i] op in_out[i], as MPI defines it: `input` is of lower ranks.
QUARRY_SLOW void reduce(rank_state& rank, void const* input, void* in_out, bytes count,
                        MPI_Datatype type, MPI_Op op);

}  // namespace quarry::inline QUARRY_ABI::mpi
