// SPDX-License-Identifier: Apache-2.0
// How the calls that make types say what a type consists of.
#pragma once

#include "errors.hpp"
#include "types.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Pseudo types of MPI-1: entries of MPI_Type_struct that set a bound.
[[nodiscard]] QUARRY_HD constexpr bool is_bound(MPI_Datatype type) {
  return type == MPI_LB || type == MPI_UB;
}

[[nodiscard]] QUARRY_SLOW type_facts facts_of(rank_state& rank, MPI_Datatype type);

/// A product that wraps if it is too large. `make_type` refuses types of such a size.
[[nodiscard]] QUARRY_HD constexpr std::int64_t wrapped_product(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

/// Elements of a type, one after another, at a place in bytes.
struct type_block {
  MPI_Datatype type;
  bytes length;
  std::int64_t place;
};

/// The blocks of a new type, in the order of their bytes in a message.
struct block_list {
  bytes count = 1;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  bytes length = 1;
  std::int64_t stride = 0;              // of blocks without other places, in bytes
  MPI_Datatype const* types = nullptr;  // of each block; null: `type`
  int const* lengths = nullptr;         // of each block; null: `length`
  int const* places = nullptr;          // of each block, in units of `unit` bytes
  MPI_Aint const* addresses = nullptr;  // of each block, in bytes
  std::int64_t unit = 0;

  [[nodiscard]] QUARRY_HD bool is_regular() const {
    return count == 0 ||
           (types == nullptr && lengths == nullptr && places == nullptr && addresses == nullptr);
  }
  [[nodiscard]] QUARRY_HD type_block at(bytes i) const {
    return {types != nullptr ? types[i] : type,
            lengths != nullptr ? static_cast<bytes>(lengths[i]) : length,
            addresses != nullptr ? addresses[i]
            : places != nullptr  ? wrapped_product(places[i], unit)
                                 : wrapped_product(static_cast<std::int64_t>(i), stride)};
  }
};

/// The arguments of the call, as MPI_Type_get_contents returns them.
struct call_arguments {
  int combiner;
  int head[3];
  int heads;
  int const* arrays[4];
  int array_count;
  int array_length;
  int tail;
  int tails;  // 0 or 1
  MPI_Aint const* addresses;
  int address_count;
  MPI_Datatype const* types;
  int type_count;

  [[nodiscard]] QUARRY_HD int ints() const { return heads + array_count * array_length + tails; }
};

/// What a new type consists of. `bounds`: its lower and upper bound, if the call sets them.
struct type_recipe {
  block_list blocks;
  bool has_bounds = false;
  std::int64_t lower = 0;
  std::int64_t upper = 0;
};

/// Adds the new type to the rank's types, not committed. Returns an MPI error code.
[[nodiscard]] QUARRY_SLOW int make_type(rank_state& rank, type_recipe const& recipe,
                                        call_arguments const& arguments, MPI_Datatype* result);

/// The same for a public function: reports an error.
[[nodiscard]] QUARRY_SLOW int make_reported(rank_state& rank, type_recipe const& recipe,
                                            call_arguments const& arguments, MPI_Datatype* result,
                                            char const* function);

}  // namespace quarry::inline QUARRY_ABI::mpi
