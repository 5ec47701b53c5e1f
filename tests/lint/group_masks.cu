// SPDX-License-Identifier: Apache-2.0
// Kernels whose machine code group_masks_test.py examines: every operation of a lane group, and the
// functions that use groups with a size that is a constant. With QUARRY_OPERATIONS_ALONE it has the
// operations alone.
#ifndef QUARRY_OPERATIONS_ALONE
#include "quarry/coalescing.hpp"
#include "quarry/heap.hpp"
#endif
#include "quarry/simt/lane_group.hpp"

namespace {

using quarry::simt::lane_group;

__device__ std::uint32_t place() { return blockIdx.x * blockDim.x + threadIdx.x; }

struct handle {
  void* state;
  std::uint64_t number;
};

/// Lanes leave the loop's body at different times, so that groups of one warp run together.
template <class Operation>
__device__ void in_overlapping_groups(std::uint64_t* values, std::uint32_t turns,
                                      Operation operation) {
  for (std::uint32_t turn = 0; turn < turns; ++turn) {
    std::uint64_t& value = values[place() + turn];
    if (value % 4 == 0) continue;
    auto const group = lane_group::coalesced<Operation>();
    if (group.is_leader()) value += turn;
    value = operation(group, value);
  }
}

}  // namespace

// Each operation in a kernel of its own: its first use decides how the assembler treats a mask.
#define QUARRY_GROUP_KERNEL(name, ...)                                                       \
  __global__ void name(std::uint64_t* values, std::uint32_t turns) {                         \
    in_overlapping_groups(                                                                   \
        values, turns,                                                                       \
        [=](lane_group const& group, std::uint64_t value) -> std::uint64_t { __VA_ARGS__ }); \
  }

QUARRY_GROUP_KERNEL(synchronizes, group.sync(); return value + 1;)
QUARRY_GROUP_KERNEL(broadcasts, return group.broadcast(value);)
QUARRY_GROUP_KERNEL(ballots, return group.ballot(value % 3 == 0);)
QUARRY_GROUP_KERNEL(matches, return group.match(value).members();)
QUARRY_GROUP_KERNEL(matches_constant, return group.match(7u).members();)
QUARRY_GROUP_KERNEL(matches_owner, return group.match(values, 7u).members();)
QUARRY_GROUP_KERNEL(matches_bytes, return group.match_bytes(handle{values, 7}).members();)
QUARRY_GROUP_KERNEL(compares, return group.all_equal(value);)
QUARRY_GROUP_KERNEL(compares_constant, return group.all_equal(values);)
QUARRY_GROUP_KERNEL(reduces, return group.or_reduce(value);)
QUARRY_GROUP_KERNEL(finds_largest, return group.max_reduce(static_cast<std::uint32_t>(value));)
QUARRY_GROUP_KERNEL(sums, return group.exclusive_sum(value);)

#ifndef QUARRY_OPERATIONS_ALONE
__global__ void allocates(quarry::heap_ref heap, void** pointers) {
  if (pointers[place()] == nullptr) pointers[place()] = heap.malloc(64);
}

__global__ void frees(quarry::heap_ref heap, void** pointers) { heap.free(pointers[place()]); }

__global__ void allocates_together(quarry::coalescing_ref<quarry::heap_ref> heap, void** pointers) {
  heap.free(pointers[place()]);
  pointers[place()] = heap.malloc(64);
}

__global__ void makes_arrays(quarry::heap_ref heap, quarry::lane_array<float>* arrays) {
  (void)arrays[place()].destroy(heap);
  arrays[place()] = quarry::lane_array<float>::make(heap, 100);
}
#endif
