// SPDX-License-Identifier: Apache-2.0
// Sending and receiving, for MPI's functions and for collectives.
#pragma once

#include "outgoing.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// The two ends of an operation, checked.
struct channel {
  membership* at;
  std::uint32_t context;
};

/// Whether all ranks can read memory that this rank uses. On the GPU a lane's stack is its own. On
/// several GPUs others can read heaps and records, but no constants of the program, of which each
/// GPU has a copy.
[[nodiscard]] QUARRY_HD inline bool is_shared_memory([[maybe_unused]] void const* data) {
#ifdef __CUDA_ARCH__
  if (__isGlobal(data) == 0) return false;
  if (!spans_gpus()) return true;
  auto const offset = static_cast<std::uint64_t>(static_cast<char const*>(data) -
                                                 reinterpret_cast<char const*>(&own_record()));
  return offset < layout().record_bytes || heap_of(data).owns(data);
#else
  return true;
#endif
}

enum class mode : std::uint32_t { standard, synchronous, buffered };

/// Sends a message. Returns what the sender must wait for, with `is_received`, before it changes
/// the buffer; null if it need not wait. `own` is memory for a message that the sender waits for;
/// other lanes can address it. `to` is a rank of the communicator.
[[nodiscard]] QUARRY_SLOW message* start_send(rank_state& rank, channel const& through,
                                              void const* data, bytes count, MPI_Datatype type,
                                              std::int32_t to, std::int32_t tag, mode how,
                                              call which, message& own);
/// After `is_received`: frees what `start_send` has allocated.
QUARRY_SLOW void finish_send(message& own);

/// Sends and waits until the buffer can be reused.
QUARRY_SLOW void send(rank_state& rank, channel const& through, void const* data, bytes count,
                      MPI_Datatype type, std::int32_t to, std::int32_t tag, mode how, call which);

/// Receives and waits. `receive` has data, count, type, source, tag and context.
QUARRY_SLOW void receive(rank_state& rank, request& receive, call which);

/// Receives what a collective sends. Returns an MPI error code.
QUARRY_HD inline int receive_bytes(rank_state& rank, channel const& through, void* data, bytes size,
                                   std::int32_t from, std::int32_t tag, call which) {
  request wanted;
  wanted.what = request::kind::receive;
  wanted.data = data;
  wanted.count = size;
  wanted.type = MPI_BYTE;
  wanted.source = from;
  wanted.tag = tag;
  wanted.context = through.context;
  receive(rank, wanted, which);
  return wanted.error;
}
QUARRY_HD inline void send_bytes(rank_state& rank, channel const& through, void const* data,
                                 bytes size, std::int32_t to, std::int32_t tag, call which) {
  send(rank, through, data, size, MPI_BYTE, to, tag, mode::standard, which);
}

}  // namespace quarry::inline QUARRY_ABI::mpi
