// SPDX-License-Identifier: Apache-2.0
// How many elements, or basic elements, the bytes of a message are.
#include "derived_types.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// The bytes of a pair's number; its place follows.
[[nodiscard]] QUARRY_HD bytes number_bytes(MPI_Datatype pair) {
  return is_fortran_pair(pair) ? basic_size(pair) / 2 : basic_size(pair) - sizeof(int);
}

/// Goes along the bytes of elements, from the first on: as far as a number of bytes, or of basic
/// elements, and counts the other one.
class message_prefix {
 public:
  /// `end`: bytes if `is_in_bytes`, else basic elements.
  QUARRY_HD message_prefix(rank_state& rank, MPI_Datatype type, bytes end, bool is_in_bytes)
      : rank_{rank}, left_{end}, is_in_bytes_{is_in_bytes} {
    bool goes_on = true;
    while (goes_on) goes_on = take_within(type);
  }
  /// What was counted: basic elements or bytes.
  [[nodiscard]] QUARRY_HD bytes counted() const { return counted_; }
  /// Whether the end lies behind a whole basic element.
  [[nodiscard]] QUARRY_HD bool is_whole() const { return left_ == 0; }

 private:
  /// Takes as many of `count` elements as there are before the end. Returns whether it took all.
  QUARRY_HD bool take(type_facts const& facts, bytes count) {
    bytes const measure = is_in_bytes_ ? facts.size : facts.elements;
    if (measure == 0) return true;
    bytes const fitting = left_ / measure;
    bytes const taken = fitting < count ? fitting : count;
    left_ -= taken * measure;
    counted_ += taken * (is_in_bytes_ ? facts.elements : facts.size);
    return taken == count;
  }
  /// Takes whole elements of `type`. If a part of one is left, sets `type` to a part of the type
  /// and returns true.
  [[nodiscard]] QUARRY_SLOW bool take_within(MPI_Datatype& type) {
    type_facts const facts = facts_of(rank_, type);
    if (facts.size == 0) return false;
    (void)take(facts, ~bytes{0});
    if (left_ == 0) return false;
    derived_type* const made = derived(rank_, type);
    if (made == nullptr) {
      take_of_basic(facts, type);
      return false;
    }
    if (made->contents.combiner != MPI_COMBINER_STRUCT) {
      type = made->types()[0];
      return true;
    }
    int const* const lengths = made->ints() + 1;
    for (std::int32_t i = 0; i < made->contents.types; ++i) {
      MPI_Datatype const part = made->types()[i];
      bool const is_all = take(facts_of(rank_, part), static_cast<bytes>(lengths[i]));
      if (left_ == 0) return false;
      if (!is_all) {
        type = part;
        return true;
      }
    }
    return false;
  }
  QUARRY_HD void take_of_basic(type_facts const& facts, MPI_Datatype basic) {
    if (facts.elements != 2) return;
    bytes const first = number_bytes(basic);
    if (is_in_bytes_ && left_ >= first) {
      left_ -= first;
      ++counted_;
    } else if (!is_in_bytes_) {
      --left_;
      counted_ += first;
    }
  }

  rank_state& rank_;
  bytes left_;
  bytes counted_ = 0;
  bool is_in_bytes_;
};

[[nodiscard]] QUARRY_SLOW int check_committed(rank_state& rank, MPI_Datatype type,
                                              char const* function) {
  if (is_type(rank, type)) return MPI_SUCCESS;
  return fail(rank, MPI_COMM_WORLD, MPI_ERR_TYPE, function, "datatype", type);
}

/// The basic elements of the status; MPI_UNDEFINED if the last one is incomplete.
[[nodiscard]] QUARRY_SLOW MPI_Count elements_of(rank_state& rank, MPI_Status const& status,
                                                MPI_Datatype type) {
  message_prefix const received{rank, type, static_cast<bytes>(status.byte_count), true};
  return received.is_whole() ? static_cast<MPI_Count>(received.counted()) : MPI_UNDEFINED;
}

QUARRY_SLOW int set_elements(MPI_Status* status, MPI_Datatype type, MPI_Count count,
                             char const* function) {
  rank_state& rank = self();
  if (int const error = check_committed(rank, type, function)) return error;
  if (count < 0) return fail(rank, MPI_COMM_WORLD, MPI_ERR_COUNT, function, "count", count);
  message_prefix const wanted{rank, type, static_cast<bytes>(count), false};
  status->byte_count = static_cast<long long>(wanted.counted());
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Get_count(MPI_Status const* status, MPI_Datatype type, int* count) {
  rank_state& rank = self();
  if (int const error = check_committed(rank, type, "MPI_Get_count")) return error;
  bytes const size = element_size(rank, type);
  auto const got = static_cast<bytes>(status->byte_count);
  bool const is_whole = size == 0 ? got == 0 : got % size == 0 && got / size <= 0x7fffffff;
  *count = !is_whole ? MPI_UNDEFINED : size == 0 ? 0 : static_cast<int>(got / size);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Get_elements(MPI_Status const* status, MPI_Datatype type, int* count) {
  rank_state& rank = self();
  if (int const error = check_committed(rank, type, "MPI_Get_elements")) return error;
  MPI_Count const exact = elements_of(rank, *status, type);
  *count = exact > 0x7fffffff ? MPI_UNDEFINED : static_cast<int>(exact);
  return MPI_SUCCESS;
}
QUARRY_HD int MPI_Get_elements_x(MPI_Status const* status, MPI_Datatype type, MPI_Count* count) {
  rank_state& rank = self();
  if (int const error = check_committed(rank, type, "MPI_Get_elements_x")) return error;
  *count = elements_of(rank, *status, type);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Status_set_elements(MPI_Status* status, MPI_Datatype type, int count) {
  return set_elements(status, type, count, "MPI_Status_set_elements");
}
QUARRY_HD int MPI_Status_set_elements_x(MPI_Status* status, MPI_Datatype type, MPI_Count count) {
  return set_elements(status, type, count, "MPI_Status_set_elements_x");
}

}  // extern "C"
