// SPDX-License-Identifier: Apache-2.0
// Sends and receives of messages that do not fit in a slot, or not in what a receiver looks at. The
// functions call others only at their ends: what lives across a call must be saved first.
#include "long_messages.hpp"

#include "fast_path.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// Sends a message of a plain type that is too long for a slot in its extension, if nothing speaks
/// against it. `ticket` is set if the slot is not free. It is for messages for which helpers copy,
/// or for the others.
template <bool IsForHelpers>
[[nodiscard]] QUARRY_FAST fast_send send_extended(void const* data, int count, MPI_Datatype type,
                                                  int to, int tag, MPI_Comm handle,
                                                  std::uint32_t& ticket) {
  bytes const size = static_cast<bytes>(count) * (static_cast<std::uint32_t>(type) >> 8);
  small_membership at;
  if (count < 0 || small_size(0, type) != 0 || size > extended_bytes() || size <= most_inline ||
      is_for_helpers(size) != IsForHelpers || tag < 0 || !find_membership(self(), handle, at) ||
      static_cast<std::uint32_t>(to) >= at.size)
    return fast_send::refused;
  prefetch(data, size);
  auto target = static_cast<std::uint32_t>(to);
  if (at.shared != nullptr) target = at.shared->world_rank(target, own_rank());
  sender_slot slot{mailbox_of(target), way_to(target)};
  if (!slot.is_free()) {
    ticket = slot.ticket();
    return fast_send::full;
  }
  envelope const head{static_cast<std::uint32_t>(tag), at.rank, at.context << 8};
  write_extended<IsForHelpers>(slot, target, head, static_cast<char const*>(data),
                               static_cast<std::uint32_t>(size));
  return fast_send::sent;
}

/// Does it with a ticket that was drawn.
QUARRY_SLOW int send_extended_with_ticket(void const* data, int count, MPI_Datatype type, int to,
                                          int tag, MPI_Comm handle, std::uint32_t ticket,
                                          call which) {
  rank_state& rank = self();
  small_membership at{};
  (void)find_membership(rank, handle, at);
  auto target = static_cast<std::uint32_t>(to);
  if (at.shared != nullptr) target = at.shared->world_rank(target, own_rank());
  sender_slot slot{mailbox_of(target), way_to(target), ticket};
  wait_for_slot(rank, slot, reason_of(which, to, tag, at.context));
  write_any_extended(slot, target, {static_cast<std::uint32_t>(tag), at.rank, at.context << 8},
                     static_cast<char const*>(data),
                     static_cast<std::uint32_t>(count) * (static_cast<std::uint32_t>(type) >> 8));
  return MPI_SUCCESS;
}

/// The general path, for both functions.
QUARRY_FAST int send_generally(void const* data, int count, MPI_Datatype type, int to, int tag,
                               MPI_Comm handle, MPI_Request* request) {
  return request == nullptr ? send_checked(data, count, type, to, tag, handle, mode::standard,
                                           call::send, "MPI_Send")
                            : isend_checked(data, count, type, to, tag, handle, mode::standard,
                                            call::isend, request, "MPI_Isend");
}

/// Sends by an extension, alone or with helpers, or else by the general path.
template <bool IsForHelpers>
QUARRY_FAST int send_by_extension(void const* data, int count, MPI_Datatype type, int to, int tag,
                                  MPI_Comm handle, MPI_Request* request) {
  std::uint32_t ticket;
  fast_send const result = send_extended<IsForHelpers>(data, count, type, to, tag, handle, ticket);
  if (result == fast_send::refused)
    return send_generally(data, count, type, to, tag, handle, request);
  if (request != nullptr) *request = sent_request;
  return result == fast_send::sent
             ? MPI_SUCCESS
             : send_extended_with_ticket(data, count, type, to, tag, handle, ticket,
                                         request == nullptr ? call::send : call::isend);
}

/// Sends what is too long for the sender to copy alone.
QUARRY_SLOW int send_longest(void const* data, int count, MPI_Datatype type, int to, int tag,
                             MPI_Comm handle, MPI_Request* request) {
  return send_by_extension<true>(data, count, type, to, tag, handle, request);
}

/// Takes the message whose data was copied.
QUARRY_FAST int end_receive(own_mail_reader& mails, std::uint32_t size, std::uint32_t source,
                            std::uint32_t tag, MPI_Status* status) {
  take_message(mails);
  set_status(status, static_cast<std::int32_t>(source), static_cast<std::int32_t>(tag), size);
  return MPI_SUCCESS;
}
QUARRY_SLOW int receive_longest(void* data, std::uint32_t size, std::uint32_t source,
                                std::uint32_t tag, MPI_Status* status) {
  own_mail_reader mails = reader_of(self());
  read_extended<true>(mails, static_cast<char*>(data), size);
  return end_receive(mails, size, source, tag, status);
}
}  // namespace

QUARRY_SLOW int send_longer(void const* data, int count, MPI_Datatype type, int to, int tag,
                            MPI_Comm handle, MPI_Request* request) {
  bytes const size = static_cast<bytes>(count) * (static_cast<std::uint32_t>(type) >> 8);
  if (size > extended_bytes()) return send_generally(data, count, type, to, tag, handle, request);
  return is_for_helpers(size)
             ? send_longest(data, count, type, to, tag, handle, request)
             : send_by_extension<false>(data, count, type, to, tag, handle, request);
}

QUARRY_SLOW bool send_for_exchange(void const* data, int count, MPI_Datatype type, int to, int tag,
                                   MPI_Comm handle) {
  std::uint32_t ticket;
  fast_send result = send_extended<false>(data, count, type, to, tag, handle, ticket);
  if (result == fast_send::refused)
    result = send_extended<true>(data, count, type, to, tag, handle, ticket);
  if (result == fast_send::full)
    (void)send_extended_with_ticket(data, count, type, to, tag, handle, ticket, call::sendrecv);
  return result != fast_send::refused;
}

QUARRY_SLOW int receive_longer(void* data, std::uint32_t size, std::uint32_t source,
                               std::uint32_t tag, MPI_Status* status) {
  if (is_for_helpers(size)) return receive_longest(data, size, source, tag, status);
  own_mail_reader mails = reader_of(self());
  auto* const to = static_cast<char*>(data);
  if (size > most_inline) {
    read_extended<false>(mails, to, size);
  } else {
    copy_all_words(to, size, mails, mails.first_word());
  }
  return end_receive(mails, size, source, tag, status);
}

}  // namespace quarry::inline QUARRY_ABI::mpi
