// SPDX-License-Identifier: Apache-2.0
// The basic elements of a type, in the order of a message.
#pragma once

#include "derived_types.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// A type whose elements are being listed, and where the list is. A walk has one for each type that
/// contains the next element.
struct listed_type {
  derived_type* type;
  bytes repeats;       // of the type that are not begun
  std::int32_t block;  // the next block of a struct
};

/// Calls `each(basic, count)` for all basic elements of `count` elements of `type`; elements of one
/// basic type come together where they can. `frames` has room for facts_of(type).depth entries.
template <class Each>
QUARRY_HD void list_elements(rank_state& rank, MPI_Datatype type, bytes count, listed_type* frames,
                             Each const& each) {
  std::uint32_t used = 0;
  // Lists the elements of `number` elements of a type, or begins to list them.
  auto const begin = [&](MPI_Datatype part, bytes number) {
    type_facts const facts = facts_of(rank, part);
    if (facts.size == 0 || number == 0) return;
    if (facts.only_element != MPI_DATATYPE_NULL) {
      each(facts.only_element, number * (facts.size / basic_size(facts.only_element)));
      return;
    }
    frames[used++] = {derived(rank, part), number, 0};
  };
  begin(type, count);
  while (used != 0) {
    listed_type& top = frames[used - 1];
    type_contents const& contents = top.type->contents;
    if (contents.combiner != MPI_COMBINER_STRUCT) {  // has parts of one type
      MPI_Datatype const part = top.type->types()[0];
      bytes const parts = top.type->facts.size / facts_of(rank, part).size;
      --used;
      begin(part, parts * top.repeats);
      continue;
    }
    if (top.block == contents.types) {
      top.block = 0;
      if (--top.repeats == 0) --used;
      continue;
    }
    std::int32_t const block = top.block++;
    begin(top.type->types()[block], static_cast<bytes>(top.type->ints()[1 + block]));
  }
}

}  // namespace quarry::inline QUARRY_ABI::mpi
