// SPDX-License-Identifier: Apache-2.0
// The types that programs make.
#include "handles.hpp"
#include "types.hpp"

#include <new>

namespace quarry::inline QUARRY_ABI::mpi {

QUARRY_SLOW void release_type(rank_state& rank, MPI_Datatype type) {
  if (is_basic(type)) return;
  derived_type* const made = derived(rank, type);
  if (made == nullptr || --made->references != 0) return;
  release(made);
  rank.types.entries[type - first_derived] = nullptr;
}

namespace {

/// Blocks of elements of an old type, at a constant distance.
struct block_pattern {
  std::uint32_t blocks;
  std::uint32_t block_length;  // in elements
  std::int64_t stride;         // in bytes
};

/// Writes the runs of a new type to `runs`, or only counts them if it is null. A run that begins
/// where its predecessor ends becomes a part of it.
QUARRY_SLOW std::uint32_t merge_runs(block_pattern const& of, type_run const* old,
                                     std::uint32_t old_runs, std::int64_t old_extent,
                                     type_run* runs) {
  std::uint32_t count = 0;
  type_run last{0, 0};
  for (std::uint32_t block = 0; block < of.blocks; ++block) {
    for (std::uint32_t element = 0; element < of.block_length; ++element) {
      std::int64_t const begin = block * of.stride + element * old_extent;
      for (std::uint32_t i = 0; i < old_runs; ++i) {
        type_run const next{begin + old[i].offset, old[i].size};
        if (count != 0 && last.offset + static_cast<std::int64_t>(last.size) == next.offset) {
          last.size += next.size;
        } else {
          last = next;
          ++count;
        }
        if (runs != nullptr) runs[count - 1] = last;
      }
    }
  }
  return count;
}

/// Adds the new type to the rank's types, not committed. Returns an MPI error code.
QUARRY_SLOW int make_type(rank_state& rank, block_pattern const& of, MPI_Datatype old_type,
                          MPI_Datatype* result) {
  derived_type* const old = is_basic(old_type) ? nullptr : derived(rank, old_type);
  std::int64_t const old_extent = element_extent(rank, old_type);
  block_pattern merged = of;
  type_run own[2] = {{0, element_size(rank, old_type)}, {4, 4}};
  if (old_type == MPI_SHORT_INT) own[0].size = 2;
  type_run const* old_runs = own;
  std::uint32_t old_count = old_type == MPI_SHORT_INT ? 2 : 1;
  if (is_dense(rank, old_type)) {  // a block is one run
    own[0].size *= of.block_length;
    merged.block_length = of.block_length == 0 ? 0 : 1;
  } else if (old != nullptr) {
    old_runs = old->first();
    old_count = old->runs;
  }
  std::uint32_t const count = merge_runs(merged, old_runs, old_count, old_extent, nullptr);
  std::int32_t const index = free_handle(rank.types);
  void* const memory =
      index < 0 ? nullptr : allocate(sizeof(derived_type) + count * sizeof(type_run));
  if (memory == nullptr) return MPI_ERR_NO_MEM;
  auto* const made = ::new (memory) derived_type{};
  made->runs = count;
  made->references = 1;
  made->size = static_cast<bytes>(of.blocks) * of.block_length * element_size(rank, old_type);
  (void)merge_runs(merged, old_runs, old_count, old_extent, made->first());
  if (of.blocks != 0 && of.block_length != 0) {
    std::int64_t const last_block = (of.blocks - 1) * of.stride;
    std::int64_t const lower = last_block < 0 ? last_block : 0;
    std::int64_t const upper = last_block < 0 ? 0 : last_block;
    made->lower_bound = lower + lower_bound(rank, old_type);
    made->extent = upper - lower + of.block_length * old_extent;
  }
  describe_runs(*made);
  rank.types.entries[index] = made;
  *result = first_derived + index;
  return MPI_SUCCESS;
}

QUARRY_SLOW int make_checked(int count, int block_length, std::int64_t stride,
                             MPI_Datatype old_type, MPI_Datatype* result, char const* function) {
  rank_state& rank = self();
  if (count < 0) return fail(rank, MPI_COMM_WORLD, MPI_ERR_COUNT, function, "count", count);
  if (block_length < 0)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_ARG, function, "block length", block_length);
  if (!is_known_type(rank, old_type))
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_TYPE, function, "datatype", old_type);
  block_pattern const of{static_cast<std::uint32_t>(count),
                         static_cast<std::uint32_t>(block_length),
                         stride * element_extent(rank, old_type)};
  int const error = make_type(rank, of, old_type, result);
  return error == MPI_SUCCESS ? error : fail(rank, MPI_COMM_WORLD, error, function, "count", count);
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Type_contiguous(int count, MPI_Datatype old_type, MPI_Datatype* new_type) {
  if (count < 0)
    return fail(self(), MPI_COMM_WORLD, MPI_ERR_COUNT, "MPI_Type_contiguous", "count", count);
  return make_checked(1, count, 0, old_type, new_type, "MPI_Type_contiguous");
}

QUARRY_HD int MPI_Type_vector(int count, int block_length, int stride, MPI_Datatype old_type,
                              MPI_Datatype* new_type) {
  return make_checked(count, block_length, stride, old_type, new_type, "MPI_Type_vector");
}

QUARRY_HD int MPI_Type_commit(MPI_Datatype* type) {
  rank_state& rank = self();
  if (!is_known_type(rank, *type))
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_TYPE, "MPI_Type_commit", "datatype", *type);
  if (!is_basic(*type)) derived(rank, *type)->is_committed = 1;
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Type_free(MPI_Datatype* type) {
  rank_state& rank = self();
  if (is_basic(*type) || !is_known_type(rank, *type))
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_TYPE, "MPI_Type_free", "datatype", *type);
  derived(rank, *type)->is_freed = 1;
  release_type(rank, *type);
  *type = MPI_DATATYPE_NULL;
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Type_size(MPI_Datatype type, int* size) {
  rank_state& rank = self();
  if (!is_known_type(rank, type))
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_TYPE, "MPI_Type_size", "datatype", type);
  bytes const exact = element_size(rank, type);
  *size = exact > 0x7fffffff ? MPI_UNDEFINED : static_cast<int>(exact);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Type_get_extent(MPI_Datatype type, MPI_Aint* lower, MPI_Aint* extent) {
  rank_state& rank = self();
  if (!is_known_type(rank, type))
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_TYPE, "MPI_Type_get_extent", "datatype", type);
  *lower = lower_bound(rank, type);
  *extent = element_extent(rank, type);
  return MPI_SUCCESS;
}

}  // extern "C"
