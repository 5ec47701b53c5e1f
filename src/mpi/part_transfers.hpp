// SPDX-License-Identifier: Apache-2.0
// How collective operations move a part: in a message, or out of published data.
#pragma once

#include "collective.hpp"
#include "convert_elements.hpp"
#include "direct_collectives.hpp"
#include "shared_reads.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

[[nodiscard]] QUARRY_HD inline char* at(void* base, std::int64_t elements, std::int64_t extent) {
  return static_cast<char*>(base) + elements * extent;
}
[[nodiscard]] QUARRY_HD inline char const* at(void const* base, std::int64_t elements,
                                              std::int64_t extent) {
  return static_cast<char const*>(base) + elements * extent;
}

/// Sends elements of any type in a collective; like MPI_Send in the collective's context.
QUARRY_SLOW inline void send_elements(collective const& of, void const* data, bytes count,
                                      MPI_Datatype type, std::uint32_t to) {
  send(of.rank, of.through, data, count, type, static_cast<std::int32_t>(to), of.tag,
       mode::standard, of.which);
}
[[nodiscard]] QUARRY_HD inline request wanted_elements(collective const& of, void* data,
                                                       bytes count, MPI_Datatype type,
                                                       std::uint32_t from) {
  request wanted;
  wanted.what = request::kind::receive;
  wanted.data = data;
  wanted.count = count;
  wanted.type = type;
  wanted.source = static_cast<std::int32_t>(from);
  wanted.tag = of.tag;
  wanted.context = of.through.context;
  return wanted;
}
QUARRY_SLOW inline void receive_elements(collective const& of, void* data, bytes count,
                                         MPI_Datatype type, std::uint32_t from) {
  request wanted = wanted_elements(of, data, count, type, from);
  receive(of.rank, wanted, of.which);
  of.note(wanted.error);
}

/// Receives as `receive_elements` does, and calls `send()` after the receive has begun. So ranks
/// may send to each other in a ring.
template <class Send>
QUARRY_HD void receive_while_sending(collective const& of, void* data, bytes count,
                                     MPI_Datatype type, std::uint32_t from, Send const& send) {
  request wanted = wanted_elements(of, data, count, type, from);
  begin_receive(of.rank, wanted);
  send();
  wait_for_receive(of.rank, reason_of(of.which, wanted.source, wanted.tag, wanted.context), wanted);
  of.note(wanted.error);
}

/// Copies the caller's own part. Notes an error if there is no room for all of it.
QUARRY_SLOW inline void copy_own_part(collective const& of, void const* sent, bytes count,
                                      MPI_Datatype type, void* received, bytes received_count,
                                      MPI_Datatype received_type) {
  bytes const size = count * element_size(of.rank, type);
  bytes const room = received_count * element_size(of.rank, received_type);
  if (size > room) of.note(MPI_ERR_TRUNCATE);
  convert_elements(of.rank, {of.rank, const_cast<void*>(sent), type},
                   {of.rank, received, received_type}, size < room ? size : room);
}

/// Reads what rank `from` has published for this rank. Notes an error if that is too long.
QUARRY_SLOW inline void read_part(collective const& of, published_data const& data,
                                  std::uint32_t from, bytes offset, bytes published, void* to,
                                  bytes count, MPI_Datatype type) {
  bytes const room = count * element_size(of.rank, type);
  data.read(from, offset, published < room ? published : room, to, type);
  if (published > room) of.note(MPI_ERR_TRUNCATE);
}

/// Reads a part of each rank's data, the part of rank r at r * `distance`. Returns false if the
/// caller must read part by part: because elements have gaps, or sizes differ, or that is as fast.
[[nodiscard]] QUARRY_SLOW inline bool read_all_parts(collective const& of,
                                                     published_data const& data, void* received,
                                                     bytes received_count,
                                                     MPI_Datatype received_type, bytes part,
                                                     bytes distance) {
  bool const is_simple = is_dense(of.rank, received_type) &&
                         received_count * element_size(of.rank, received_type) == part;
  // A lane that cannot take part has a part of no bytes.
  return read_parts(of, {of.places(), static_cast<char*>(received), is_simple ? part : 0,
                         of.own * distance, data.own_size(), of.size, of.own});
}

}  // namespace quarry::inline QUARRY_ABI::mpi
