// SPDX-License-Identifier: Apache-2.0
// MPI's functions that say what a type is: sizes, bounds, and the call that made it.
#include "derived_types.hpp"
#include "quad.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// Whether a type, or a pseudo type of MPI-1, exists. Reports an error if it does not.
[[nodiscard]] QUARRY_SLOW int check_existing(rank_state& rank, MPI_Datatype type,
                                             char const* function) {
  if (is_known_type(rank, type) || is_bound(type)) return MPI_SUCCESS;
  return fail(rank, MPI_COMM_WORLD, MPI_ERR_TYPE, function, "datatype", type);
}

/// The lower bound and the extent, as the program wants them.
template <class T>
QUARRY_HD int give_extent(MPI_Datatype type, T* lower, T* extent, bool is_true,
                          char const* function) {
  rank_state& rank = self();
  if (int const error = check_existing(rank, type, function)) return error;
  type_facts const facts = facts_of(rank, type);
  *lower = is_true ? facts.true_lower : facts.lower;
  *extent = is_true ? facts.true_upper - facts.true_lower : facts.extent();
  return MPI_SUCCESS;
}

template <class T>
QUARRY_HD void copy_values(T* to, T const* from, int count) {
  for (int i = 0; i < count; ++i) to[i] = from[i];
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Type_size(MPI_Datatype type, int* size) {
  rank_state& rank = self();
  if (int const error = check_existing(rank, type, "MPI_Type_size")) return error;
  bytes const exact = element_size(rank, type);
  *size = exact > 0x7fffffff ? MPI_UNDEFINED : static_cast<int>(exact);
  return MPI_SUCCESS;
}
QUARRY_HD int MPI_Type_size_x(MPI_Datatype type, MPI_Count* size) {
  rank_state& rank = self();
  if (int const error = check_existing(rank, type, "MPI_Type_size_x")) return error;
  *size = static_cast<MPI_Count>(element_size(rank, type));
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Type_get_extent(MPI_Datatype type, MPI_Aint* lower, MPI_Aint* extent) {
  return give_extent(type, lower, extent, false, "MPI_Type_get_extent");
}
QUARRY_HD int MPI_Type_get_extent_x(MPI_Datatype type, MPI_Count* lower, MPI_Count* extent) {
  return give_extent(type, lower, extent, false, "MPI_Type_get_extent_x");
}
QUARRY_HD int MPI_Type_get_true_extent(MPI_Datatype type, MPI_Aint* lower, MPI_Aint* extent) {
  return give_extent(type, lower, extent, true, "MPI_Type_get_true_extent");
}
QUARRY_HD int MPI_Type_get_true_extent_x(MPI_Datatype type, MPI_Count* lower, MPI_Count* extent) {
  return give_extent(type, lower, extent, true, "MPI_Type_get_true_extent_x");
}

QUARRY_HD int MPI_Type_extent(MPI_Datatype type, MPI_Aint* extent) {
  MPI_Aint lower = 0;
  return give_extent(type, &lower, extent, false, "MPI_Type_extent");
}
QUARRY_HD int MPI_Type_lb(MPI_Datatype type, MPI_Aint* displacement) {
  MPI_Aint extent = 0;
  return give_extent(type, displacement, &extent, false, "MPI_Type_lb");
}
QUARRY_HD int MPI_Type_ub(MPI_Datatype type, MPI_Aint* displacement) {
  MPI_Aint lower = 0, extent = 0;
  if (int const error = give_extent(type, &lower, &extent, false, "MPI_Type_ub")) return error;
  *displacement = lower + extent;
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Type_get_envelope(MPI_Datatype type, int* integers, int* addresses, int* types,
                                    int* combiner) {
  rank_state& rank = self();
  if (int const error = check_existing(rank, type, "MPI_Type_get_envelope")) return error;
  derived_type const* const made = derived(rank, type);
  type_contents const contents =
      made != nullptr ? made->contents : type_contents{MPI_COMBINER_NAMED, 0, 0, 0};
  *integers = contents.ints;
  *addresses = contents.addresses;
  *types = contents.types;
  *combiner = contents.combiner;
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Type_get_contents(MPI_Datatype type, int max_integers, int max_addresses,
                                    int max_types, int* integers, MPI_Aint* addresses,
                                    MPI_Datatype* types) {
  char const* const name = "MPI_Type_get_contents";
  rank_state& rank = self();
  if (int const error = check_existing(rank, type, name)) return error;
  derived_type* const made = derived(rank, type);
  if (made == nullptr)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_TYPE, name, "a type that no call made; datatype",
                type);
  type_contents const& contents = made->contents;
  if (max_integers < contents.ints)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_ARG, name, "number of integers", max_integers);
  if (max_addresses < contents.addresses)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_ARG, name, "number of addresses", max_addresses);
  if (max_types < contents.types)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_ARG, name, "number of datatypes", max_types);
  copy_values(integers, made->ints(), contents.ints);
  copy_values(addresses, made->addresses(), contents.addresses);
  copy_values(types, made->types(), contents.types);
  for (int i = 0; i < contents.types; ++i) {  // the program frees these handles
    derived_type* const part = derived(rank, types[i]);
    if (part == nullptr) continue;
    ++part->handles;
    ++part->references;
  }
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Type_match_size(int type_class, int size, MPI_Datatype* type) {
  rank_state& rank = self();
  MPI_Datatype found = MPI_DATATYPE_NULL;
  switch (type_class) {
    case MPI_TYPECLASS_REAL:
      found = size == 4                                         ? MPI_FLOAT
              : size == 8                                       ? MPI_DOUBLE
              : static_cast<bytes>(size) == sizeof(long_double) ? MPI_LONG_DOUBLE
                                                                : MPI_DATATYPE_NULL;
      break;
    case MPI_TYPECLASS_INTEGER:
      found = size == 1   ? MPI_INT8_T
              : size == 2 ? MPI_INT16_T
              : size == 4 ? MPI_INT32_T
              : size == 8 ? MPI_INT64_T
                          : MPI_DATATYPE_NULL;
      break;
    case MPI_TYPECLASS_COMPLEX:
      found = size == 8                                             ? MPI_C_FLOAT_COMPLEX
              : size == 16                                          ? MPI_C_DOUBLE_COMPLEX
              : static_cast<bytes>(size) == 2 * sizeof(long_double) ? MPI_C_LONG_DOUBLE_COMPLEX
                                                                    : MPI_DATATYPE_NULL;
      break;
    default:
      return fail(rank, MPI_COMM_WORLD, MPI_ERR_ARG, "MPI_Type_match_size", "class", type_class);
  }
  if (found == MPI_DATATYPE_NULL)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_ARG, "MPI_Type_match_size", "size", size);
  *type = found;
  return MPI_SUCCESS;
}

}  // extern "C"
