// SPDX-License-Identifier: Apache-2.0
#include "meeting.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// Looks several times, so that ranks that wait leave the GPU's memory to others.
QUARRY_HD bool is_published_soon(arrival const& arrived) {
#ifdef __CUDA_ARCH__
  constexpr std::uint32_t looks = 16, nap = 40;
  if (looks_together()) {
    (void)await_word(arrived.awaited_word(), arrived.number(), looks, nap);
    return arrived.is_published();
  }
  QUARRY_NO_UNROLL
  for (std::uint32_t i = 0; i < looks; ++i) {
    if (arrived.is_published()) return true;
    __nanosleep(nap);
  }
  return false;
#else
  return arrived.is_published();
#endif
}

/// Waits with progress. The rank that publishes wakes the block's others.
QUARRY_HD void wait_for_block(arrival const& arrived, call which) {
  wait_for_mail(self(), reason_of(which), [&] { return is_published_soon(arrived); });
}
QUARRY_HD void wait_for_world(arrival const& arrived, call which) {
  // The first load is a hint: an acquire would empty the GPU's cache at every look.
  wait_until(self(), reason_of(which),
             [&] { return arrived.may_be_complete() && arrived.is_complete(); });
}

/// Combines the parts of the tree's nodes that this rank completes. The node whose right part
/// begins with rank r has the counter r; its result is the part of its first rank. Returns whether
/// this rank has completed the root. (N) is acq_rel: the second to arrive sees the first's part.
QUARRY_HD bool combine_tree(rank_state& rank, bytes size, bytes count, MPI_Datatype type,
                            MPI_Op op) {
  meeting_place const& all = the_meeting();
  QUARRY_NO_UNROLL
  for (std::uint32_t half = 1; half < layout().size; half *= 2) {
    std::uint32_t const first = rank.rank & ~(2 * half - 1);
    std::uint32_t const middle = first + half;
    if (middle >= layout().size) continue;  // there is no right part
    simt::atomic_ref<std::uint32_t> const node{all.nodes[middle]};
    if (node.fetch_add(1, node_arrive_order) == 0) return false;  // (N)
    node.store(0, simt::relaxed);  // nobody arrives again before the meeting is complete
    char* const left = all.parts + first * meeting::part_bytes;
    char* const right = all.parts + middle * meeting::part_bytes;
    mpi::reduce(rank, left, right, count, type, op);
    copy_bytes(left, right, size);
  }
  return true;
}

}  // namespace

QUARRY_SLOW void meeting::finish_barrier(call which, std::uint32_t kind, unfinished rest) {
  seat const at = own_seat();
  arrival const arrived{at, kind, rest.number};
  if (sees_abort(arrived)) end_rank(0);
  if (!rest.represents) return wait_for_block(arrived, which);
  wait_for_world(arrived, which);
  finish_block(at, arrived, simt::lane_group::alone(), no_work{});
  note_published(at);
}

QUARRY_SLOW void meeting::barrier(call which, std::uint32_t kind) {
  unfinished rest;
  if (!try_barrier(kind, false, rest)) finish_barrier(which, kind, rest);
  join_lanes();
}

QUARRY_SLOW int meeting::finish_broadcast(void* data, std::uint32_t size, call which,
                                          unfinished rest) {
  finish_barrier(which, kind_of(which), rest);
  return data == nullptr ? MPI_SUCCESS : take_result(data, size, rest.number);
}

QUARRY_SLOW int meeting::broadcast(void* data, std::uint32_t size, std::uint32_t root, call which) {
  unfinished rest;
  int error = MPI_SUCCESS;
  return try_broadcast(data, size, root, which, false, error, rest)
             ? error
             : finish_broadcast(own_rank() == root ? nullptr : data, size, which, rest);
}

QUARRY_SLOW void meeting::finish_reduce(void* received, std::uint32_t size, small_reduction how,
                                        call which, simt::lane_group group, unfinished rest) {
  seat const at = own_seat();
  arrival const arrived{at, kind_of(which), rest.number};
  if (rest.represents) {
    small_reduction_work const work{at, how,
                                    the_meeting().values + rest.number % 2 * values_of(at.blocks)};
    bool const is_complete = represent_block(at, arrived, group, work, world_polls);
    note_activity();
    if (is_complete) finish_block(at, arrived, group, work);
    note_published(at);
    if (sees_abort(arrived)) end_rank(0);
    rest.represents = !is_complete && group.is_leader();
    if (!rest.represents && wait_briefly(arrived)) {
      if (received != nullptr) store_number(received, at.place.result, size);
      return;
    }
  }
  finish_late_reduce(received, size, how, which, rest);
}

QUARRY_SLOW void meeting::finish_late_reduce(void* received, std::uint32_t size,
                                             small_reduction how, call which, unfinished rest) {
  seat const at = own_seat();
  arrival const arrived{at, kind_of(which), rest.number};
  if (rest.represents) {
    small_reduction_work const work{at, how,
                                    the_meeting().values + rest.number % 2 * values_of(at.blocks)};
    wait_for_world(arrived, which);
    finish_block(at, arrived, simt::lane_group::alone(), work);
    note_published(at);
  } else {
    wait_for_block(arrived, which);
  }
  if (received != nullptr) store_number(received, at.place.result, size);
}

QUARRY_SLOW void meeting::reduce(rank_state& rank, void* data, bytes size, bytes count,
                                 MPI_Datatype type, MPI_Op op, call which) {
  meeting_place const& all = the_meeting();
  char* const result = result_of(arrival{own_seat(), block_place::tree_kind}.number());
  copy_bytes(all.parts + rank.rank * part_bytes, data, size);
  if (combine_tree(rank, size, count, type, op)) copy_bytes(result, all.parts, size);
  barrier(which, block_place::tree_kind);
  copy_bytes(data, result, size);
}

}  // namespace quarry::inline QUARRY_ABI::mpi
