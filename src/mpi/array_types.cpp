// SPDX-License-Identifier: Apache-2.0
// Types of parts of arrays with several dimensions.
#include "derived_types.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// A type that grows dimension by dimension. The types on the way to it are freed.
class growing_type {
 public:
  QUARRY_HD growing_type(rank_state& rank, MPI_Datatype first) : rank_{rank}, type_{first} {
    retain_type(rank, type_);
  }
  QUARRY_HD ~growing_type() { release_type(rank_, type_); }
  growing_type(growing_type const&) = delete;

  [[nodiscard]] QUARRY_HD MPI_Datatype type() const { return type_; }

  /// `count` times `length` elements of the type, which are `extent` bytes apart; groups of them
  /// are `stride` bytes apart. Returns an MPI error code.
  [[nodiscard]] QUARRY_SLOW int repeat(bytes count, bytes length, std::int64_t extent,
                                       std::int64_t stride) {
    if (int const error = set_extent(extent)) return error;
    type_recipe recipe;
    recipe.blocks.type = type_;
    recipe.blocks.count = count;
    recipe.blocks.length = length;
    recipe.blocks.stride = stride;
    return replace(recipe);
  }
  /// The type, and behind its bytes `length` elements of another type at `place`.
  [[nodiscard]] QUARRY_SLOW int append(MPI_Datatype other, int length, std::int64_t place) {
    MPI_Datatype const types[2] = {type_, other};
    int const lengths[2] = {1, length};
    MPI_Aint const places[2] = {0, place};
    type_recipe recipe;
    recipe.blocks.count = 2;
    recipe.blocks.types = types;
    recipe.blocks.lengths = lengths;
    recipe.blocks.addresses = places;
    return replace(recipe);
  }
  [[nodiscard]] QUARRY_SLOW int set_extent(std::int64_t extent) {
    type_recipe recipe;
    recipe.blocks.type = type_;
    recipe.has_bounds = true;
    recipe.upper = extent;
    return replace(recipe);
  }

 private:
  [[nodiscard]] QUARRY_SLOW int replace(type_recipe const& recipe) {
    MPI_Datatype next = MPI_DATATYPE_NULL;
    if (int const error = make_type(rank_, recipe, {}, &next)) return error;
    release_type(rank_, type_);
    type_ = next;
    return MPI_SUCCESS;
  }

  rank_state& rank_;
  MPI_Datatype type_;
};

/// Makes the type of what has grown. It lies `place` bytes behind the array's begin; the array has
/// `extent` bytes.
QUARRY_SLOW int finish(rank_state& rank, MPI_Datatype grown, MPI_Aint place, std::int64_t extent,
                       call_arguments const& arguments, MPI_Datatype* result,
                       char const* function) {
  type_recipe recipe;
  recipe.blocks.type = grown;
  recipe.blocks.addresses = &place;
  recipe.has_bounds = true;
  recipe.upper = extent;
  return make_reported(rank, recipe, arguments, result, function);
}

QUARRY_HD int no_memory(rank_state& rank, int error, char const* function, int dimensions) {
  return fail(rank, MPI_COMM_WORLD, error, function, "dimensions", dimensions);
}

/// The number of the dimension that is `step` steps from the one whose elements are adjacent.
QUARRY_HD int dimension_at(int step, int dimensions, int order) {
  return order == MPI_ORDER_FORTRAN ? step : dimensions - 1 - step;
}

/// Adds a dimension of an array: what the process `own` of `processes` has of `size` elements in
/// blocks of `block`. The elements are `unit` bytes apart. `place`: where the part begins.
QUARRY_SLOW int distribute(rank_state& rank, growing_type& grown, int size, int block,
                           int processes, int own, std::int64_t unit, std::int64_t& place) {
  auto const round = static_cast<std::int64_t>(block) * processes;
  auto const first = static_cast<std::int64_t>(own) * block;
  place += first * unit;
  std::int64_t const rest = size - first;  // from the first element on
  if (rest <= 0) return grown.repeat(0, 0, unit, 0);
  std::int64_t const whole = (rest + round - block) / round;  // blocks that are complete
  std::int64_t const beyond = rest - whole * round;           // elements of a part of a block
  if (beyond <= 0)
    return grown.repeat(static_cast<bytes>(whole), static_cast<bytes>(block), unit, round * unit);
  MPI_Datatype const element = grown.type();
  retain_type(rank, element);
  int error =
      grown.repeat(static_cast<bytes>(whole), static_cast<bytes>(block), unit, round * unit);
  if (error == MPI_SUCCESS) {
    growing_type last{rank, element};
    error = last.set_extent(unit);
    if (error == MPI_SUCCESS)
      error = grown.append(last.type(), static_cast<int>(beyond), whole * round * unit);
  }
  release_type(rank, element);
  return error;
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Type_create_subarray(int dimensions, int const* sizes, int const* part_sizes,
                                       int const* starts, int order, MPI_Datatype old_type,
                                       MPI_Datatype* new_type) {
  char const* const name = "MPI_Type_create_subarray";
  rank_state& rank = self();
  auto const fails = [&](int code, char const* what, std::int64_t value) {
    return fail(rank, MPI_COMM_WORLD, code, name, what, value);
  };
  if (dimensions < 1) return fails(MPI_ERR_ARG, "dimensions", dimensions);
  for (int i = 0; i < dimensions; ++i) {
    if (sizes[i] < 1) return fails(MPI_ERR_ARG, "size", sizes[i]);
    if (part_sizes[i] < 1 || part_sizes[i] > sizes[i])
      return fails(MPI_ERR_ARG, "size of the part", part_sizes[i]);
    if (starts[i] < 0 || starts[i] > sizes[i] - part_sizes[i])
      return fails(MPI_ERR_ARG, "start", starts[i]);
  }
  if (order != MPI_ORDER_C && order != MPI_ORDER_FORTRAN) return fails(MPI_ERR_ARG, "order", order);
  if (!is_known_type(rank, old_type)) return fails(MPI_ERR_TYPE, "datatype", old_type);
  growing_type grown{rank, old_type};
  std::int64_t unit = element_extent(rank, old_type);
  std::int64_t place = 0;
  for (int step = 0; step < dimensions; ++step) {
    int const i = dimension_at(step, dimensions, order);
    if (int const error = grown.repeat(1, static_cast<bytes>(part_sizes[i]), unit, 0))
      return no_memory(rank, error, name, dimensions);
    place += wrapped_product(starts[i], unit);
    unit = wrapped_product(unit, sizes[i]);
  }
  call_arguments arguments{};
  arguments.combiner = MPI_COMBINER_SUBARRAY;
  arguments.head[0] = dimensions;
  arguments.heads = 1;
  arguments.arrays[0] = sizes;
  arguments.arrays[1] = part_sizes;
  arguments.arrays[2] = starts;
  arguments.array_count = 3;
  arguments.array_length = dimensions;
  arguments.tail = order;
  arguments.tails = 1;
  arguments.types = &old_type;
  arguments.type_count = 1;
  return finish(rank, grown.type(), place, unit, arguments, new_type, name);
}

QUARRY_HD int MPI_Type_create_darray(int size, int rank_number, int dimensions, int const* sizes,
                                     int const* distributions, int const* arguments_of,
                                     int const* process_counts, int order, MPI_Datatype old_type,
                                     MPI_Datatype* new_type) {
  char const* const name = "MPI_Type_create_darray";
  rank_state& rank = self();
  auto const fails = [&](int code, char const* what, std::int64_t value) {
    return fail(rank, MPI_COMM_WORLD, code, name, what, value);
  };
  if (size < 1) return fails(MPI_ERR_ARG, "number of processes", size);
  if (rank_number < 0 || rank_number >= size) return fails(MPI_ERR_ARG, "rank", rank_number);
  if (dimensions < 1) return fails(MPI_ERR_ARG, "dimensions", dimensions);
  std::int64_t processes = 1;
  for (int i = 0; i < dimensions; ++i) {
    int const share = distributions[i], block = arguments_of[i], count = process_counts[i];
    if (sizes[i] < 1) return fails(MPI_ERR_ARG, "size", sizes[i]);
    if (count < 1) return fails(MPI_ERR_ARG, "number of processes of a dimension", count);
    if (share < MPI_DISTRIBUTE_NONE || share > MPI_DISTRIBUTE_CYCLIC ||
        (share == MPI_DISTRIBUTE_NONE && count != 1))
      return fails(MPI_ERR_ARG, "distribution", share);
    if (share != MPI_DISTRIBUTE_NONE && block != MPI_DISTRIBUTE_DFLT_DARG &&
        (block < 1 ||
         (share == MPI_DISTRIBUTE_BLOCK && static_cast<std::int64_t>(block) * count < sizes[i])))
      return fails(MPI_ERR_ARG, "size of a block", block);
    if (processes <= size) processes *= count;
  }
  if (processes != size) return fails(MPI_ERR_ARG, "number of processes", size);
  if (order != MPI_ORDER_C && order != MPI_ORDER_FORTRAN) return fails(MPI_ERR_ARG, "order", order);
  if (!is_known_type(rank, old_type)) return fails(MPI_ERR_TYPE, "datatype", old_type);
  growing_type grown{rank, old_type};
  std::int64_t unit = element_extent(rank, old_type);
  std::int64_t place = 0;
  for (int step = 0; step < dimensions; ++step) {
    int const i = dimension_at(step, dimensions, order);
    int below = 1;  // the processes of the dimensions behind i: C's order, whatever `order` is
    for (int k = i + 1; k < dimensions; ++k) below *= process_counts[k];
    int const count = process_counts[i];
    int const own = rank_number / below % count;
    int const block = distributions[i] == MPI_DISTRIBUTE_NONE       ? sizes[i]
                      : arguments_of[i] != MPI_DISTRIBUTE_DFLT_DARG ? arguments_of[i]
                      : distributions[i] == MPI_DISTRIBUTE_CYCLIC   ? 1
                                                                    : (sizes[i] - 1) / count + 1;
    if (int const error = distribute(rank, grown, sizes[i], block, count, own, unit, place))
      return no_memory(rank, error, name, dimensions);
    unit = wrapped_product(unit, sizes[i]);
  }
  call_arguments arguments{};
  arguments.combiner = MPI_COMBINER_DARRAY;
  arguments.head[0] = size;
  arguments.head[1] = rank_number;
  arguments.head[2] = dimensions;
  arguments.heads = 3;
  arguments.arrays[0] = sizes;
  arguments.arrays[1] = distributions;
  arguments.arrays[2] = arguments_of;
  arguments.arrays[3] = process_counts;
  arguments.array_count = 4;
  arguments.array_length = dimensions;
  arguments.tail = order;
  arguments.tails = 1;
  arguments.types = &old_type;
  arguments.type_count = 1;
  return finish(rank, grown.type(), place, unit, arguments, new_type, name);
}

}  // extern "C"
