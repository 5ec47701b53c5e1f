// SPDX-License-Identifier: Apache-2.0
// The steps of each collective operation. Trees for barriers, broadcasts and reductions; for the
// others each rank exchanges messages with each peer that has a part of its data.
#include "collective.hpp"
#include "scheduled_collective.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// In round k each rank has heard from its 2^k predecessors.
QUARRY_SLOW void add_barrier(schedule_builder& to, peer_group const& all) {
  for (std::uint32_t bit = 1; bit < all.size; bit <<= 1) {
    to.wait();
    to.receive(all, (all.own + all.size - bit) % all.size, nullptr, 0, MPI_BYTE);
    to.send(all, (all.own + bit) % all.size, nullptr, 0, MPI_BYTE);
  }
}

/// Sends the root's data along a binomial tree.
QUARRY_SLOW void add_broadcast(schedule_builder& to, peer_group const& all, std::uint32_t root,
                               buffer_part const& data) {
  std::uint32_t const own = (all.own + all.size - root) % all.size;  // the root is 0
  std::uint32_t bit = 1;
  for (; bit < all.size; bit <<= 1) {
    if ((own & bit) == 0) continue;
    to.wait();
    to.receive(all, (own - bit + root) % all.size, data.data, data.count, data.type);
    break;
  }
  to.wait();
  for (bit >>= 1; bit != 0; bit >>= 1)
    if (own + bit < all.size)
      to.send(all, (own + bit + root) % all.size, data.data, data.count, data.type);
}

/// Reduces the data of all ranks to rank 0, in the order of ranks. Returns where rank 0 has the
/// result: a buffer of the schedule, or `data` if there is one rank.
QUARRY_SLOW void const* add_reduction(schedule_builder& to, peer_group const& all, void const* data,
                                      bytes count, MPI_Datatype type) {
  char* buffers[2] = {};
  std::uint32_t next = 0;
  void const* lower = data;
  for (std::uint32_t bit = 1; bit < all.size; bit <<= 1) {
    if ((all.own & bit) != 0) {
      to.wait();
      to.send(all, all.own - bit, lower, count, type);
      return nullptr;
    }
    if (all.own + bit >= all.size) continue;
    if (buffers[next] == nullptr) buffers[next] = to.elements(count, type);
    char* const higher = buffers[next];
    to.receive(all, all.own + bit, higher, count, type);
    to.wait();
    to.reduce(lower, higher, count, type);
    lower = higher;
    next = 1 - next;
  }
  to.wait();
  return lower;
}

/// The first ranks of two groups exchange data.
QUARRY_SLOW void add_leaders_exchange(schedule_builder& to, collective_peers const& peers,
                                      void const* sent, buffer_part const& received) {
  to.wait();
  to.receive(peers.remote, 0, received.data, received.count, received.type);
  to.send(peers.remote, 0, sent, received.count, received.type);
  to.wait();
}

QUARRY_SLOW void add_any_barrier(schedule_builder& to, collective_peers const& peers) {
  if (!peers.has_two_groups) return add_barrier(to, peers.local);
  buffer_part const nothing{nullptr, 0, MPI_BYTE};
  (void)add_reduction(to, peers.local, nullptr, 0, MPI_BYTE);
  if (peers.local.own == 0) add_leaders_exchange(to, peers, nullptr, nothing);
  add_broadcast(to, peers.local, 0, nothing);
}

QUARRY_SLOW void add_any_broadcast(schedule_builder& to, collective_call const& wanted,
                                   collective_peers const& peers) {
  buffer_part const data = wanted.received.whole();
  if (!peers.has_two_groups)
    return add_broadcast(to, peers.local, static_cast<std::uint32_t>(wanted.root), data);
  if (wanted.root == MPI_PROC_NULL) return;
  if (wanted.root == MPI_ROOT) return to.send(peers.remote, 0, data.data, data.count, data.type);
  if (peers.local.own == 0)
    to.receive(peers.remote, static_cast<std::uint32_t>(wanted.root), data.data, data.count,
               data.type);
  add_broadcast(to, peers.local, 0, data);
}

/// What the caller contributes to a reduction.
[[nodiscard]] QUARRY_HD void const* input_of(collective_call const& wanted) {
  return wanted.sent.is_in_place() ? wanted.received.data : wanted.sent.data;
}

QUARRY_SLOW void add_reduce(schedule_builder& to, collective_call const& wanted,
                            collective_peers const& peers) {
  buffer_part const result = wanted.received.whole();
  if (peers.has_two_groups && wanted.root < 0) {
    if (wanted.root == MPI_ROOT)
      to.receive(peers.remote, 0, result.data, result.count, result.type);
    return;
  }
  auto const root = static_cast<std::uint32_t>(wanted.root);
  bool const is_root = peers.is_root(wanted.root);
  void const* const total =
      add_reduction(to, peers.local, input_of(wanted), result.count, result.type);
  if (peers.local.own == 0) {
    if (is_root) return to.copy(total, result.count, result.type, result.data, result.type);
    to.send(peers.remote, root, total, result.count, result.type);
  } else if (is_root) {
    to.wait();
    to.receive(peers.local, 0, result.data, result.count, result.type);
  }
}

QUARRY_SLOW void add_allreduce(schedule_builder& to, collective_call const& wanted,
                               collective_peers const& peers) {
  buffer_part const result = wanted.received.whole();
  void const* const total =
      add_reduction(to, peers.local, input_of(wanted), result.count, result.type);
  if (peers.local.own == 0) {
    if (peers.has_two_groups) {
      add_leaders_exchange(to, peers, total, result);
    } else {
      to.copy(total, result.count, result.type, result.data, result.type);
    }
  }
  add_broadcast(to, peers.local, 0, result);
}

/// The first rank has the total and sends each rank its part.
QUARRY_SLOW void add_reduce_scatter(schedule_builder& to, rank_state& rank,
                                    collective_call const& wanted, collective_peers const& peers) {
  part_buffer const& parts = wanted.received;
  MPI_Datatype const type = parts.type;
  bytes count = 0;
  for (std::uint32_t i = 0; i < peers.local.size; ++i)
    count += static_cast<bytes>(parts.count_of(i));
  void const* total = add_reduction(to, peers.local, input_of(wanted), count, type);
  std::uint32_t const own = peers.local.own;
  auto* const result = static_cast<char*>(parts.data);
  if (own != 0) {
    to.wait();
    return to.receive(peers.local, 0, result, static_cast<bytes>(parts.count_of(own)), type);
  }
  if (peers.has_two_groups) {
    buffer_part const exchanged{to.elements(count, type), count, type};
    add_leaders_exchange(to, peers, total, exchanged);
    total = exchanged.data;
  }
  std::int64_t const extent = element_extent(rank, type);
  auto const* next = static_cast<char const*>(total) + parts.count_of(0) * extent;
  for (std::uint32_t i = 1; i < peers.local.size; ++i) {
    to.send(peers.local, i, next, static_cast<bytes>(parts.count_of(i)), type);
    next += parts.count_of(i) * extent;
  }
  to.copy(total, static_cast<bytes>(parts.count_of(0)), type, result, type);
}

/// Along a binomial tree, as the blocking scan.
QUARRY_SLOW void add_scan(schedule_builder& to, rank_state& rank, collective_call const& wanted,
                          peer_group const& all) {
  buffer_part const result = wanted.received.whole();
  bytes const count = result.count;
  MPI_Datatype const type = result.type;
  void const* const own = input_of(wanted);
  bool const includes_own = wanted.what == operation::scan;
  std::uint32_t const children = tree_children(all.own, all.size);
  element_span const span = span_of(rank, count, type);
  bytes const distance = span.distance();
  char* const memory = to.memory((children + 3) * distance);
  auto const place = [&](std::uint32_t index) { return memory + index * distance - span.first; };
  char* const sum = place(children + 1);
  char* const lower = place(children + 2);
  to.copy(own, count, type, place(0), type);
  to.copy(own, count, type, sum, type);
  for (std::uint32_t child = 0; child < children; ++child)
    to.receive(all, all.own + (1u << child), place(child + 1), count, type);
  for (std::uint32_t child = 0; child < children; ++child) {
    to.wait();
    to.reduce(place(child), place(child + 1), count, type);
  }
  if (all.own != 0) {
    std::uint32_t const parent = all.own & (all.own - 1);
    to.wait();
    to.send(all, parent, place(children), count, type);
    to.receive(all, parent, lower, count, type);
    to.wait();
    to.reduce(lower, sum, count, type);
    for (std::uint32_t child = 0; child < children; ++child)
      to.reduce(lower, place(child), count, type);
  }
  to.wait();
  for (std::uint32_t child = children; child-- != 0;)
    to.send(all, all.own + (1u << child), place(child), count, type);
  if (includes_own || all.own != 0)
    to.copy(includes_own ? sum : lower, count, type, result.data, type);
}

QUARRY_SLOW void add_gather(schedule_builder& to, rank_state& rank, collective_call const& wanted,
                            collective_peers const& peers) {
  buffer_part const sent = wanted.sent.whole();
  if (peers.has_two_groups && wanted.root == MPI_PROC_NULL) return;
  if (!peers.is_root(wanted.root))
    return to.send(peers.remote, static_cast<std::uint32_t>(wanted.root), sent.data, sent.count,
                   sent.type);
  for (std::uint32_t from = 0; from < peers.remote.size; ++from) {
    buffer_part const part = wanted.received.part_of(rank, from);
    if (peers.has_two_groups || from != peers.local.own) {
      to.receive(peers.remote, from, part.data, part.count, part.type);
    } else if (!wanted.sent.is_in_place()) {
      to.copy_part(sent.data, sent.count, sent.type, part.data, part.count, part.type);
    }
  }
}

QUARRY_SLOW void add_scatter(schedule_builder& to, rank_state& rank, collective_call const& wanted,
                             collective_peers const& peers) {
  buffer_part const received = wanted.received.whole();
  if (peers.has_two_groups && wanted.root == MPI_PROC_NULL) return;
  if (!peers.is_root(wanted.root))
    return to.receive(peers.remote, static_cast<std::uint32_t>(wanted.root), received.data,
                      received.count, received.type);
  for (std::uint32_t target = 0; target < peers.remote.size; ++target) {
    buffer_part const part = wanted.sent.part_of(rank, target);
    if (peers.has_two_groups || target != peers.local.own) {
      to.send(peers.remote, target, part.data, part.count, part.type);
    } else if (!wanted.received.is_in_place()) {
      to.copy_part(part.data, part.count, part.type, received.data, received.count, received.type);
    }
  }
}

/// Adds an exchange of each rank with each peer: `send(peer)` and `receive(peer)`. In step k all
/// ranks exchange at distance k, so that few messages at once suffice.
template <class Send, class Receive>
QUARRY_HD void add_exchange(collective_peers const& peers, Send const& send,
                            Receive const& receive) {
  std::uint32_t const own = peers.local.own;
  std::uint32_t const local = peers.local.size;
  std::uint32_t const remote = peers.remote.size;
  std::uint32_t const distances = local > remote ? local : remote;
  for (std::uint32_t i = peers.has_two_groups ? 0 : 1; i < distances; ++i) {
    std::uint32_t const from = (own + distances - i) % distances;
    std::uint32_t const target = (own + i) % distances;
    if (from < remote) receive(from);
    if (target < remote) send(target);
  }
}

QUARRY_SLOW void add_allgather(schedule_builder& to, rank_state& rank,
                               collective_call const& wanted, collective_peers const& peers) {
  bool const is_in_place = wanted.sent.is_in_place();
  buffer_part own = wanted.sent.whole();
  if (is_in_place) own = wanted.received.part_of(rank, peers.local.own);
  if (!is_in_place && !peers.has_two_groups) {
    buffer_part const part = wanted.received.part_of(rank, peers.local.own);
    to.copy_part(own.data, own.count, own.type, part.data, part.count, part.type);
  }
  add_exchange(
      peers,
      [&](std::uint32_t target) { to.send(peers.remote, target, own.data, own.count, own.type); },
      [&](std::uint32_t from) {
        buffer_part const part = wanted.received.part_of(rank, from);
        to.receive(peers.remote, from, part.data, part.count, part.type);
      });
}

QUARRY_SLOW void add_alltoall(schedule_builder& to, rank_state& rank, collective_call const& wanted,
                              collective_peers const& peers) {
  part_buffer const& received = wanted.received;
  auto const receive = [&](std::uint32_t from) {
    buffer_part const part = received.part_of(rank, from);
    to.receive(peers.remote, from, part.data, part.count, part.type);
  };
  if (!wanted.sent.is_in_place()) {
    if (!peers.has_two_groups) {
      buffer_part const from = wanted.sent.part_of(rank, peers.local.own);
      buffer_part const part = received.part_of(rank, peers.local.own);
      to.copy_part(from.data, from.count, from.type, part.data, part.count, part.type);
    }
    return add_exchange(
        peers,
        [&](std::uint32_t target) {
          buffer_part const part = wanted.sent.part_of(rank, target);
          to.send(peers.remote, target, part.data, part.count, part.type);
        },
        receive);
  }
  // All parts are copied first: receives overwrite them. The copies lie one after another.
  auto const size_of = [&](std::uint32_t peer) {
    return static_cast<bytes>(received.count_of(peer)) * element_size(rank, received.type_of(peer));
  };
  bytes total = 0;
  for (std::uint32_t i = 0; i < peers.remote.size; ++i) total += size_of(i);
  char* const copies = to.memory(total);
  if (copies == nullptr && total != 0) return;  // `to` has failed
  char* next = copies;
  for (std::uint32_t i = 0; i < peers.remote.size; ++i) {
    buffer_part const part = received.part_of(rank, i);
    to.copy(part.data, part.count, part.type, next, MPI_BYTE);
    next += size_of(i);
  }
  char const* copy = copies;
  for (std::uint32_t i = 0; i < peers.local.own; ++i) copy += size_of(i);
  add_exchange(
      peers,
      [&](std::uint32_t target) {
        if (target == 0) copy = copies;
        if (target == peers.local.own + 1) copy += size_of(peers.local.own);
        to.send(peers.remote, target, copy, size_of(target), MPI_BYTE);
        copy += size_of(target);
      },
      receive);
}

/// Each rank sends to its targets and receives from its sources. In a Cartesian topology a pair of
/// ranks may be neighbours in several directions: what a rank sends to its lower neighbour arrives
/// from an upper one.
QUARRY_SLOW void add_neighbour_exchange(schedule_builder& to, rank_state& rank,
                                        collective_call const& wanted,
                                        collective_peers const& peers) {
  neighbours const& near = peers.near;
  bool const is_gather =
      wanted.what == operation::neighbor_allgather || wanted.what == operation::neighbor_allgatherv;
  bool const has_directions = near.shape != nullptr && near.shape->is_grid != 0;
  for (int i = 0; i < near.sources; ++i) {
    int const source = near.source(i);
    if (source == MPI_PROC_NULL) continue;
    auto const index = static_cast<std::uint32_t>(i);
    buffer_part const part = wanted.received.part_of(rank, index);
    to.receive(peers.remote, static_cast<std::uint32_t>(source), part.data, part.count, part.type,
               has_directions ? index : 0);
  }
  for (int i = 0; i < near.targets; ++i) {
    int const target = near.target(i);
    if (target == MPI_PROC_NULL) continue;
    auto const index = static_cast<std::uint32_t>(i);
    buffer_part const part = is_gather ? wanted.sent.whole() : wanted.sent.part_of(rank, index);
    to.send(peers.remote, static_cast<std::uint32_t>(target), part.data, part.count, part.type,
            has_directions ? index ^ 1 : 0);
  }
}

}  // namespace

QUARRY_SLOW void add_steps(schedule_builder& to, rank_state& rank, collective_call const& wanted,
                           collective_peers const& peers) {
  switch (wanted.what) {
    case operation::barrier:
      return add_any_barrier(to, peers);
    case operation::bcast:
      return add_any_broadcast(to, wanted, peers);
    case operation::reduce:
      return add_reduce(to, wanted, peers);
    case operation::allreduce:
      return add_allreduce(to, wanted, peers);
    case operation::gather:
    case operation::gatherv:
      return add_gather(to, rank, wanted, peers);
    case operation::scatter:
    case operation::scatterv:
      return add_scatter(to, rank, wanted, peers);
    case operation::allgather:
    case operation::allgatherv:
      return add_allgather(to, rank, wanted, peers);
    case operation::alltoall:
    case operation::alltoallv:
    case operation::alltoallw:
      return add_alltoall(to, rank, wanted, peers);
    case operation::reduce_scatter:
    case operation::reduce_scatter_block:
      return add_reduce_scatter(to, rank, wanted, peers);
    case operation::scan:
    case operation::exscan:
      return add_scan(to, rank, wanted, peers.local);
    default:
      return add_neighbour_exchange(to, rank, wanted, peers);
  }
}

}  // namespace quarry::inline QUARRY_ABI::mpi
