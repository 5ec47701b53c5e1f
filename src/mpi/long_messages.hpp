// SPDX-License-Identifier: Apache-2.0
// Messages whose data lies in the extensions of slots.
#pragma once

#include "extension.hpp"
#include "outgoing.hpp"
#include "point_to_point.hpp"

#ifdef __CUDACC__
#include "warp_helpers.cuh"
#endif

namespace quarry::inline QUARRY_ABI::mpi {

/// MPI_Send, or MPI_Isend if `request` is not null, of what does not fit in a slot.
QUARRY_SLOW int send_longer(void const* data, int count, MPI_Datatype type, int to, int tag,
                            MPI_Comm handle, MPI_Request* request);

/// Sends in a slot's extension, if nothing speaks against it. Returns false, and has done nothing,
/// otherwise.
[[nodiscard]] QUARRY_SLOW bool send_for_exchange(void const* data, int count, MPI_Datatype type,
                                                 int to, int tag, MPI_Comm handle);

/// Receives the message that has arrived, is not brief and `is_here`. `data` has room for it.
QUARRY_SLOW int receive_longer(void* data, std::uint32_t size, std::uint32_t source,
                               std::uint32_t tag, MPI_Status* status);

/// The general paths of sends (message_calls.cpp).
QUARRY_SLOW int send_checked(void const* data, int count, MPI_Datatype type, int to, int tag,
                             MPI_Comm handle, mode how, call which, char const* function);
QUARRY_SLOW int isend_checked(void const* data, int count, MPI_Datatype type, int to, int tag,
                              MPI_Comm handle, mode how, call which, MPI_Request* result,
                              char const* function);

/// GPU: begins to load what the rank will read soon.
QUARRY_FAST void prefetch([[maybe_unused]] void const* data, [[maybe_unused]] bytes size) {
#ifdef __CUDA_ARCH__
  constexpr bytes line = 128;
  QUARRY_NO_UNROLL
  for (bytes i = 0; i < size; i += line)
    asm volatile("prefetch.L1 [%0];" ::"l"(static_cast<char const*>(data) + i));
#endif
}

/// Whether other lanes help to copy a message of this size. A function that may call them saves
/// registers first, and that takes longer than to copy some hundred bytes alone.
[[nodiscard]] QUARRY_FAST bool is_for_helpers([[maybe_unused]] bytes size) {
#ifdef __CUDA_ARCH__
  return size >= 256 && warp_helpers::exist();
#else
  return false;
#endif
}

/// Whether extensions have numbered units. On the CPU they have plain bytes, which the slot orders,
/// unless senders of other processes write them.
#ifdef __CUDA_ARCH__
inline constexpr bool has_numbered_extensions = true;
#else
inline constexpr bool has_numbered_extensions = spans_processes;
#endif

/// Writes a message of at most `extended_bytes()` to a slot that is free, and its extension. `head`
/// has no size.
template <bool IsForHelpers>
QUARRY_FAST void write_extended(sender_slot& slot, std::uint32_t target, envelope const& head,
                                char const* data, std::uint32_t size) {
  std::uint64_t* const units =
      slot.way().reach(extensions_of(target).of(slot.ticket() % mail_slots));
  if (!slot.way().is_mapped()) {
    slot.write_long(head, size);
    put_numbered(slot.way(), numbered_units{units, slot.number()}, data, size);
    return note_mail(slot);
  }
#ifdef __CUDA_ARCH__
  slot.write_long(head, size);
  if constexpr (IsForHelpers) {
    run_by_warp({warp_task::kind::store, size, units, const_cast<char*>(data), slot.number()});
  } else {
    store_numbered(numbered_units{units, slot.number()}, data, size, whole_share);
  }
#else
  if constexpr (has_numbered_extensions) {
    store_numbered(numbered_units{units, slot.number()}, data, size, whole_share);
  } else {
    std::memcpy(units, data, size);
  }
  slot.write_long(head, size);
#endif
  note_mail(slot);
}
/// The same for any size.
QUARRY_SLOW inline void write_any_extended(sender_slot& slot, std::uint32_t target,
                                           envelope const& head, char const* data,
                                           std::uint32_t size) {
  if (is_for_helpers(size)) return write_extended<true>(slot, target, head, data, size);
  write_extended<false>(slot, target, head, data, size);
}

/// Copies the data of the long message that has arrived. Does not take the message.
template <bool IsForHelpers>
QUARRY_FAST void read_extended(own_mail_reader const& mails, char* to, std::uint32_t size) {
#ifdef __CUDA_ARCH__
  if constexpr (IsForHelpers) {
    run_by_warp({warp_task::kind::load, size, mails.extension(), to, mails.number()});
  } else {
    load_numbered(numbered_units{mails.extension(), mails.number()}, to, size, whole_share);
  }
#else
  if constexpr (has_numbered_extensions) {
    load_numbered(numbered_units{mails.extension(), mails.number()}, to, size, whole_share);
  } else {
    std::memcpy(to, mails.extension(), size);
  }
#endif
}
/// The same for any size.
QUARRY_SLOW inline void read_any_extended(own_mail_reader const& mails, char* to,
                                          std::uint32_t size) {
  if (is_for_helpers(size)) return read_extended<true>(mails, to, size);
  read_extended<false>(mails, to, size);
}

}  // namespace quarry::inline QUARRY_ABI::mpi
