// SPDX-License-Identifier: Apache-2.0
// The names of types.
#include "derived_types.hpp"
#include "format.hpp"
#include "progress.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// The name that the program has given to a type of mpi.h.
struct renamed_type {
  renamed_type* next;
  MPI_Datatype type;
  char name[MPI_MAX_OBJECT_NAME];
};

namespace {

[[nodiscard]] QUARRY_SLOW char const* name_of(MPI_Datatype basic) {
#define QUARRY_NAME(type) \
  case type:              \
    return #type
  switch (basic) {
    QUARRY_NAME(MPI_CHAR);
    QUARRY_NAME(MPI_SIGNED_CHAR);
    QUARRY_NAME(MPI_UNSIGNED_CHAR);
    QUARRY_NAME(MPI_BYTE);
    QUARRY_NAME(MPI_PACKED);
    QUARRY_NAME(MPI_C_BOOL);
    QUARRY_NAME(MPI_INT8_T);
    QUARRY_NAME(MPI_UINT8_T);
    QUARRY_NAME(MPI_SHORT);
    QUARRY_NAME(MPI_UNSIGNED_SHORT);
    QUARRY_NAME(MPI_INT16_T);
    QUARRY_NAME(MPI_UINT16_T);
    QUARRY_NAME(MPI_INT);
    QUARRY_NAME(MPI_UNSIGNED);
    QUARRY_NAME(MPI_FLOAT);
    QUARRY_NAME(MPI_INT32_T);
    QUARRY_NAME(MPI_UINT32_T);
    QUARRY_NAME(MPI_WCHAR);
    QUARRY_NAME(MPI_2INT);
    QUARRY_NAME(MPI_FLOAT_INT);
    QUARRY_NAME(MPI_LONG);
    QUARRY_NAME(MPI_UNSIGNED_LONG);
    QUARRY_NAME(MPI_LONG_LONG_INT);
    QUARRY_NAME(MPI_UNSIGNED_LONG_LONG);
    QUARRY_NAME(MPI_DOUBLE);
    QUARRY_NAME(MPI_INT64_T);
    QUARRY_NAME(MPI_UINT64_T);
    QUARRY_NAME(MPI_AINT);
    QUARRY_NAME(MPI_COUNT);
    QUARRY_NAME(MPI_OFFSET);
    QUARRY_NAME(MPI_C_COMPLEX);
    QUARRY_NAME(MPI_C_DOUBLE_COMPLEX);
    QUARRY_NAME(MPI_SHORT_INT);
    QUARRY_NAME(MPI_DOUBLE_INT);
    QUARRY_NAME(MPI_LONG_INT);
    QUARRY_NAME(MPI_LONG_DOUBLE);
    QUARRY_NAME(MPI_C_LONG_DOUBLE_COMPLEX);
    QUARRY_NAME(MPI_LONG_DOUBLE_INT);
    QUARRY_NAME(MPI_CHARACTER);
    QUARRY_NAME(MPI_LOGICAL);
    QUARRY_NAME(MPI_INTEGER);
    QUARRY_NAME(MPI_REAL);
    QUARRY_NAME(MPI_DOUBLE_PRECISION);
    QUARRY_NAME(MPI_COMPLEX);
    QUARRY_NAME(MPI_DOUBLE_COMPLEX);
    QUARRY_NAME(MPI_2INTEGER);
    QUARRY_NAME(MPI_2REAL);
    QUARRY_NAME(MPI_2DOUBLE_PRECISION);
    QUARRY_NAME(MPI_LB);
    QUARRY_NAME(MPI_UB);
    default:
      return "";
  }
#undef QUARRY_NAME
}

/// Memory for the type's name; null if there is none. Allocates it if `makes`, and returns null if
/// the heap has no memory.
[[nodiscard]] QUARRY_SLOW char* stored_name(rank_state& rank, MPI_Datatype type, bool makes) {
  if (derived_type* const made = derived(rank, type)) {
    if (made->name == nullptr && makes)
      made->name = static_cast<char*>(allocate(MPI_MAX_OBJECT_NAME));
    return made->name;
  }
  renamed_type* found = rank.renamed_types;
  while (found != nullptr && found->type != type) found = found->next;
  if (found == nullptr && makes) {
    found = static_cast<renamed_type*>(allocate(sizeof(renamed_type)));
    if (found == nullptr) return nullptr;
    found->next = rank.renamed_types;
    found->type = type;
    rank.renamed_types = found;
  }
  return found != nullptr ? found->name : nullptr;
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Type_set_name(MPI_Datatype type, char const* name) {
  rank_state& rank = self();
  if (!is_known_type(rank, type))
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_TYPE, "MPI_Type_set_name", "datatype", type);
  char* const stored = stored_name(rank, type, true);
  if (stored == nullptr)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_NO_MEM, "MPI_Type_set_name", "datatype", type);
  text_buffer text{stored, MPI_MAX_OBJECT_NAME};
  text.add(name);
  text.terminate();
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Type_get_name(MPI_Datatype type, char* name, int* length) {
  rank_state& rank = self();
  if (!is_known_type(rank, type) && !is_bound(type))
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_TYPE, "MPI_Type_get_name", "datatype", type);
  char const* const stored = stored_name(rank, type, false);
  text_buffer text{name, MPI_MAX_OBJECT_NAME};
  text.add(stored != nullptr ? stored : name_of(type));
  text.terminate();
  *length = static_cast<int>(text.length());
  return MPI_SUCCESS;
}

}  // extern "C"
