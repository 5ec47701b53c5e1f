// SPDX-License-Identifier: Apache-2.0
#include "point_to_point.hpp"

#include "buffered_sends.hpp"
#include "long_messages.hpp"
#include "message_parts.hpp"
#include "signatures.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

QUARRY_SLOW message* start_send(rank_state& rank, channel const& through, void const* data,
                                bytes count, MPI_Datatype type, std::int32_t to, std::int32_t tag,
                                mode how, call which, message& own) {
  bytes const size = count * element_size(rank, type);
  std::uint32_t const target =
      through.at->shared->world_rank(static_cast<std::uint32_t>(to), rank.rank);
  envelope const head{static_cast<std::uint32_t>(tag), through.at->rank, through.context << 8};
  wait_reason const reason = reason_of(which, to, tag, through.context);
  bool const is_ordered = shares_memory(which);
  if (size <= most_inline && how != mode::synchronous) {
    alignas(8) char packed[most_inline];
    pack(rank, packed, data, count, type);
    sender_slot slot{mailbox_of(target), way_to(target)};
    if (!slot.is_free()) wait_for_slot(rank, slot, reason);
    auto const word = [&](std::uint32_t i) {
      return *reinterpret_cast<std::uint32_t const*>(packed + 4 * i);
    };
    std::uint32_t const words = (static_cast<std::uint32_t>(size) + 3) / 4;
    envelope in_slot{head.tag, head.source, head.about | static_cast<std::uint32_t>(size)};
    if (is_ordered && is_near(target)) {
      in_slot.about |= envelope::is_ordered;
      slot.write_ordered(in_slot, words, word);
    } else {
      slot.write(in_slot, words, word);
    }
    note_mail(slot);
    return nullptr;
  }
  if (size <= extended_bytes() && how != mode::synchronous && is_dense(rank, type) && !is_ordered) {
    sender_slot slot{mailbox_of(target), way_to(target)};
    if (!slot.is_free()) wait_for_slot(rank, slot, reason);
    write_any_extended(slot, target, head, static_cast<char const*>(data),
                       static_cast<std::uint32_t>(size));
    return nullptr;
  }
#ifdef QUARRY_MPI_PROCESSES
  if (!is_near(target))
    return send_in_parts(rank, target, head, data, count, type, how == mode::synchronous, reason,
                         own);
#endif
  bool const is_copied = size <= most_eager || how == mode::buffered || !is_shared_memory(data) ||
                         !is_dense(rank, type);
  message* sent = &own;
  if (how == mode::synchronous || !is_copied) {
    own.belongs_to = message::owner::sender;
    own.is_taken = 0;
    own.data = data;
    own.later = nullptr;
    own.capacity = is_copied ? 1 : 0;
    if (is_copied)
      own.data =
          wait_for_memory(rank, reason, [&] { return static_cast<char*>(allocate(size + 1)); });
  } else {
    bool const is_in_buffer = how == mode::buffered && size > most_eager;
    sent = wait_for_memory(rank, reason, [&] {
      return is_in_buffer ? new_buffered(rank, size) : new_outgoing(rank, size);
    });
  }
  if (is_copied) pack(rank, static_cast<char*>(const_cast<void*>(sent->data)), data, count, type);
  sent->size = size;
  sent->head = head;
  post(rank, target, *sent, reason);
  return sent == &own ? sent : nullptr;
}

QUARRY_SLOW void finish_send(message& own) {
  if (own.is_signed()) return finish_signed_send(own);
  if (own.capacity != 0) release(const_cast<void*>(own.data));
}

QUARRY_SLOW void send(rank_state& rank, channel const& through, void const* data, bytes count,
                      MPI_Datatype type, std::int32_t to, std::int32_t tag, mode how, call which) {
  message* const sent =
      start_send(rank, through, data, count, type, to, tag, how, which, rank.sent);
  rank.send_waits = sent != nullptr ? 1 : 0;
  if (sent == nullptr) return;
  wait_until(rank, reason_of(which, to, tag, through.context), [&] { return is_received(*sent); });
  finish_send(*sent);
}

QUARRY_SLOW void receive(rank_state& rank, request& wanted, call which) {
  begin_receive(rank, wanted);
  if (wanted.is_done != 0) return;
  wait_for_receive(rank, reason_of(which, wanted.source, wanted.tag, wanted.context), wanted);
}

}  // namespace quarry::inline QUARRY_ABI::mpi
