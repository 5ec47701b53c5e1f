// SPDX-License-Identifier: Apache-2.0
#include "meeting.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

QUARRY_HD char* result_of(std::uint32_t number) {
  return the_world().meeting.results + number % 2 * meeting::result_bytes;
}

/// How a node counts the ranks that take part in one kind of operation: 8 bits for each kind, so
/// that a rank in another operation is noticed. Then nobody completes the node, and the launcher
/// reports that all ranks wait.
[[nodiscard]] QUARRY_HD std::uint64_t one_arrival(call which) {
  std::uint32_t kind = 7;
  switch (which) {
    case call::barrier:
      kind = 0;
      break;
    case call::bcast:
      kind = 1;
      break;
    case call::reduce:
      kind = 2;
      break;
    case call::allreduce:
      kind = 3;
      break;
    case call::finalize:
      kind = 4;
      break;
    case call::comm_split:
      kind = 5;
      break;
    case call::comm_dup:
      kind = 6;
      break;
    default:
      break;
  }
  return std::uint64_t{1} << 8 * kind;
}

/// Arrives at the tree's nodes as long as this rank completes them. `combine(level's first part,
/// members, parent's part)` is called for each. Returns whether this rank has completed the root.
template <class Combine>
QUARRY_HD bool arrive(rank_state& rank, call which, Combine const& combine) {
  meeting_place const& place = the_world().meeting;
  std::uint32_t index = rank.rank;
  std::uint32_t count = layout().size;  // of this level
  std::uint64_t counters = 0;           // of lower levels
  std::uint64_t parts = 0;
  QUARRY_NO_UNROLL
  while (count > 1) {
    std::uint32_t const node = index / meeting::degree;
    std::uint32_t const first = node * meeting::degree;
    std::uint32_t const members = count - first < meeting::degree ? count - first : meeting::degree;
    simt::atomic_ref<std::uint64_t> const counter{place.counters[counters + node]};
    std::uint64_t const one = one_arrival(which);
    if (members > 1 && counter.fetch_add(one, simt::acq_rel) + one != one * members)  // (A)
      return false;
    counter.store(0, simt::relaxed);  // (Z): nobody arrives again before (P)
    std::uint32_t const nodes = (count + meeting::degree - 1) / meeting::degree;
    combine(place.parts + (parts + first) * meeting::part_bytes, members,
            place.parts + (parts + count + node) * meeting::part_bytes);
    parts += count;
    counters += nodes;
    index = node;
    count = nodes;
  }
  return true;
}

QUARRY_HD void complete(std::uint32_t number) {
  simt::atomic_ref<std::uint32_t>{the_world().meeting.epoch}.store(number, simt::release);  // (P)
  note_activity();
}

QUARRY_HD void wait_for(rank_state& rank, std::uint32_t number, call which) {
  wait_until(rank, reason_of(which), [&] {
    simt::atomic_ref<std::uint32_t> const epoch{the_world().meeting.epoch};
    auto const has_come = [&](std::uint32_t seen) {
      return static_cast<std::int32_t>(seen - number) >= 0;
    };
    // The first load is a hint (L): an acquire would empty the GPU's cache at every look.
    return has_come(epoch.load(simt::relaxed)) && has_come(epoch.load(simt::acquire));  // (W)
  });
}

}  // namespace

QUARRY_SLOW void meeting::barrier(rank_state& rank, call which) {
  std::uint32_t const number = ++rank.meetings;
  if (arrive(rank, which, [](char const*, std::uint32_t, char*) {})) {
    complete(number);
  } else {
    wait_for(rank, number, which);
  }
}

QUARRY_SLOW int meeting::broadcast(rank_state& rank, void* data, bytes size, std::uint32_t root,
                                   call which) {
  char* const result = result_of(rank.meetings + 1);
  auto& sent = *reinterpret_cast<bytes*>(result + part_bytes);
  if (rank.rank == root) {
    copy_bytes(result, data, size);
    sent = size;
  }
  barrier(rank, which);
  if (rank.rank == root) return MPI_SUCCESS;
  copy_bytes(data, result, sent < size ? sent : size);
  return sent > size ? MPI_ERR_TRUNCATE : MPI_SUCCESS;
}

QUARRY_SLOW void meeting::reduce(rank_state& rank, void* data, bytes size, bytes count,
                                 MPI_Datatype type, MPI_Op op, call which) {
  std::uint32_t const number = ++rank.meetings;
  char* const own = the_world().meeting.parts + rank.rank * part_bytes;
  copy_bytes(own, data, size);
  char* last = own;  // the part of the last node that this rank completes
  bool const is_complete =
      arrive(rank, which, [&](char const* parts, std::uint32_t members, char* total) {
        alignas(16) char lower[part_bytes];
        alignas(16) char next[part_bytes];
        copy_bytes(lower, parts, size);
        QUARRY_NO_UNROLL
        for (std::uint32_t i = 1; i < members; ++i) {
          copy_bytes(next, parts + i * part_bytes, size);
          mpi::reduce(rank, lower, next, count, type, op);
          copy_bytes(lower, next, size);
        }
        copy_bytes(total, lower, size);
        last = total;
      });
  if (is_complete) {
    copy_bytes(result_of(number), last, size);
    complete(number);
  } else {
    wait_for(rank, number, which);
  }
  copy_bytes(data, result_of(number), size);
}

}  // namespace quarry::inline QUARRY_ABI::mpi
