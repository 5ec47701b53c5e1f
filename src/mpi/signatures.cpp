// SPDX-License-Identifier: Apache-2.0
#include "signatures.hpp"

#include "basic_elements.hpp"

#include <new>

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// The hash of a sequence of elements. Neighbours of one kind count as one run, however they come.
class element_hash {
 public:
  QUARRY_HD void add(MPI_Datatype basic, bytes count) {
    if (count == 0) return;
    std::uint32_t const kind = representation_of(basic);
    if (kind != kind_) {
      finish_run();
      kind_ = kind;
      has_one_kind_ = elements_ == 0;
    }
    if (elements_ == 0) first_ = basic;
    run_ += count;
    elements_ += count;
  }
  [[nodiscard]] QUARRY_HD bytes elements() const { return elements_; }
  [[nodiscard]] QUARRY_HD type_signature result() {
    finish_run();
    return {hash_, elements_, has_one_kind_ ? first_ : MPI_DATATYPE_NULL, true};
  }

 private:
  QUARRY_HD void finish_run() {
    for (std::uint64_t const word : {std::uint64_t{kind_}, run_}) {
      hash_ = (hash_ ^ word) * 0x9e3779b97f4a7c15;
      hash_ ^= hash_ >> 29;
    }
    run_ = 0;
  }

  std::uint64_t hash_ = 0;
  std::uint32_t kind_ = 0;
  bool has_one_kind_ = false;
  MPI_Datatype first_ = MPI_DATATYPE_NULL;
  bytes run_ = 0;
  bytes elements_ = 0;
};

/// The types of a pair's number and of its place.
[[nodiscard]] QUARRY_HD MPI_Datatype type_of_number(MPI_Datatype pair) {
  return pair == MPI_2INT || pair == MPI_2INTEGER     ? MPI_INT
         : pair == MPI_SHORT_INT                      ? MPI_SHORT
         : pair == MPI_FLOAT_INT || pair == MPI_2REAL ? MPI_FLOAT
         : pair == MPI_LONG_INT                       ? MPI_LONG
         : pair == MPI_LONG_DOUBLE_INT                ? MPI_LONG_DOUBLE
                                                      : MPI_DOUBLE;
}
[[nodiscard]] QUARRY_HD MPI_Datatype type_of_place(MPI_Datatype pair) {
  return is_fortran_pair(pair) ? type_of_number(pair) : MPI_INT;
}

}  // namespace

QUARRY_SLOW std::uint32_t representation_of(MPI_Datatype basic) {
  enum kind : std::uint32_t { other = 1, whole, natural, real, complex, text, truth };
  auto const extent = static_cast<std::uint32_t>(basic) >> 8 << 8;
  switch (basic) {
    case MPI_SIGNED_CHAR:
    case MPI_INT8_T:
    case MPI_SHORT:
    case MPI_INT16_T:
    case MPI_INT:
    case MPI_INT32_T:
    case MPI_INTEGER:
    case MPI_LONG:
    case MPI_LONG_LONG:
    case MPI_INT64_T:
    case MPI_AINT:
    case MPI_COUNT:
    case MPI_OFFSET:
      return extent | whole;
    case MPI_UNSIGNED_CHAR:
    case MPI_UINT8_T:
    case MPI_UNSIGNED_SHORT:
    case MPI_UINT16_T:
    case MPI_UNSIGNED:
    case MPI_UINT32_T:
    case MPI_UNSIGNED_LONG:
    case MPI_UNSIGNED_LONG_LONG:
    case MPI_UINT64_T:
      return extent | natural;
    case MPI_FLOAT:
    case MPI_REAL:
    case MPI_DOUBLE:
    case MPI_DOUBLE_PRECISION:
    case MPI_LONG_DOUBLE:
      return extent | real;
    case MPI_C_COMPLEX:
    case MPI_COMPLEX:
    case MPI_C_DOUBLE_COMPLEX:
    case MPI_DOUBLE_COMPLEX:
    case MPI_C_LONG_DOUBLE_COMPLEX:
      return extent | complex;
    case MPI_CHAR:
    case MPI_CHARACTER:
      return extent | text;
    case MPI_C_BOOL:
    case MPI_LOGICAL:
      return extent | truth;
    default:
      return static_cast<std::uint32_t>(basic) << 8 | other;
  }
}

QUARRY_SLOW type_signature signature_of(rank_state& rank, bytes count, MPI_Datatype type,
                                        bytes most) {
  // a receive keeps a type that the program has freed
  if (is_basic(type) ? !is_named(type) : derived(rank, type) == nullptr) return {};
  type_facts const facts = facts_of(rank, type);
  bool const needs_frames = facts.only_element == MPI_DATATYPE_NULL && facts.size != 0;
  void* const frames = needs_frames ? allocate(facts.depth * sizeof(listed_type)) : nullptr;
  if (needs_frames && frames == nullptr) return {};
  if (facts.elements != 0 && count > most / facts.elements) count = most / facts.elements + 1;
  element_hash hash;
  bool is_packed = false;
  list_elements(rank, type, count, static_cast<listed_type*>(frames),
                [&](MPI_Datatype basic, bytes number) {
                  is_packed = is_packed || basic == MPI_PACKED;
                  bytes const left = most - hash.elements();
                  if (!is_pair(basic)) return hash.add(basic, number < left ? number : left);
                  for (bytes i = 0; i < number && hash.elements() != most; ++i) {
                    hash.add(type_of_number(basic), 1);
                    if (hash.elements() != most) hash.add(type_of_place(basic), 1);
                  }
                });
  if (frames != nullptr) release(frames);
  return is_packed ? type_signature{} : hash.result();
}

QUARRY_SLOW void compare_signatures(rank_state& rank) {
  checks* const own = checks_of(rank);
  while (own != nullptr && own->received != nullptr) {
    signature_note* const note = own->received;
    own->received = note->next;
    type_signature const received =
        signature_of(rank, note->count, note->type, note->sent.elements);
    if (received.is_known && received.hash != note->sent.hash) {
      report_line line;
      line << rank.rank << ": datatypes differ: the receive of ";
      line.at(place_of(*own, note->handle)) << " has ";
      line.name(received.only) << ", the message of ";
      line.at(note->place) << " from rank " << note->source << " of the world has ";
      line.name(note->sent.only).write(rank);
    }
    release_type(rank, note->type);
    release_note(rank, note);
  }
}

}  // namespace quarry::inline QUARRY_ABI::mpi
