// SPDX-License-Identifier: Apache-2.0
// Collective operations that move each rank's part of the data: gather and scatter.
#include "collective_calls.hpp"
#include "convert_elements.hpp"
#include "part_transfers.hpp"
#include "root_window.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// All ranks write their parts to the root's buffer.
QUARRY_SLOW void gather_directly(collective const& of, void const* sent, int sent_count,
                                 MPI_Datatype sent_type, void* received, rank_parts const& into,
                                 MPI_Datatype received_type, std::uint32_t root) {
  root_window const window{of, root, root_window::direction::gather, received, into, received_type};
  if (sent != MPI_IN_PLACE) window.write(sent, static_cast<bytes>(sent_count), sent_type);
  window.close();
}

/// All ranks read their parts of the root's buffer.
QUARRY_SLOW void scatter_directly(collective const& of, void const* sent, rank_parts const& from,
                                  MPI_Datatype sent_type, void* received, int received_count,
                                  MPI_Datatype received_type, std::uint32_t root) {
  root_window const window{of,   root,     root_window::direction::scatter, const_cast<void*>(sent),
                           from, sent_type};
  if (received != MPI_IN_PLACE)
    window.read(received, static_cast<bytes>(received_count), received_type);
  window.close();
}

/// Each rank reads the parts of all ranks.
QUARRY_SLOW void allgather_directly(collective const& of, void const* sent, int sent_count,
                                    MPI_Datatype sent_type, void* received, rank_parts const& into,
                                    MPI_Datatype received_type) {
  std::int64_t const extent = element_extent(of.rank, received_type);
  bool const is_in_place = sent == MPI_IN_PLACE;
  void const* const own = is_in_place ? at(received, into.place_of(of.own), extent) : sent;
  published_data const data{of, own,
                            is_in_place ? into.count_of(of.own) : static_cast<bytes>(sent_count),
                            is_in_place ? received_type : sent_type};
  if (into.counts == nullptr &&
      read_all_parts(of, data, received, into.count_of(0), received_type, data.own_size(), 0))
    return;
  for (std::uint32_t step = is_in_place ? 1 : 0; step < of.size; ++step) {
    std::uint32_t const from = (of.own + step) % of.size;
    read_part(of, data, from, 0, data.size_of(from), at(received, into.place_of(from), extent),
              into.count_of(from), received_type);
  }
}

/// All ranks write their parts to rank 0's buffer, and the others copy that.
QUARRY_SLOW void allgather_in_window(collective const& of, void const* sent, int sent_count,
                                     MPI_Datatype sent_type, void* received, rank_parts const& into,
                                     MPI_Datatype received_type) {
  root_window const window{of, 0, root_window::direction::gather, received, into, received_type};
  if (sent != MPI_IN_PLACE) {
    window.write(sent, static_cast<bytes>(sent_count), sent_type);
  } else if (of.own != 0) {
    std::int64_t const extent = element_extent(of.rank, received_type);
    window.write(at(received, into.place_of(of.own), extent), into.count_of(of.own), received_type);
  }
  window.wait_for_all();
  if (of.own != 0) window.read_all(received, into, received_type);
  window.close();
}

QUARRY_SLOW int gather(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                       rank_parts const& into, MPI_Datatype received_type, int root,
                       MPI_Comm communicator, char const* function) {
  rank_state& rank = self();
  membership* among = nullptr;
  bool const is_root = member(rank, communicator) != nullptr &&
                       member(rank, communicator)->rank == static_cast<std::uint32_t>(root);
  bool const is_in_place = sent == MPI_IN_PLACE;
  if (int const error = check(rank, communicator, is_in_place ? 0 : sent_count,
                              is_in_place ? MPI_BYTE : sent_type, root, function, among))
    return error;
  if (is_root) {
    if (int const error =
            into.check_all(rank, among->shared->size, received_type, communicator, function))
      return error;
  }
  bool const is_direct = opens_window(*among);
  collective const of{rank, *among, is_direct ? call::shared_gather : call::gather};
  if (is_direct) {
    gather_directly(of, sent, sent_count, sent_type, received, into, received_type,
                    static_cast<std::uint32_t>(root));
    return of.result(communicator, function);
  }
  if (!is_root) {
    send_elements(of, sent, static_cast<bytes>(sent_count), sent_type,
                  static_cast<std::uint32_t>(root));
    return of.result(communicator, function);
  }
  std::int64_t const extent = element_extent(rank, received_type);
  for (std::uint32_t from = 0; from < of.size; ++from) {
    char* const place = at(received, into.place_of(from), extent);
    if (from != of.own) {
      receive_elements(of, place, into.count_of(from), received_type, from);
    } else if (!is_in_place) {
      copy_own_part(of, sent, static_cast<bytes>(sent_count), sent_type, place, into.count_of(from),
                    received_type);
    }
  }
  return of.result(communicator, function);
}

QUARRY_SLOW int scatter(void const* sent, rank_parts const& from, MPI_Datatype sent_type,
                        void* received, int received_count, MPI_Datatype received_type, int root,
                        MPI_Comm communicator, char const* function) {
  rank_state& rank = self();
  membership* among = nullptr;
  bool const is_in_place = received == MPI_IN_PLACE;
  if (int const error = check(rank, communicator, is_in_place ? 0 : received_count,
                              is_in_place ? MPI_BYTE : received_type, root, function, among))
    return error;
  if (among->rank == static_cast<std::uint32_t>(root)) {
    if (int const error =
            from.check_all(rank, among->shared->size, sent_type, communicator, function))
      return error;
  }
  bool const is_direct = opens_window(*among);
  collective const of{rank, *among, is_direct ? call::shared_scatter : call::scatter};
  if (is_direct) {
    scatter_directly(of, sent, from, sent_type, received, received_count, received_type,
                     static_cast<std::uint32_t>(root));
    return of.result(communicator, function);
  }
  if (of.own != static_cast<std::uint32_t>(root)) {
    receive_elements(of, received, static_cast<bytes>(received_count), received_type,
                     static_cast<std::uint32_t>(root));
    return of.result(communicator, function);
  }
  std::int64_t const extent = element_extent(rank, sent_type);
  for (std::uint32_t to = 0; to < of.size; ++to) {
    char const* const place = at(sent, from.place_of(to), extent);
    if (to != of.own) {
      send_elements(of, place, from.count_of(to), sent_type, to);
    } else if (!is_in_place) {
      copy_own_part(of, place, from.count_of(to), sent_type, received,
                    static_cast<bytes>(received_count), received_type);
    }
  }
  return of.result(communicator, function);
}

/// In communicators that do not meet, each rank sends its part around a ring; after size - 1 steps
/// every rank has all parts.
QUARRY_SLOW int allgather(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                          rank_parts const& into, MPI_Datatype received_type, MPI_Comm communicator,
                          char const* function) {
  rank_state& rank = self();
  membership* among = nullptr;
  bool const is_in_place = sent == MPI_IN_PLACE;
  if (int const error = check(rank, communicator, is_in_place ? 0 : sent_count,
                              is_in_place ? MPI_BYTE : sent_type, 0, function, among))
    return error;
  if (int const error =
          into.check_all(rank, among->shared->size, received_type, communicator, function))
    return error;
  bool const is_direct =
      !spans_processes &&
      among->size >= (meets(*among) ? fewest_in_window_of_meeting : fewest_in_window);
  collective const of{rank, *among, is_direct ? call::shared_allgather : call::allgather};
  if (is_direct) {
    allgather_in_window(of, sent, sent_count, sent_type, received, into, received_type);
    return of.result(communicator, function);
  }
  if (meets(*among)) {
    allgather_directly(of, sent, sent_count, sent_type, received, into, received_type);
    return of.result(communicator, function);
  }
  std::int64_t const extent = element_extent(rank, received_type);
  if (!is_in_place)
    copy_own_part(of, sent, static_cast<bytes>(sent_count), sent_type,
                  at(received, into.place_of(of.own), extent), into.count_of(of.own),
                  received_type);
  std::uint32_t const to = (of.own + 1) % of.size;
  std::uint32_t const from = (of.own + of.size - 1) % of.size;
  for (std::uint32_t step = 0; step + 1 < of.size; ++step) {
    std::uint32_t const outgoing = (of.own + of.size - step) % of.size;
    std::uint32_t const incoming = (of.own + of.size - step - 1) % of.size;
    receive_while_sending(of, at(received, into.place_of(incoming), extent),
                          into.count_of(incoming), received_type, from, [&] {
                            send_elements(of, at(received, into.place_of(outgoing), extent),
                                          into.count_of(outgoing), received_type, to);
                          });
  }
  return of.result(communicator, function);
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Gather(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                         int received_count, MPI_Datatype received_type, int root,
                         MPI_Comm communicator) {
  if (has_two_groups(communicator))
    return run_across(
        gather_call(sent, sent_count, sent_type, received, received_count, received_type, root),
        communicator, "MPI_Gather");
  return gather(sent, sent_count, sent_type, received, {nullptr, nullptr, received_count},
                received_type, root, communicator, "MPI_Gather");
}
QUARRY_HD int MPI_Gatherv(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                          int const* received_counts, int const* displacements,
                          MPI_Datatype received_type, int root, MPI_Comm communicator) {
  if (has_two_groups(communicator))
    return run_across(gatherv_call(sent, sent_count, sent_type, received, received_counts,
                                   displacements, received_type, root),
                      communicator, "MPI_Gatherv");
  return gather(sent, sent_count, sent_type, received, {received_counts, displacements, 0},
                received_type, root, communicator, "MPI_Gatherv");
}
QUARRY_HD int MPI_Scatter(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                          int received_count, MPI_Datatype received_type, int root,
                          MPI_Comm communicator) {
  if (has_two_groups(communicator))
    return run_across(
        scatter_call(sent, sent_count, sent_type, received, received_count, received_type, root),
        communicator, "MPI_Scatter");
  return scatter(sent, {nullptr, nullptr, sent_count}, sent_type, received, received_count,
                 received_type, root, communicator, "MPI_Scatter");
}
QUARRY_HD int MPI_Scatterv(void const* sent, int const* sent_counts, int const* displacements,
                           MPI_Datatype sent_type, void* received, int received_count,
                           MPI_Datatype received_type, int root, MPI_Comm communicator) {
  if (has_two_groups(communicator))
    return run_across(scatterv_call(sent, sent_counts, displacements, sent_type, received,
                                    received_count, received_type, root),
                      communicator, "MPI_Scatterv");
  return scatter(sent, {sent_counts, displacements, 0}, sent_type, received, received_count,
                 received_type, root, communicator, "MPI_Scatterv");
}
QUARRY_HD int MPI_Allgather(void const* sent, int sent_count, MPI_Datatype sent_type,
                            void* received, int received_count, MPI_Datatype received_type,
                            MPI_Comm communicator) {
  if (has_two_groups(communicator))
    return run_across(
        allgather_call(sent, sent_count, sent_type, received, received_count, received_type),
        communicator, "MPI_Allgather");
  return allgather(sent, sent_count, sent_type, received, {nullptr, nullptr, received_count},
                   received_type, communicator, "MPI_Allgather");
}
QUARRY_HD int MPI_Allgatherv(void const* sent, int sent_count, MPI_Datatype sent_type,
                             void* received, int const* received_counts, int const* displacements,
                             MPI_Datatype received_type, MPI_Comm communicator) {
  if (has_two_groups(communicator))
    return run_across(allgatherv_call(sent, sent_count, sent_type, received, received_counts,
                                      displacements, received_type),
                      communicator, "MPI_Allgatherv");
  return allgather(sent, sent_count, sent_type, received, {received_counts, displacements, 0},
                   received_type, communicator, "MPI_Allgatherv");
}
}  // extern "C"
