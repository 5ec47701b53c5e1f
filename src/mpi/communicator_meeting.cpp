// SPDX-License-Identifier: Apache-2.0
#include "communicator_meeting.hpp"

#include "member_arrival.hpp"
#include "reduction_job.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// How often a member looks at the counter before it makes progress and reports that it waits.
constexpr std::uint32_t member_polls = is_on_host() ? 1 : 64;

/// The lanes of a warp that reach this call together for the same counter.
struct member_site {};
[[nodiscard]] QUARRY_HD simt::lane_group arriving_members(std::uint32_t const& counter) {
#ifndef __CUDA_ARCH__
  if (the_meeting().joins_lanes == 0) return simt::lane_group::alone();
#endif
  return simt::lane_group::coalesced<member_site>().match(
      reinterpret_cast<std::uint64_t>(&counter));
}

/// The first load is a hint: an acquire would empty the GPU's cache at every look.
[[nodiscard]] QUARRY_HD bool is_complete(member_arrival const& arrived) {
  return arrived.may_be_complete() && arrived.is_complete();
}

/// CPU: lets the members look at the counter.
QUARRY_HD void wake([[maybe_unused]] communicator const& shared,
                    [[maybe_unused]] std::uint32_t own) {
#ifndef __CUDA_ARCH__
  note_activity();
  for (std::uint32_t i = 0; i < shared.size; ++i) simt::wake(shared.world_rank(i, own));
#endif
}

/// What members write before their next meeting has this number.
[[nodiscard]] QUARRY_HD std::uint32_t turn_of(membership const& among) {
  return among.meetings % 2;
}

QUARRY_HD bool wait_briefly(member_arrival const& arrived) {
  QUARRY_NO_UNROLL
  for (std::uint32_t i = 0; i < member_polls; ++i)
    if (is_complete(arrived)) return true;
  return false;
}

/// The lanes of a warp that are neighbours in the communicator continue together after a meeting,
/// as in `join_lanes`. Nobody joins if a member has had a collective operation in progress, which
/// it advances while it waits: a step of this may wait for a lane that waits here. A member says so
/// before it arrives, in the word of this turn, which nobody changes before all have arrived at the
/// next meeting. So all members read the same. Relaxed (F): the meeting orders store and loads.
class joining_members {
 public:
  QUARRY_HD joining_members([[maybe_unused]] rank_state const& rank,
                            [[maybe_unused]] membership const& among) {
#ifdef __CUDA_ARCH__
    if (layout().shift != 0) return;
    lanes_ = among.shared->meeting->places()[among.rank].lanes;
    has_schedules_ = &among.shared->meeting->has_schedules[turn_of(among)];
    if (rank.schedules != nullptr) flag().store(1, simt::relaxed);  // (F)
#endif
  }
  QUARRY_HD void join() const {
#ifdef __CUDA_ARCH__
    if ((lanes_ & (lanes_ - 1)) != 0 && flag().load(simt::relaxed) == 0) __syncwarp(lanes_);  // (F)
#endif
  }

 private:
#ifdef __CUDA_ARCH__
  [[nodiscard]] QUARRY_HD simt::atomic_ref<std::uint32_t> flag() const {
    return simt::atomic_ref<std::uint32_t>{*has_schedules_};
  }
  std::uint32_t lanes_ = 0;
  std::uint32_t* has_schedules_ = nullptr;
#endif
};

QUARRY_SLOW void meet_members(rank_state& rank, membership& among, call which) {
  communicator const& shared = *among.shared;
  joining_members const joining{rank, among};
  // A short wait looks at nothing else that says that the program was aborted.
  if (++among.meetings == 0 && is_aborted()) end_rank(0);
  std::uint32_t& counter = shared.meeting->counters[static_cast<std::uint32_t>(which)];
  member_arrival arrived{counter, among.size};
  simt::lane_group const group = arriving_members(counter);
  if (arrived.arrive(group, among.rank == 0)) {
    if (group.is_leader()) wake(shared, rank.rank);
  } else if (!wait_briefly(arrived)) {
    // The member that arrives last wakes the others.
    wait_for_mail(rank, reason_of(which, MPI_PROC_NULL, 0, shared.context + 1),
                  [&] { return is_complete(arrived); });
  }
  joining.join();
}

/// The numbers of one turn, of a group of members.
struct number_group {
  published_places places;
  std::uint32_t first;
  std::uint32_t distance;
  std::uint32_t members;  // at most 32
  std::uint32_t turn;
};

template <class T>
[[nodiscard]] QUARRY_HD std::uint64_t combine_group(number_group const& group, MPI_Op op) {
  T const result = combine_in_tree<T>(
      group.members,
      [&](std::uint32_t begin, std::uint32_t present, T(&values)[tree_batch]) {
        QUARRY_UNROLL
        for (std::uint32_t k = 0; k < tree_batch; ++k) {
          std::uint32_t const number = begin + (k < present ? k : 0);
          std::uint64_t const& word =
              group.places[group.first + number * group.distance].numbers[group.turn];
          std::memcpy(&values[k], &word, sizeof(T));
        }
      },
      [&](T left, T right) { return combine<T>(left, right, op); });
  std::uint64_t word = 0;
  std::memcpy(&word, &result, sizeof(T));
  return word;
}

[[nodiscard]] QUARRY_SLOW std::uint64_t combine_group(number_group const& group,
                                                      small_reduction how) {
  using number = small_reduction::number;
  switch (how.type) {
    case number::int32:
      return combine_group<std::int32_t>(group, how.op);
    case number::uint32:
      return combine_group<std::uint32_t>(group, how.op);
    case number::int64:
      return combine_group<std::int64_t>(group, how.op);
    case number::uint64:
      return combine_group<std::uint64_t>(group, how.op);
    case number::real32:
      return combine_group<float>(group, how.op);
    case number::real64:
      return combine_group<double>(group, how.op);
    case number::none:
      break;
  }
  return 0;
}

/// Reduces one number, which lies in the first bytes of the word. Returns the result.
[[nodiscard]] QUARRY_SLOW std::uint64_t reduce_number(rank_state& rank, membership& among,
                                                      std::uint64_t word, small_reduction how,
                                                      call which) {
  constexpr std::uint32_t radix = reduction_job::radix;
  published_places const places = among.shared->meeting->places();
  std::uint64_t distance = 1;
  QUARRY_NO_UNROLL
  do {
    std::uint64_t const span = distance * radix;
    std::uint32_t const turn = turn_of(among);
    if (among.rank % distance == 0) places[among.rank].numbers[turn] = word;
    meet_members(rank, among, which);
    auto const first = static_cast<std::uint32_t>(among.rank / span * span);
    std::uint64_t const left = (among.size - first + distance - 1) / distance;
    word = combine_group({places, first, static_cast<std::uint32_t>(distance),
                          static_cast<std::uint32_t>(left < radix ? left : radix), turn},
                         how);
    distance = span;
  } while (distance < among.size);
  return word;
}

}  // namespace

QUARRY_SLOW std::uint32_t lanes_beside(communicator const& shared, std::uint32_t own,
                                       std::uint32_t world_rank) {
  std::uint32_t const lane = world_rank % simt::warp_size;
  auto const is_beside = [&](std::int32_t distance) {
    auto const step = static_cast<std::uint32_t>(distance);
    return own + step < shared.size && lane + step < simt::warp_size &&
           shared.world_rank(own + step, world_rank) == world_rank + step;
  };
  std::int32_t before = 0, behind = 0;
  while (is_beside(before - 1)) --before;
  while (is_beside(behind + 1)) ++behind;
  std::uint32_t const count = static_cast<std::uint32_t>(behind - before) + 1;
  std::uint32_t const all = count == simt::warp_size ? ~0u : (1u << count) - 1;
  return all << (lane + static_cast<std::uint32_t>(before));
}

QUARRY_SLOW void meet(rank_state& rank, membership& among, call which) {
  if (is_world(among)) return meeting::barrier(which);
  meet_members(rank, among, which);
}

QUARRY_SLOW int broadcast_small(rank_state& rank, membership& among, void* data, std::uint32_t size,
                                std::uint32_t root, call which) {
  if (is_world(among)) return meeting::broadcast(data, size, root, which);
  char* const result = among.shared->meeting->results[turn_of(among)];
  auto& sent = *reinterpret_cast<std::uint32_t*>(result + communicator_meeting::max_broadcast);
  bool const is_root = among.rank == root;
  if (is_root) {
    copy_small(result, static_cast<char const*>(data), size);
    sent = size;
  }
  meet_members(rank, among, which);
  if (is_root) return MPI_SUCCESS;
  copy_small(static_cast<char*>(data), result, sent < size ? sent : size);
  return sent > size ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
}

QUARRY_SLOW void reduce_few(rank_state& rank, membership& among, void const* sent, void* received,
                            int count, MPI_Datatype type, small_reduction how, call which) {
  auto const size = static_cast<std::uint32_t>(type >> 8);
  for (int i = 0; i < count; ++i) {
    bytes const at = static_cast<bytes>(i) * size;
    std::uint64_t const own = load_number(static_cast<char const*>(sent) + at, size);
    std::uint64_t const result = reduce_number(rank, among, own, how, which);
    if (received != nullptr) store_number(static_cast<char*>(received) + at, result, size);
  }
}

}  // namespace quarry::inline QUARRY_ABI::mpi
