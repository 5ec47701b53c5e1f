// SPDX-License-Identifier: Apache-2.0
// MPI's functions that make types of blocks.
#include "attributes.hpp"
#include "derived_types.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// A call that makes a type. It checks its arguments before anything changes.
struct constructor {
  rank_state& rank;
  char const* function;

  [[nodiscard]] QUARRY_SLOW int fails(int code, char const* what, std::int64_t value) const {
    return fail(rank, MPI_COMM_WORLD, code, function, what, value);
  }
  [[nodiscard]] QUARRY_HD int check_count(int count) const {
    return count < 0 ? fails(MPI_ERR_COUNT, "count", count) : MPI_SUCCESS;
  }
  [[nodiscard]] QUARRY_HD int check_length(int length) const {
    return length < 0 ? fails(MPI_ERR_ARG, "block length", length) : MPI_SUCCESS;
  }
  [[nodiscard]] QUARRY_HD int check_type(MPI_Datatype type) const {
    return is_known_type(rank, type) ? MPI_SUCCESS : fails(MPI_ERR_TYPE, "datatype", type);
  }
  /// The count, the block lengths and the type, or types, of which `types` points to the first.
  [[nodiscard]] QUARRY_SLOW int check(int count, int const* lengths, MPI_Datatype const* types,
                                      int type_count, bool accepts_bounds = false) const {
    if (int const error = check_count(count)) return error;
    for (int i = 0; lengths != nullptr && i < count; ++i)
      if (int const error = check_length(lengths[i])) return error;
    for (int i = 0; i < type_count; ++i)
      if (!accepts_bounds || !is_bound(types[i]))
        if (int const error = check_type(types[i])) return error;
    return MPI_SUCCESS;
  }
  [[nodiscard]] QUARRY_SLOW int make(type_recipe const& recipe, call_arguments const& arguments,
                                     MPI_Datatype* result) const {
    return make_reported(rank, recipe, arguments, result, function);
  }
};

QUARRY_SLOW int make_vector(int count, int length, std::int64_t stride, bool is_in_bytes,
                            MPI_Datatype old_type, MPI_Datatype* result, char const* function) {
  constructor const call{self(), function};
  if (int const error = call.check(count, nullptr, &old_type, 1)) return error;
  if (int const error = call.check_length(length)) return error;
  type_recipe recipe;
  recipe.blocks.type = old_type;
  recipe.blocks.count = static_cast<bytes>(count);
  recipe.blocks.length = static_cast<bytes>(length);
  recipe.blocks.stride =
      is_in_bytes ? stride : wrapped_product(stride, element_extent(call.rank, old_type));
  MPI_Aint const address = stride;
  call_arguments arguments{};
  arguments.types = &old_type;
  arguments.type_count = 1;
  arguments.head[0] = count;
  arguments.head[1] = length;
  if (is_in_bytes) {
    arguments.combiner = MPI_COMBINER_HVECTOR;
    arguments.heads = 2;
    arguments.addresses = &address;
    arguments.address_count = 1;
  } else {
    arguments.combiner = MPI_COMBINER_VECTOR;
    arguments.heads = 3;
    arguments.head[2] = static_cast<int>(stride);
  }
  return call.make(recipe, arguments, result);
}

/// Blocks of one type at any places. `lengths`: null if all blocks have `length`. Either `places`
/// or `addresses` is null.
QUARRY_SLOW int make_indexed(int count, int const* lengths, int length, bool has_one_length,
                             int const* places, MPI_Aint const* addresses, int combiner,
                             MPI_Datatype old_type, MPI_Datatype* result, char const* function) {
  constructor const call{self(), function};
  if (int const error = call.check(count, has_one_length ? nullptr : lengths, &old_type, 1))
    return error;
  if (int const error = call.check_length(length)) return error;
  bool const is_in_bytes =
      combiner == MPI_COMBINER_HINDEXED || combiner == MPI_COMBINER_HINDEXED_BLOCK;
  type_recipe recipe;
  recipe.blocks.type = old_type;
  recipe.blocks.count = static_cast<bytes>(count);
  recipe.blocks.lengths = has_one_length ? nullptr : lengths;
  recipe.blocks.length = static_cast<bytes>(length);
  recipe.blocks.places = places;
  recipe.blocks.addresses = addresses;
  recipe.blocks.unit = element_extent(call.rank, old_type);
  call_arguments arguments{};
  arguments.combiner = combiner;
  arguments.types = &old_type;
  arguments.type_count = 1;
  arguments.head[0] = count;
  arguments.head[1] = length;
  arguments.heads = has_one_length ? 2 : 1;
  arguments.array_length = count;
  if (!has_one_length) arguments.arrays[arguments.array_count++] = lengths;
  if (is_in_bytes) {
    arguments.addresses = addresses;
    arguments.address_count = count;
  } else {
    arguments.arrays[arguments.array_count++] = places;
  }
  return call.make(recipe, arguments, result);
}

QUARRY_SLOW int make_struct(int count, int const* lengths, MPI_Aint const* places,
                            MPI_Datatype const* types, MPI_Datatype* result, char const* function) {
  constructor const call{self(), function};
  if (int const error = call.check(count, lengths, types, count < 0 ? 0 : count, true))
    return error;
  type_recipe recipe;
  recipe.blocks.count = static_cast<bytes>(count);
  recipe.blocks.types = types;
  recipe.blocks.lengths = lengths;
  recipe.blocks.addresses = places;
  call_arguments arguments{};
  arguments.combiner = MPI_COMBINER_STRUCT;
  arguments.head[0] = count;
  arguments.heads = 1;
  arguments.arrays[0] = lengths;
  arguments.array_count = 1;
  arguments.array_length = count;
  arguments.addresses = places;
  arguments.address_count = count;
  arguments.types = types;
  arguments.type_count = count;
  return call.make(recipe, arguments, result);
}

/// A type with the bytes of an old one. `bounds`: its lower bound and extent; null: as they are.
QUARRY_SLOW int make_same(MPI_Datatype old_type, MPI_Aint const* bounds, MPI_Datatype* result,
                          char const* function) {
  constructor const call{self(), function};
  if (int const error = call.check_type(old_type)) return error;
  type_recipe recipe;
  recipe.blocks.type = old_type;
  call_arguments arguments{};
  arguments.combiner = MPI_COMBINER_DUP;
  arguments.types = &old_type;
  arguments.type_count = 1;
  if (bounds != nullptr) {
    recipe.has_bounds = true;
    recipe.lower = bounds[0];
    recipe.upper = bounds[0] + bounds[1];
    arguments.combiner = MPI_COMBINER_RESIZED;
    arguments.addresses = bounds;
    arguments.address_count = 2;
  }
  if (int const error = call.make(recipe, arguments, result)) return error;
  if (bounds == nullptr && (is_basic(old_type) || derived(call.rank, old_type)->is_committed != 0))
    derived(call.rank, *result)->is_committed = 1;
  return MPI_SUCCESS;
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Type_contiguous(int count, MPI_Datatype old_type, MPI_Datatype* new_type) {
  constructor const call{self(), "MPI_Type_contiguous"};
  if (int const error = call.check(count, nullptr, &old_type, 1)) return error;
  type_recipe recipe;
  recipe.blocks.type = old_type;
  recipe.blocks.length = static_cast<bytes>(count);
  call_arguments arguments{};
  arguments.combiner = MPI_COMBINER_CONTIGUOUS;
  arguments.head[0] = count;
  arguments.heads = 1;
  arguments.types = &old_type;
  arguments.type_count = 1;
  return call.make(recipe, arguments, new_type);
}

QUARRY_HD int MPI_Type_vector(int count, int block_length, int stride, MPI_Datatype old_type,
                              MPI_Datatype* new_type) {
  return make_vector(count, block_length, stride, false, old_type, new_type, "MPI_Type_vector");
}
QUARRY_HD int MPI_Type_create_hvector(int count, int block_length, MPI_Aint stride,
                                      MPI_Datatype old_type, MPI_Datatype* new_type) {
  return make_vector(count, block_length, stride, true, old_type, new_type,
                     "MPI_Type_create_hvector");
}

QUARRY_HD int MPI_Type_indexed(int count, int const* lengths, int const* places,
                               MPI_Datatype old_type, MPI_Datatype* new_type) {
  return make_indexed(count, lengths, 0, false, places, nullptr, MPI_COMBINER_INDEXED, old_type,
                      new_type, "MPI_Type_indexed");
}
QUARRY_HD int MPI_Type_create_hindexed(int count, int const* lengths, MPI_Aint const* places,
                                       MPI_Datatype old_type, MPI_Datatype* new_type) {
  return make_indexed(count, lengths, 0, false, nullptr, places, MPI_COMBINER_HINDEXED, old_type,
                      new_type, "MPI_Type_create_hindexed");
}
QUARRY_HD int MPI_Type_create_indexed_block(int count, int block_length, int const* places,
                                            MPI_Datatype old_type, MPI_Datatype* new_type) {
  return make_indexed(count, nullptr, block_length, true, places, nullptr,
                      MPI_COMBINER_INDEXED_BLOCK, old_type, new_type,
                      "MPI_Type_create_indexed_block");
}
QUARRY_HD int MPI_Type_create_hindexed_block(int count, int block_length, MPI_Aint const* places,
                                             MPI_Datatype old_type, MPI_Datatype* new_type) {
  return make_indexed(count, nullptr, block_length, true, nullptr, places,
                      MPI_COMBINER_HINDEXED_BLOCK, old_type, new_type,
                      "MPI_Type_create_hindexed_block");
}

QUARRY_HD int MPI_Type_create_struct(int count, int const* lengths, MPI_Aint const* places,
                                     MPI_Datatype const* types, MPI_Datatype* new_type) {
  return make_struct(count, lengths, places, types, new_type, "MPI_Type_create_struct");
}

QUARRY_HD int MPI_Type_create_resized(MPI_Datatype old_type, MPI_Aint lower_bound, MPI_Aint extent,
                                      MPI_Datatype* new_type) {
  MPI_Aint const bounds[2] = {lower_bound, extent};
  return make_same(old_type, bounds, new_type, "MPI_Type_create_resized");
}
QUARRY_HD int MPI_Type_dup(MPI_Datatype old_type, MPI_Datatype* new_type) {
  if (int const error = make_same(old_type, nullptr, new_type, "MPI_Type_dup")) return error;
  rank_state& rank = self();
  int const error = copy_attributes(rank, attribute::owner::type, old_type, *new_type);
  if (error == MPI_SUCCESS) return MPI_SUCCESS;
  (void)MPI_Type_free(new_type);
  return fail(rank, MPI_COMM_WORLD, error, "MPI_Type_dup", "attributes of datatype", old_type);
}

QUARRY_HD int MPI_Type_hvector(int count, int block_length, MPI_Aint stride, MPI_Datatype old_type,
                               MPI_Datatype* new_type) {
  return make_vector(count, block_length, stride, true, old_type, new_type, "MPI_Type_hvector");
}
QUARRY_HD int MPI_Type_hindexed(int count, int* lengths, MPI_Aint* places, MPI_Datatype old_type,
                                MPI_Datatype* new_type) {
  return make_indexed(count, lengths, 0, false, nullptr, places, MPI_COMBINER_HINDEXED, old_type,
                      new_type, "MPI_Type_hindexed");
}
QUARRY_HD int MPI_Type_struct(int count, int* lengths, MPI_Aint* places, MPI_Datatype* types,
                              MPI_Datatype* new_type) {
  return make_struct(count, lengths, places, types, new_type, "MPI_Type_struct");
}

}  // extern "C"
