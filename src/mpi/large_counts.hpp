// SPDX-License-Identifier: Apache-2.0
// Counts of the type MPI_Count for functions with ints.
#pragma once

#include "scratch.hpp"
#include "topologies.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

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

}  // namespace quarry::inline QUARRY_ABI::mpi
