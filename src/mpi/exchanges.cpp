// SPDX-License-Identifier: Apache-2.0
// Exchanges of all ranks with all.
#include "collective_calls.hpp"
#include "convert_elements.hpp"
#include "entry_collectives.hpp"
#include "part_transfers.hpp"
#include "published_parts.hpp"
#include "root_window.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// Each rank reads its part of the data of each rank. All parts have one size.
QUARRY_SLOW void alltoall_directly(collective const& of, void const* sent, int sent_count,
                                   MPI_Datatype sent_type, void* received, int received_count,
                                   MPI_Datatype received_type) {
  std::int64_t const extent = element_extent(of.rank, received_type);
  bool const is_in_place = sent == MPI_IN_PLACE;
  published_data const data{of, is_in_place ? received : sent,
                            static_cast<bytes>(is_in_place ? received_count : sent_count) * of.size,
                            is_in_place ? received_type : sent_type, is_in_place};
  bytes const own_part = data.own_size() / of.size;
  if (read_all_parts(of, data, received, static_cast<bytes>(received_count), received_type,
                     own_part, own_part))
    return;
  for (std::uint32_t step = 0; step < of.size; ++step) {
    std::uint32_t const from = (of.own + step) % of.size;  // not all from one rank at once
    bytes const part = data.size_of(from) / of.size;
    read_part(of, data, from, of.own * part, part,
              at(received, static_cast<std::int64_t>(from) * received_count, extent),
              static_cast<bytes>(received_count), received_type);
  }
}

/// Each rank reads its part of the data of each rank. Each pair of ranks has its own size.
QUARRY_SLOW void exchange_directly(collective const& of, part_buffer const& sent,
                                   part_buffer const& received) {
  bool const is_in_place = sent.is_in_place();
  published_parts const data{of, is_in_place ? received : sent, is_in_place};
  bool const is_simple = received.types == nullptr && is_dense(of.rank, received.type);
  parts_job const job{of.places(),
                      static_cast<char*>(received.data),
                      received.counts,
                      received.displacements,
                      is_simple ? element_size(of.rank, received.type) : 0,
                      of.own,
                      of.size,
                      of.own & ~31u};
  std::uint32_t const outcome = is_simple ? read_parts(job) : parts_outcome::has_gaps;
  if ((outcome & parts_outcome::is_too_long) != 0) of.note(MPI_ERR_TRUNCATE);
  if ((outcome & parts_outcome::has_gaps) == 0) return;
  for (std::uint32_t step = 0; step < of.size; ++step) {
    std::uint32_t const from = (of.own + step) % of.size;  // not all from one rank at once
    if (is_simple && !data.has_gaps(from)) continue;       // it has been read
    buffer_part const target = received.part_of(of.rank, from);
    data.read(from, {of.rank, target.data, target.type},
              target.count * element_size(of.rank, target.type));
  }
}

/// Checks counts and types, as run_scheduled does. Returns an MPI error code.
QUARRY_SLOW int check_parts(rank_state& rank, part_buffer const& parts, std::uint32_t size,
                            MPI_Comm communicator, char const* function) {
  for (std::uint32_t i = 0; i < size; ++i)
    if (parts.count_of(i) < 0)
      return fail(rank, communicator, MPI_ERR_COUNT, function, "count", parts.count_of(i));
  for (std::uint32_t i = 0; i < size; ++i)
    if (!is_type(rank, parts.type_of(i)))
      return fail(rank, communicator, MPI_ERR_TYPE, function, "datatype", parts.type_of(i));
  return MPI_SUCCESS;
}

/// MPI_Alltoallw of members that meet.
QUARRY_SLOW int alltoallw(rank_state& rank, membership& among, part_buffer const& sent,
                          part_buffer const& received, MPI_Comm communicator,
                          char const* function) {
  for (part_buffer const* const buffer : {&sent, &received})
    if (int const error = check_parts(rank, *buffer, among.size, communicator, function))
      return error;
  collective const of{rank, among, call::shared_alltoallw};
  exchange_directly(of, sent, received);
  return of.result(communicator, function);
}

/// In communicators that do not meet, each rank exchanges in step k with the ranks at distance k.
QUARRY_SLOW int alltoall(void const* sent, rank_parts const& outgoing, MPI_Datatype sent_type,
                         void* received, rank_parts const& incoming, MPI_Datatype received_type,
                         MPI_Comm communicator, char const* function, bool has_one_size) {
  rank_state& rank = self();
  membership* among = nullptr;
  if (int const error = check(rank, communicator, 0, received_type, 0, function, among))
    return error;
  std::uint32_t const size = among->shared->size;
  bool const is_in_place = sent == MPI_IN_PLACE;
  if (int const error = incoming.check_all(rank, size, received_type, communicator, function))
    return error;
  if (int const error = is_in_place
                            ? MPI_SUCCESS
                            : outgoing.check_all(rank, size, sent_type, communicator, function))
    return error;
  collective const of{rank, *among, call::alltoall};
  if (meets(*among) && has_one_size) {
    alltoall_directly(of, sent, outgoing.count, sent_type, received, incoming.count, received_type);
    return of.result(communicator, function);
  }
  if (meets(*among)) {
    exchange_directly(of, parts(sent, outgoing.counts, outgoing.displacements, sent_type),
                      parts(received, incoming.counts, incoming.displacements, received_type));
    return of.result(communicator, function);
  }
  std::int64_t const received_extent = element_extent(rank, received_type);
  bytes copied = 0;
  if (is_in_place) {
    for (std::uint32_t i = 0; i < of.size; ++i)
      copied += incoming.count_of(i) * element_size(rank, received_type);
  }
  scratch const copy{rank, copied};
  bytes offset = 0;
  if (is_in_place) {
    for (std::uint32_t i = 0; i < of.size; ++i) {
      pack(rank, copy.data() + offset, at(received, incoming.place_of(i), received_extent),
           incoming.count_of(i), received_type);
      offset += incoming.count_of(i) * element_size(rank, received_type);
    }
  }
  std::int64_t const sent_extent = is_in_place ? 0 : element_extent(rank, sent_type);
  for (std::uint32_t step = 0; step < of.size; ++step) {
    std::uint32_t const to = (of.own + step) % of.size;
    std::uint32_t const from = (of.own + of.size - step) % of.size;
    char* const target = at(received, incoming.place_of(from), received_extent);
    if (step == 0) {
      if (!is_in_place)
        copy_own_part(of, at(sent, outgoing.place_of(to), sent_extent), outgoing.count_of(to),
                      sent_type, target, incoming.count_of(from), received_type);
      continue;
    }
    receive_while_sending(of, target, incoming.count_of(from), received_type, from, [&] {
      if (!is_in_place)
        return send_elements(of, at(sent, outgoing.place_of(to), sent_extent),
                             outgoing.count_of(to), sent_type, to);
      bytes place = 0;
      for (std::uint32_t i = 0; i < to; ++i)
        place += incoming.count_of(i) * element_size(rank, received_type);
      send_elements(of, copy.data() + place,
                    incoming.count_of(to) * element_size(rank, received_type), MPI_BYTE, to);
    });
  }
  return of.result(communicator, function);
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Alltoall(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                           int received_count, MPI_Datatype received_type, MPI_Comm communicator) {
  constexpr std::uint32_t most = entry_collective::max_elements;
  std::uint32_t const part = small_size(sent_count, sent_type, most);
  if (part == small_size(received_count, received_type, most) &&
      entry_exchange::suits(sent, part, communicator) && is_shared_memory(received))
    return entry_exchange::run(sent, received, part);
  if (has_two_groups(communicator))
    return run_across(
        alltoall_call(sent, sent_count, sent_type, received, received_count, received_type),
        communicator, "MPI_Alltoall");
  return alltoall(sent, {nullptr, nullptr, sent_count}, sent_type, received,
                  {nullptr, nullptr, received_count}, received_type, communicator, "MPI_Alltoall",
                  true);
}
QUARRY_HD int MPI_Alltoallv(void const* sent, int const* sent_counts, int const* sent_displacements,
                            MPI_Datatype sent_type, void* received, int const* received_counts,
                            int const* received_displacements, MPI_Datatype received_type,
                            MPI_Comm communicator) {
  if (has_two_groups(communicator))
    return run_across(alltoallv_call(sent, sent_counts, sent_displacements, sent_type, received,
                                     received_counts, received_displacements, received_type),
                      communicator, "MPI_Alltoallv");
  return alltoall(sent, {sent_counts, sent_displacements, 0}, sent_type, received,
                  {received_counts, received_displacements, 0}, received_type, communicator,
                  "MPI_Alltoallv", false);
}

QUARRY_HD int MPI_Alltoallw(void const* sent, int const* sent_counts, int const* sent_displacements,
                            MPI_Datatype const* sent_types, void* received,
                            int const* received_counts, int const* received_displacements,
                            MPI_Datatype const* received_types, MPI_Comm communicator) {
  rank_state& rank = self();
  membership* const among = member(rank, communicator);
  // In place, the parts might have more bytes than an int can count.
  if (among != nullptr && sent != MPI_IN_PLACE && !is_intercommunicator(*among) && meets(*among))
    return alltoallw(rank, *among, parts(sent, sent_counts, sent_displacements, sent_types),
                     parts(received, received_counts, received_displacements, received_types),
                     communicator, "MPI_Alltoallw");
  return run_scheduled(alltoallw_call(sent, sent_counts, sent_displacements, sent_types, received,
                                      received_counts, received_displacements, received_types),
                       form::blocking, communicator, nullptr, "MPI_Alltoallw");
}

}  // extern "C"
