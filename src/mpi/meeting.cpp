// SPDX-License-Identifier: Apache-2.0
#include "meeting.hpp"

#ifdef __CUDACC__
#include "warp_helpers.cuh"
#endif

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

/// What a rank says that waits in a meeting. `numbers`: how many are reduced, if several.
[[nodiscard]] QUARRY_HD wait_reason reason_to_meet(call which, std::uint32_t numbers) {
  return reason_of(which, MPI_PROC_NULL, static_cast<std::int32_t>(numbers > 1 ? numbers : 0));
}

/// Waits with progress. The rank that publishes wakes the block's others.
QUARRY_HD void wait_for_block(arrival const& arrived, wait_reason const& reason) {
  wait_for_mail(self(), reason, [&] { return is_published_soon(arrived); });
}
QUARRY_HD void wait_for_world(arrival const& arrived, wait_reason const& reason) {
  // The first load is a hint: an acquire would empty the GPU's cache at every look.
  wait_until(self(), reason, [&] { return arrived.may_be_complete() && arrived.is_complete(); });
}

/// A small_reduction_work that the lanes do that help the leader, if that takes less time.
struct helped_reduction_work {
  small_reduction_work alone;

  QUARRY_HD void in_block(simt::lane_group group) const {
    if (!is_done_by_helpers(group, false)) alone.in_block(group);
  }
  QUARRY_HD void in_world(simt::lane_group group) const {
    if (!is_done_by_helpers(group, true)) alone.in_world(group);
  }

 private:
  [[nodiscard]] QUARRY_HD bool is_done_by_helpers([[maybe_unused]] simt::lane_group group,
                                                  [[maybe_unused]] bool is_of_world) const {
#ifdef __CUDA_ARCH__
    numbers_job const job{alone.values, alone.how, alone.numbers, is_of_world};
    if (!warp_helpers::suit(job, is_of_world ? alone.at.blocks : alone.at.members)) return false;
    if (group.is_leader()) warp_helpers::run(job);
    return true;
#else
    return false;
#endif
  }
};

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
  if (!rest.represents) return wait_for_block(arrived, reason_of(which));
  wait_for_world(arrived, reason_of(which));
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
  char* const result = result_of(arrival{own_seat(), kind_of(which)}.number());
  auto& sent = *reinterpret_cast<std::uint32_t*>(result);
  bool const is_root = own_rank() == root;
  if (is_root) {
    copy_bytes(result + result_head, data, size);
    sent = size;
  }
  barrier(which);
  if (is_root) return MPI_SUCCESS;
  copy_bytes(data, result + result_head, sent < size ? sent : size);
  return sent > size ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
}

QUARRY_SLOW void meeting::finish_reduce(void* received, number_batch numbers, small_reduction how,
                                        call which, simt::lane_group group, unfinished rest) {
  seat const at = own_seat();
  arrival const arrived{at, numbers.kind(which), rest.number};
  if (rest.represents) {
    helped_reduction_work const work{
        {at, how, numbers.count, the_meeting().values + rest.number % 2 * values_of(at.blocks)}};
    bool const is_complete = represent_block(at, arrived, group, work, world_polls);
    note_activity();
    if (is_complete) finish_block(at, arrived, group, work);
    note_published(at);
    if (sees_abort(arrived)) end_rank(0);
    rest.represents = !is_complete && group.is_leader();
    if (!rest.represents && wait_briefly(arrived)) {
      take_numbers(at, received, numbers);
      return;
    }
  }
  finish_late_reduce(received, numbers, how, which, rest);
}

QUARRY_SLOW void meeting::finish_late_reduce(void* received, number_batch numbers,
                                             small_reduction how, call which, unfinished rest) {
  seat const at = own_seat();
  arrival const arrived{at, numbers.kind(which), rest.number};
  if (rest.represents) {
    helped_reduction_work const work{
        {at, how, numbers.count, the_meeting().values + rest.number % 2 * values_of(at.blocks)}};
    wait_for_world(arrived, reason_to_meet(which, numbers.total));
    finish_block(at, arrived, simt::lane_group::alone(), work);
    note_published(at);
  } else {
    wait_for_block(arrived, reason_to_meet(which, numbers.total));
  }
  take_numbers(at, received, numbers);
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
