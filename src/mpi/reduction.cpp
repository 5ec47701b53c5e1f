// SPDX-License-Identifier: Apache-2.0
#include "reduction.hpp"

#include "handles.hpp"
#include "quad.hpp"

#include <cstring>
#include <new>

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// Calls `act(in, out, count)`. If a buffer of the program does not lie where its elements should,
/// it calls `act` for a copy of each element.
template <class Element, class Act>
QUARRY_HD void for_elements(void const* input, void* in_out, bytes count, Act const& act) {
  auto const bits =
      reinterpret_cast<std::uint64_t>(input) | reinterpret_cast<std::uint64_t>(in_out);
  if (bits % alignof(Element) == 0)
    return act(static_cast<Element const*>(input), static_cast<Element*>(in_out), count);
  for (bytes i = 0; i < count; ++i) {
    Element in, out;
    char* const place = static_cast<char*>(in_out) + i * sizeof(Element);
    std::memcpy(&in, static_cast<char const*>(input) + i * sizeof(Element), sizeof(Element));
    std::memcpy(&out, place, sizeof(Element));
    act(&in, &out, 1);
    std::memcpy(place, &out, sizeof(Element));
  }
}

template <class T>
QUARRY_HD void combine_all(void const* input, void* in_out, bytes count, MPI_Op op) {
  for_elements<T>(input, in_out, count, [=](T const* in, T* out, bytes elements) {
    for (bytes i = 0; i < elements; ++i) out[i] = combine(in[i], out[i], op);
  });
}

/// A value and its place, for MPI_MINLOC and MPI_MAXLOC.
template <class T, class Place>
struct located {
  T value;
  Place place;
};

template <class T, class Place = int>
QUARRY_HD void locate_all(void const* input, void* in_out, bytes count, MPI_Op op) {
  using element = located<T, Place>;
  for_elements<element>(input, in_out, count, [=](element const* in, element* out, bytes elements) {
    for (bytes i = 0; i < elements; ++i) {
      bool const is_better =
          op == MPI_MINLOC ? in[i].value < out[i].value : out[i].value < in[i].value;
      bool const is_tie = in[i].value == out[i].value;
      if (is_better) {
        out[i] = in[i];
      } else if (is_tie && in[i].place < out[i].place) {
        out[i].place = in[i].place;
      }
    }
  });
}

template <class T>
struct complex_parts {
  T real;
  T imaginary;
};

template <class T>
QUARRY_HD void combine_complex(void const* input, void* in_out, bytes count, MPI_Op op) {
  using element = complex_parts<T>;
  for_elements<element>(input, in_out, count, [=](element const* in, element* out, bytes elements) {
    for (bytes i = 0; i < elements; ++i) {
      auto const [real, imaginary] = in[i];
      auto const [other_real, other_imaginary] = out[i];
      out[i] = op == MPI_SUM ? element{real + other_real, imaginary + other_imaginary}
                             : element{real * other_real - imaginary * other_imaginary,
                                       real * other_imaginary + imaginary * other_real};
    }
  });
}

[[nodiscard]] QUARRY_HD user_op* op_of(rank_state& rank, MPI_Op op) {
  auto const index = static_cast<std::uint32_t>(op - first_user_op);
  return op >= first_user_op && index < rank.ops.capacity ? rank.ops.entries[index] : nullptr;
}

/// Whether the program has made the operation, and not freed it.
[[nodiscard]] QUARRY_HD bool is_user_op(rank_state& rank, MPI_Op op) {
  user_op const* const made = op_of(rank, op);
  return made != nullptr && made->is_freed == 0;
}

}  // namespace

QUARRY_SLOW void retain_op(rank_state& rank, MPI_Op op) {
  if (user_op* const made = op_of(rank, op)) ++made->references;
}

QUARRY_SLOW void release_op(rank_state& rank, MPI_Op op) {
  user_op* const made = op_of(rank, op);
  if (made == nullptr || --made->references != 0) return;
  release(made);
  free_entry(rank.ops, op - first_user_op);
}

QUARRY_SLOW bool is_reducible(rank_state& rank, MPI_Op op, MPI_Datatype type) {
  if (op >= first_user_op) return is_user_op(rank, op);
  bool const is_location = op == MPI_MINLOC || op == MPI_MAXLOC;
  if (op < MPI_MAX || op > MPI_MAXLOC || !is_basic(type)) return false;
  if (is_location || is_pair(type)) return is_location && is_pair(type);
  bool const is_logical = op == MPI_LAND || op == MPI_LOR || op == MPI_LXOR;
  bool const is_of_bits = op == MPI_BAND || op == MPI_BOR || op == MPI_BXOR;
  switch (type) {
    case MPI_C_BOOL:
    case MPI_LOGICAL:
      return is_logical;
    case MPI_WCHAR:
    case MPI_CHARACTER:
    case MPI_PACKED:
      return false;
    case MPI_C_COMPLEX:
    case MPI_C_DOUBLE_COMPLEX:
    case MPI_COMPLEX:
    case MPI_DOUBLE_COMPLEX:
    case MPI_C_LONG_DOUBLE_COMPLEX:
      return op == MPI_SUM || op == MPI_PROD;
    case MPI_FLOAT:
    case MPI_DOUBLE:
    case MPI_REAL:
    case MPI_DOUBLE_PRECISION:
    case MPI_LONG_DOUBLE:
      return !is_logical && !is_of_bits;
    default:
      return true;
  }
}

QUARRY_SLOW void reduce(rank_state& rank, void const* input, void* in_out, bytes count,
                        MPI_Datatype type, MPI_Op op) {
  if (user_op const* const made = op_of(rank, op)) {
    if (made->is_large != 0) {
      auto length = static_cast<MPI_Count>(count);
      auto* const function = reinterpret_cast<MPI_User_function_c*>(made->function);
      function(const_cast<void*>(input), in_out, &length, &type);
    } else {
      auto length = static_cast<int>(count);
      made->function(const_cast<void*>(input), in_out, &length, &type);
    }
    return;
  }
  switch (type) {
    case MPI_CHAR:
    case MPI_SIGNED_CHAR:
    case MPI_INT8_T:
      return combine_all<signed char>(input, in_out, count, op);
    case MPI_UNSIGNED_CHAR:
    case MPI_BYTE:
    case MPI_UINT8_T:
    case MPI_C_BOOL:
      return combine_all<unsigned char>(input, in_out, count, op);
    case MPI_SHORT:
    case MPI_INT16_T:
      return combine_all<short>(input, in_out, count, op);
    case MPI_UNSIGNED_SHORT:
    case MPI_UINT16_T:
      return combine_all<unsigned short>(input, in_out, count, op);
    case MPI_INT:
    case MPI_INT32_T:
    case MPI_INTEGER:
    case MPI_LOGICAL:
      return combine_all<int>(input, in_out, count, op);
    case MPI_UNSIGNED:
    case MPI_UINT32_T:
      return combine_all<unsigned>(input, in_out, count, op);
    case MPI_FLOAT:
    case MPI_REAL:
      return combine_all<float>(input, in_out, count, op);
    case MPI_LONG:
    case MPI_LONG_LONG:
    case MPI_INT64_T:
    case MPI_AINT:
    case MPI_COUNT:
    case MPI_OFFSET:
      return combine_all<long long>(input, in_out, count, op);
    case MPI_UNSIGNED_LONG:
    case MPI_UNSIGNED_LONG_LONG:
    case MPI_UINT64_T:
      return combine_all<unsigned long long>(input, in_out, count, op);
    case MPI_DOUBLE:
    case MPI_DOUBLE_PRECISION:
      return combine_all<double>(input, in_out, count, op);
    case MPI_LONG_DOUBLE:
      return combine_all<long_double>(input, in_out, count, op);
    case MPI_C_COMPLEX:
    case MPI_COMPLEX:
      return combine_complex<float>(input, in_out, count, op);
    case MPI_C_DOUBLE_COMPLEX:
    case MPI_DOUBLE_COMPLEX:
      return combine_complex<double>(input, in_out, count, op);
    case MPI_C_LONG_DOUBLE_COMPLEX:
      return combine_complex<long_double>(input, in_out, count, op);
    case MPI_2INT:
    case MPI_2INTEGER:
      return locate_all<int>(input, in_out, count, op);
    case MPI_FLOAT_INT:
      return locate_all<float>(input, in_out, count, op);
    case MPI_2REAL:
      return locate_all<float, float>(input, in_out, count, op);
    case MPI_2DOUBLE_PRECISION:
      return locate_all<double, double>(input, in_out, count, op);
    case MPI_DOUBLE_INT:
      return locate_all<double>(input, in_out, count, op);
    case MPI_LONG_INT:
      return locate_all<long>(input, in_out, count, op);
    case MPI_LONG_DOUBLE_INT:
      return locate_all<long_double>(input, in_out, count, op);
    case MPI_SHORT_INT:
      return locate_all<short>(input, in_out, count, op);
    default:
      return;
  }
}

namespace {

/// Makes the handle of an operation; `is_large`: of an MPI_User_function_c.
QUARRY_SLOW int make_op(MPI_User_function* function, int commutes, bool is_large, MPI_Op* op) {
  rank_state& rank = self();
  std::int32_t const index = free_handle(rank.ops);
  void* const memory = index < 0 ? nullptr : allocate(sizeof(user_op));
  if (memory == nullptr)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_NO_MEM, "MPI_Op_create", "size", sizeof(user_op));
  rank.ops.entries[index] = ::new (memory)
      user_op{function, static_cast<std::uint32_t>(commutes), 1, 0, is_large ? 1u : 0u};
  *op = first_user_op + index;
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Op_create(MPI_User_function* function, int commutes, MPI_Op* op) {
  return make_op(function, commutes, false, op);
}

QUARRY_HD int MPI_Op_create_c(MPI_User_function_c* function, int commutes, MPI_Op* op) {
  return make_op(reinterpret_cast<MPI_User_function*>(function), commutes, true, op);
}

QUARRY_HD int MPI_Op_free(MPI_Op* op) {
  rank_state& rank = self();
  if (!is_user_op(rank, *op))
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_OP, "MPI_Op_free", "operation", *op);
  op_of(rank, *op)->is_freed = 1;
  release_op(rank, *op);
  *op = MPI_OP_NULL;
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Op_commutative(MPI_Op op, int* commutes) {
  rank_state& rank = self();
  bool const is_predefined = op >= MPI_MAX && op <= MPI_NO_OP;
  if (!is_predefined && !is_user_op(rank, op))
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_OP, "MPI_Op_commutative", "operation", op);
  *commutes = is_predefined ? op != MPI_REPLACE && op != MPI_NO_OP : op_of(rank, op)->commutes != 0;
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Reduce_local(void const* input, void* in_out, int count, MPI_Datatype type,
                               MPI_Op op) {
  char const* const name = "MPI_Reduce_local";
  rank_state& rank = self();
  if (count < 0) return fail(rank, MPI_COMM_WORLD, MPI_ERR_COUNT, name, "count", count);
  if (!is_type(rank, type)) return fail(rank, MPI_COMM_WORLD, MPI_ERR_TYPE, name, "datatype", type);
  if (!is_reducible(rank, op, type))
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_OP, name, "operation", op);
  if (count != 0) reduce(rank, input, in_out, static_cast<bytes>(count), type, op);
  return MPI_SUCCESS;
}

}  // extern "C"
