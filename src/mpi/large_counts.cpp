// SPDX-License-Identifier: Apache-2.0
// MPI's functions with counts of the type MPI_Count: those with ints do the work.
#include "checks.hpp"
#include "scratch.hpp"
#include "topologies.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// What a function with ints gets in place of MPI_Counts, and what becomes of its results. Arrays
/// live until the call has returned: operations that go on have read them then.
class narrowed {
 public:
  static constexpr MPI_Count most = 0x7fffffff;

  QUARRY_HD explicit narrowed(MPI_Comm communicator) : communicator_{communicator} {}
  QUARRY_HD ~narrowed() {
    if ((arrays_ | results_) != 0) finish();
  }
  narrowed(narrowed const&) = delete;

  [[nodiscard]] QUARRY_HD int number(MPI_Count value) {
    bool const fits = value <= most && value >= -most;
    if (!fits && too_large_ == 0) too_large_ = value;
    return fits ? static_cast<int>(value) : 0;
  }
  template <class T>
  [[nodiscard]] QUARRY_SLOW int const* array(T const* values, MPI_Count length) {
    if (values == nullptr || length <= 0 || length > most) return nullptr;
    void* const made = wait_for_memory(self(), reason_of(call::memory), [&] {
      return allocate(static_cast<bytes>(length) * sizeof(int));
    });
    array_[arrays_++] = made;
    for (MPI_Count i = 0; i < length; ++i) static_cast<int*>(made)[i] = number(values[i]);
    return static_cast<int const*>(made);
  }
  /// A place for a result, which is converted at the end.
  [[nodiscard]] QUARRY_HD int* result(MPI_Count* wide, int first = 0) {
    wide_[results_] = wide;
    narrow_[results_] = first;
    return &narrow_[results_++];
  }
  [[nodiscard]] QUARRY_HD int* changed(MPI_Count* wide) { return result(wide, number(*wide)); }

  /// How many elements an array has, which the caller may leave out if it is not used.
  [[nodiscard]] QUARRY_SLOW MPI_Count remote() const {
    membership const* const at = member(self(), communicator_);
    return at == nullptr ? 0 : at->size;
  }
  [[nodiscard]] QUARRY_SLOW MPI_Count local() const {
    membership* const at = member(self(), communicator_);
    return at == nullptr ? 0 : own_group(self(), *at).size;
  }
  [[nodiscard]] QUARRY_SLOW MPI_Count parts_of(int root) const {
    membership const* const at = member(self(), communicator_);
    if (at == nullptr) return 0;
    bool const is_root =
        is_intercommunicator(*at) ? root == MPI_ROOT : at->rank == static_cast<std::uint32_t>(root);
    return is_root ? remote() : 0;
  }
  [[nodiscard]] QUARRY_HD MPI_Count parts_in(void const* buffer) const {
    return buffer == MPI_IN_PLACE ? 0 : remote();
  }
  [[nodiscard]] QUARRY_HD MPI_Count sources() const { return near().sources; }
  [[nodiscard]] QUARRY_HD MPI_Count targets() const { return near().targets; }

  /// Calls the function unless a count was too large. Keeps its results if it succeeds.
  template <auto Function, class... Arguments>
  [[nodiscard]] QUARRY_HD int run(char const* name, Arguments... arguments) {
    int const error = too_large_ == 0 ? Function(arguments...) : refuse(name);
    if (error != MPI_SUCCESS) results_ = 0;
    return error;
  }

 private:
  QUARRY_SLOW void finish() {
    for (std::uint32_t i = 0; i < results_; ++i) *wide_[i] = narrow_[i];
    for (std::uint32_t i = 0; i < arrays_; ++i) release(array_[i]);
  }
  [[nodiscard]] QUARRY_SLOW int refuse(char const* name) const {
    return fail(self(), communicator_, MPI_ERR_COUNT, name, "count", too_large_);
  }
  [[nodiscard]] QUARRY_SLOW neighbours near() const {
    membership const* const at = member(self(), communicator_);
    return at == nullptr ? neighbours{} : neighbours_of(self(), *at);
  }

  MPI_Comm communicator_;
  MPI_Count too_large_ = 0;  // the first such count; 0: none
  std::uint32_t arrays_ = 0;
  std::uint32_t results_ = 0;
  void* array_[4];
  MPI_Count* wide_[3];
  int narrow_[3];
};

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

#define QUARRY_LIST(...) __VA_ARGS__
#define N(value) in.number(value)
#define A(values, length) in.array(values, length)
#define P(values) reinterpret_cast<MPI_Aint const*>(values)
#define OUT(place) in.result(place)
#define INOUT(place) in.changed(place)
#define QUARRY_LARGE_COUNT(name, communicator, parameters, arguments)    \
  QUARRY_HD int MPI_##name##_c parameters {                              \
    narrowed in{communicator};                                           \
    return in.run<MPI_##name>("MPI_" #name "_c", QUARRY_LIST arguments); \
  }
#define QUARRY_LARGE_COLLECTIVE(name, immediate, parameters, arguments)              \
  QUARRY_LARGE_COUNT(name, comm, (QUARRY_LIST parameters, MPI_Comm comm),            \
                     (QUARRY_LIST arguments, comm))                                  \
  QUARRY_LARGE_COUNT(immediate, comm,                                                \
                     (QUARRY_LIST parameters, MPI_Comm comm, MPI_Request * request), \
                     (QUARRY_LIST arguments, comm, request))                         \
  QUARRY_LARGE_COUNT(                                                                \
      name##_init, comm,                                                             \
      (QUARRY_LIST parameters, MPI_Comm comm, MPI_Info info, MPI_Request * request), \
      (QUARRY_LIST arguments, comm, info, request))
#include "quarry/mpi/mpi_large_count_rows.h"
#undef QUARRY_LARGE_COUNT

// In programs that quarry-mpicc --check made, the functions with ints do the checks. These have
// none.
#define quarry_check_MPI_Buffer_attach MPI_Buffer_attach
#define quarry_check_MPI_Buffer_detach MPI_Buffer_detach
#define quarry_check_MPI_Reduce_local MPI_Reduce_local
#define quarry_check_MPI_Pack MPI_Pack
#define quarry_check_MPI_Unpack MPI_Unpack
#define quarry_check_MPI_Pack_size MPI_Pack_size
#define QUARRY_LARGE_COUNT(name, communicator, parameters, arguments)                 \
  QUARRY_HD decltype(MPI_##name) quarry_check_MPI_##name;                             \
  QUARRY_HD int quarry_check_MPI_##name##_c parameters {                              \
    narrowed in{communicator};                                                        \
    return in.run<quarry_check_MPI_##name>("MPI_" #name "_c", QUARRY_LIST arguments); \
  }
#include "quarry/mpi/mpi_large_count_rows.h"
#undef quarry_check_MPI_Buffer_attach
#undef quarry_check_MPI_Buffer_detach
#undef quarry_check_MPI_Reduce_local
#undef quarry_check_MPI_Pack
#undef quarry_check_MPI_Unpack
#undef quarry_check_MPI_Pack_size

#undef QUARRY_LARGE_COUNT
#undef QUARRY_LARGE_COLLECTIVE
#undef QUARRY_LIST
#undef N
#undef A
#undef P
#undef OUT
#undef INOUT

QUARRY_HD int MPI_Get_count_c(MPI_Status const* status, MPI_Datatype type, MPI_Count* count) {
  MPI_Count size = 0;
  if (int const error = MPI_Type_size_x(type, &size)) return error;
  if (size == 0) {
    *count = status->byte_count == 0 ? 0 : MPI_UNDEFINED;
  } else {
    *count = status->byte_count % size == 0 ? status->byte_count / size : MPI_UNDEFINED;
  }
  return MPI_SUCCESS;
}
QUARRY_HD int MPI_Get_elements_c(MPI_Status const* status, MPI_Datatype type, MPI_Count* count) {
  return MPI_Get_elements_x(status, type, count);
}
QUARRY_HD int MPI_Status_set_elements_c(MPI_Status* status, MPI_Datatype type, MPI_Count count) {
  return MPI_Status_set_elements_x(status, type, count);
}

QUARRY_HD int MPI_Type_size_c(MPI_Datatype type, MPI_Count* size) {
  return MPI_Type_size_x(type, size);
}
QUARRY_HD int MPI_Type_get_extent_c(MPI_Datatype type, MPI_Count* lower_bound, MPI_Count* extent) {
  return MPI_Type_get_extent_x(type, lower_bound, extent);
}
QUARRY_HD int MPI_Type_get_true_extent_c(MPI_Datatype type, MPI_Count* lower_bound,
                                         MPI_Count* extent) {
  return MPI_Type_get_true_extent_x(type, lower_bound, extent);
}
/// No type has large counts.
QUARRY_HD int MPI_Type_get_envelope_c(MPI_Datatype type, MPI_Count* integers, MPI_Count* addresses,
                                      MPI_Count* large_counts, MPI_Count* types, int* combiner) {
  narrowed in{MPI_COMM_WORLD};
  int const error =
      in.run<MPI_Type_get_envelope>("MPI_Type_get_envelope_c", type, in.result(integers),
                                    in.result(addresses), in.result(types), combiner);
  if (error == MPI_SUCCESS) *large_counts = 0;
  return error;
}
QUARRY_HD int MPI_Type_get_contents_c(MPI_Datatype type, MPI_Count max_integers,
                                      MPI_Count max_addresses, MPI_Count, MPI_Count max_types,
                                      int* integers, MPI_Aint* addresses, MPI_Count*,
                                      MPI_Datatype* types) {
  narrowed in{MPI_COMM_WORLD};
  return in.run<MPI_Type_get_contents>("MPI_Type_get_contents_c", type, in.number(max_integers),
                                       in.number(max_addresses), in.number(max_types), integers,
                                       addresses, types);
}

QUARRY_HD int quarry_check_MPI_Op_create_c(MPI_User_function_c* function, int commutes,
                                           MPI_Op* op) {
  int const error = MPI_Op_create_c(function, commutes, op);
  return note_made(error, made_object::kind::op, error == MPI_SUCCESS ? *op : 0);
}

QUARRY_HD decltype(MPI_Type_get_contents) quarry_check_MPI_Type_get_contents;
QUARRY_HD int quarry_check_MPI_Type_get_contents_c(MPI_Datatype type, MPI_Count max_integers,
                                                   MPI_Count max_addresses, MPI_Count,
                                                   MPI_Count max_types, int* integers,
                                                   MPI_Aint* addresses, MPI_Count*,
                                                   MPI_Datatype* types) {
  narrowed in{MPI_COMM_WORLD};
  return in.run<quarry_check_MPI_Type_get_contents>(
      "MPI_Type_get_contents_c", type, in.number(max_integers), in.number(max_addresses),
      in.number(max_types), integers, addresses, types);
}

QUARRY_HD int MPI_Pack_external_c(char const* representation, void const* input, MPI_Count count,
                                  MPI_Datatype type, void* output, MPI_Count output_size,
                                  MPI_Count* position) {
  narrowed in{MPI_COMM_WORLD};
  MPI_Aint place = *position;
  int const error =
      in.run<MPI_Pack_external>("MPI_Pack_external_c", representation, input, in.number(count),
                                type, output, static_cast<MPI_Aint>(output_size), &place);
  if (error == MPI_SUCCESS) *position = place;
  return error;
}
QUARRY_HD int MPI_Unpack_external_c(char const* representation, void const* input,
                                    MPI_Count input_size, MPI_Count* position, void* output,
                                    MPI_Count count, MPI_Datatype type) {
  narrowed in{MPI_COMM_WORLD};
  MPI_Aint place = *position;
  int const error = in.run<MPI_Unpack_external>("MPI_Unpack_external_c", representation, input,
                                                static_cast<MPI_Aint>(input_size), &place, output,
                                                in.number(count), type);
  if (error == MPI_SUCCESS) *position = place;
  return error;
}
QUARRY_HD int MPI_Pack_external_size_c(char const* representation, MPI_Count count,
                                       MPI_Datatype type, MPI_Count* size) {
  narrowed in{MPI_COMM_WORLD};
  MPI_Aint result = 0;
  int const error = in.run<MPI_Pack_external_size>("MPI_Pack_external_size_c", representation,
                                                   in.number(count), type, &result);
  if (error == MPI_SUCCESS) *size = result;
  return error;
}

}  // extern "C"
