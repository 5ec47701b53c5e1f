// SPDX-License-Identifier: Apache-2.0
// The common case of sends and receives: small messages of basic types.
//
// One thread of a GPU runs about one instruction in six cycles, and a function that calls another
// saves registers first. So these functions call nothing. Where they cannot go on, they say so, and
// their caller ends with a call of the general path.
#pragma once

#include "extension.hpp"
#include "message_parts.hpp"
#include "outgoing.hpp"
#include "requests.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// Copies a few bytes.
QUARRY_FAST void copy_small(char* to, char const* from, std::uint32_t size) {
  auto const either = reinterpret_cast<std::uint64_t>(to) | reinterpret_cast<std::uint64_t>(from);
  std::uint32_t i = 0;
  if (either % 8 == 0) {
    QUARRY_NO_UNROLL
    for (; i + 8 <= size; i += 8)
      *reinterpret_cast<std::uint64_t*>(to + i) = *reinterpret_cast<std::uint64_t const*>(from + i);
  }
  if (either % 4 == 0) {
    QUARRY_NO_UNROLL
    for (; i + 4 <= size; i += 4)
      *reinterpret_cast<std::uint32_t*>(to + i) = *reinterpret_cast<std::uint32_t const*>(from + i);
  }
  QUARRY_NO_UNROLL
  for (; i < size; ++i) to[i] = from[i];
}

/// The same for more bytes, at multiples of 8.
QUARRY_FAST void copy_long_words(char* to, char const* from, std::uint32_t size) {
  std::uint32_t i = 0;
  QUARRY_NO_UNROLL
  for (; i + 32 <= size; i += 32) {
    auto const* const in = reinterpret_cast<std::uint64_t const*>(from + i);
    auto* const out = reinterpret_cast<std::uint64_t*>(to + i);
    std::uint64_t const words[] = {in[0], in[1], in[2], in[3]};
    out[0] = words[0], out[1] = words[1], out[2] = words[2], out[3] = words[3];
  }
  copy_small(to + i, from + i, size - i);
}

/// The i-th word of `size` bytes.
[[nodiscard]] QUARRY_FAST std::uint32_t word_of(char const* data, std::uint32_t size,
                                                std::uint32_t i) {
  if (reinterpret_cast<std::uint64_t>(data) % 4 == 0 && 4 * i + 4 <= size)
    return reinterpret_cast<std::uint32_t const*>(data)[i];
  std::uint32_t word = 0;
  QUARRY_NO_UNROLL
  for (std::uint32_t k = 0; k < 4 && 4 * i + k < size; ++k)
    word |= std::uint32_t{static_cast<unsigned char>(data[4 * i + k])} << 8 * k;
  return word;
}

/// A message of at most this many bytes is in an `arrival` as a whole.
inline constexpr std::uint32_t most_brief = 12;

/// Copies the data of a message of at most `most_brief` bytes.
QUARRY_FAST void copy_brief(char* to, own_mail_reader::arrival const& arrived) {
  std::uint32_t const size = arrived.head.size();
  if ((reinterpret_cast<std::uint64_t>(to) | size) % 4 == 0) {
    auto* const into = reinterpret_cast<std::uint32_t*>(to);
    QUARRY_UNROLL
    for (std::uint32_t i = 0; i < 3; ++i)
      if (4 * i < size) into[i] = arrived.words[i];
    return;
  }
  QUARRY_NO_UNROLL
  for (std::uint32_t i = 0; i < size; ++i) {
    std::uint32_t const data = i < 4   ? arrived.words[0]
                               : i < 8 ? arrived.words[1]
                                       : arrived.words[2];
    to[i] = static_cast<char>(data >> 8 * (i % 4));
  }
}

/// Copies the data of a longer message in the slot. `first` is its first word.
QUARRY_FAST void copy_all_words(char* to, std::uint32_t size, own_mail_reader const& mails,
                                std::uint32_t first) {
  numbered_units const later{mails.later_units(), mails.number()};
  if ((reinterpret_cast<std::uint64_t>(to) | size) % 4 == 0) {
    later.load<4, 3>(to + 4, size - 4, whole_share);
    *reinterpret_cast<std::uint32_t*>(to) = first;
    return;
  }
  later.load<1, 1>(to + 4, size - 4, whole_share);
  QUARRY_NO_UNROLL
  for (std::uint32_t i = 0; i < 4; ++i) to[i] = static_cast<char>(first >> 8 * i);
}

/// Copies the data of a message in the slot.
QUARRY_FAST void copy_words(char* to, own_mail_reader const& mails,
                            own_mail_reader::arrival const& arrived) {
  std::uint32_t const size = arrived.head.size();
  if (size <= most_brief) return copy_brief(to, arrived);
  copy_all_words(to, size, mails, arrived.words[0]);
}

/// Whether many ranks look at their mailboxes at once, so that each load counts.
[[nodiscard]] QUARRY_FAST bool is_crowded() { return !is_on_host() && layout().shift == 0; }

/// Lets the other rank of a warp that has two of them run: it may have to send what this rank looks
/// for. In warps of more ranks that takes longer than it gains.
QUARRY_FAST void let_other_rank_run() {
#ifdef __CUDA_ARCH__
  if (layout().shift == least_shared_shift) __nanosleep(0);
#endif
}

inline constexpr std::uint32_t not_small = ~std::uint32_t{0};

/// The size of the elements; `not_small` if they are not of the fast path's kind: at most `most`,
/// and of a type that mpi.h names, has no gaps, and has at most 8 bytes.
[[nodiscard]] QUARRY_FAST std::uint32_t small_size(int count, MPI_Datatype type,
                                                   std::uint32_t most = most_inline) {
  auto const extent = static_cast<std::uint32_t>(type) >> 8;
  auto const number = static_cast<std::uint32_t>(type) & 0xff;
  bool const is_small = static_cast<std::uint32_t>(count) <= most && extent - 1 < 8 &&
                        (extent & (extent - 1)) == 0 && number - 1 < last_number(extent);
  return is_small ? static_cast<std::uint32_t>(count) * extent : not_small;
}

/// The caller's place in a communicator.
struct small_membership {
  std::uint32_t size;
  std::uint32_t rank;
  std::uint32_t context;
  communicator const* shared;  // null: the world
};
/// Returns whether there is a communicator with this handle. For the world nothing is loaded.
[[nodiscard]] QUARRY_FAST bool find_membership(rank_state& rank, MPI_Comm handle,
                                               small_membership& found) {
  if (handle == MPI_COMM_WORLD) {
    found = {layout().size, own_rank(), 0, nullptr};
    return true;
  }
  auto const index = static_cast<std::uint32_t>(handle - 1);
  if (index >= rank.memberships) return false;
  membership const& at = rank.member_of[index];
  found = {at.size, at.rank, at.context, at.shared};
  return at.shared != nullptr;
}

/// How often the fast path looks before the general path waits. The loops are bounded: lanes whose
/// message has arrived wait at the loop's end for the other lanes of the warp, and mostly all
/// continue together. Otherwise they run one after another until the next meeting.
inline constexpr std::uint32_t most_fast_looks = is_on_host() ? 3 : 64;

/// The same for a rank that has nothing to do but to take the message that it looks for. Where at
/// most two ranks share a warp it looks for some milliseconds, because a message takes twice as
/// long through ranks that wait in the general path. So one late rank delayed its followers more
/// and more: a delay of 0.1 ms was 1 ms after 300 steps with a neighbour.
[[nodiscard]] QUARRY_FAST std::uint32_t looks_for_message([[maybe_unused]] rank_state const& rank) {
#ifdef __CUDA_ARCH__
  if (layout().shift >= least_shared_shift && rank.schedules == nullptr) return 4096;
#endif
  return most_fast_looks;
}

/// Counts a long wait in the fast path, as the general path counts its waits: `--tune` compares
/// placements by these counts.
QUARRY_FAST void note_long_wait([[maybe_unused]] rank_state& rank,
                                [[maybe_unused]] std::uint32_t looks) {
  if (!is_on_host() && looks >= most_fast_looks) ++rank.steps;
}

/// What became of a fast send.
enum class fast_send : std::uint32_t {
  refused,  // nothing was done: the general path must send
  full,     // a ticket was drawn; its slot is not free yet
  sent
};

/// A small message on its way.
struct small_message {
  std::uint32_t size;
  envelope head;
  char const* data;

  QUARRY_FAST void write(sender_slot& slot) const {
    slot.write(head, (size + 3) / 4, [&](std::uint32_t i) { return word_of(data, size, i); });
    note_mail(slot);
  }
};

/// Whether the message is of the fast path's kind. Fills in the message and the receiver.
[[nodiscard]] QUARRY_FAST bool is_small_send(rank_state& rank, void const* data, int count,
                                             MPI_Datatype type, int to, int tag, MPI_Comm handle,
                                             small_message& made, std::uint32_t& target) {
  made.size = small_size(count, type);
  small_membership at;
  if (made.size > most_inline || tag < 0 || !find_membership(rank, handle, at) ||
      static_cast<std::uint32_t>(to) >= at.size)
    return false;
  made.head = {static_cast<std::uint32_t>(tag), at.rank, at.context << 8 | made.size};
  made.data = static_cast<char const*>(data);
  target = static_cast<std::uint32_t>(to);
  if (at.shared != nullptr) target = at.shared->world_rank(target, own_rank());
  return true;
}

/// Sends a small message, if nothing speaks against it. `ticket` is set if the slot is not free.
[[nodiscard]] QUARRY_FAST fast_send send_fast(void const* data, int count, MPI_Datatype type,
                                              int to, int tag, MPI_Comm handle,
                                              std::uint32_t& ticket) {
  small_message made;
  std::uint32_t target;
  if (!is_small_send(self(), data, count, type, to, tag, handle, made, target))
    return fast_send::refused;
  sender_slot slot{mailbox_of(target), way_to(target)};
  QUARRY_NO_UNROLL
  for (std::uint32_t looks = 1; looks < most_fast_looks && !slot.is_free(); ++looks) slot.look();
  if (!slot.is_free()) {
    ticket = slot.ticket();
    return fast_send::full;
  }
  made.write(slot);
  return fast_send::sent;
}

/// What a fast receive asks for.
struct plain_receive {
  bytes room;
  std::uint32_t context;
  char* data;
  int from;
  int tag;
};

/// Whether the receive is of the fast path's kind: of a type of at most 8 bytes without gaps, while
/// no other receive is posted.
[[nodiscard]] QUARRY_FAST bool is_plain_receive(rank_state& rank, void* data, int count,
                                                MPI_Datatype type, int from, int tag,
                                                MPI_Comm handle, plain_receive& wanted) {
  small_membership at;
  if (rank.posted_first != nullptr || count < 0 || small_size(0, type) != 0 || tag < MPI_ANY_TAG ||
      !find_membership(rank, handle, at) || from < MPI_ANY_SOURCE ||
      from >= static_cast<int>(at.size))
    return false;
  wanted = {static_cast<bytes>(count) * (static_cast<std::uint32_t>(type) >> 8), at.context,
            static_cast<char*>(data), from, tag};
  return true;
}

[[nodiscard]] QUARRY_FAST bool is_wanted(plain_receive const& wanted, envelope const& head) {
  return head.context() == wanted.context &&
         (wanted.from == MPI_ANY_SOURCE || wanted.from == static_cast<std::int32_t>(head.source)) &&
         (wanted.tag == MPI_ANY_TAG || wanted.tag == static_cast<std::int32_t>(head.tag));
}

/// Whether the message is in the slot and its extension, and its receiver need acquire nothing.
[[nodiscard]] QUARRY_FAST bool is_here(own_mail_reader::arrival const& arrived) {
  return (arrived.head.about & (envelope::is_elsewhere | envelope::is_ordered)) == 0;
}
[[nodiscard]] QUARRY_FAST bool is_brief(own_mail_reader::arrival const& arrived) {
  return is_here(arrived) && arrived.head.size() <= most_brief;
}

/// Receives the message that has arrived. Returns false, and has done nothing, if it is not wanted
/// or not brief.
[[nodiscard]] QUARRY_FAST bool take_fast(own_mail_reader& mails,
                                         own_mail_reader::arrival const& arrived,
                                         plain_receive const& wanted, MPI_Status* status) {
  envelope const& head = arrived.head;
  std::uint32_t const size = head.size();
  if (!is_wanted(wanted, head) || size > wanted.room || !is_brief(arrived)) return false;
  copy_brief(wanted.data, arrived);
  take_message(mails);
  set_status(status, static_cast<std::int32_t>(head.source), static_cast<std::int32_t>(head.tag),
             size);
  return true;
}

/// Copies the message in the slot to the list's kind of message.
template <std::uint32_t Most>
QUARRY_FAST void fill_node(message* node, own_mail_reader const& mails,
                           own_mail_reader::arrival const& arrived) {
  node->belongs_to = message::owner::node;
  node->head = arrived.head;
  node->size = arrived.head.size();
  node->data = node->inline_data();
  if constexpr (Most <= most_brief) {
    copy_brief(node->inline_data(), arrived);
  } else {
    copy_words(node->inline_data(), mails, arrived);
  }
}

/// What became of an attempt to receive.
enum class fast_receive : std::uint32_t {
  none,       // there is no message for it
  refused,    // there is one, and the general path must take it
  is_longer,  // there is one that fits and is not brief, and `is_here`
  taken
};

/// Puts the message that has arrived into the list of unexpected messages, unless that needs memory
/// of the heap, or the message is longer than `Most`. Returns false, and has done nothing, then.
template <std::uint32_t Most>
[[nodiscard]] QUARRY_FAST bool set_aside(rank_state& rank, own_mail_reader& mails,
                                         own_mail_reader::arrival const& arrived) {
  message* kept = rank.spare;
  if (is_part(arrived.head)) return false;
  if ((arrived.head.about & envelope::is_elsewhere) != 0) {
    mails.acquire();
    kept = message_elsewhere(arrived);
  } else {
    if (kept == nullptr || !is_here(arrived) || arrived.head.size() > Most) return false;
    rank.spare = kept->later;
    --rank.spares;
    fill_node<Most>(kept, mails, arrived);
  }
  take_message(mails);
  append_unexpected(rank, kept);
  return true;
}

/// Takes the first unexpected message that matches, if it was in a slot and fits. `done` is its
/// copy, and becomes a spare with `make_spare`.
[[nodiscard]] QUARRY_FAST fast_receive take_unexpected(rank_state& rank,
                                                       plain_receive const& wanted,
                                                       message*& done) {
  message* previous = nullptr;
  message* found = rank.unexpected_first;
  QUARRY_NO_UNROLL
  while (found != nullptr && !is_wanted(wanted, found->head)) {
    previous = found;
    found = found->later;
  }
  if (found == nullptr) return fast_receive::none;
  if (found->belongs_to != message::owner::node || found->size > wanted.room ||
      found->size > most_inline || rank.spares == most_spares)
    return fast_receive::refused;
  (previous != nullptr ? previous->later : rank.unexpected_first) = found->later;
  if (rank.unexpected_last == found) rank.unexpected_last = previous;
  copy_small(wanted.data, found->inline_data(), static_cast<std::uint32_t>(found->size));
  done = found;
  return fast_receive::taken;
}

/// Receives a small message that came before its receive.
[[nodiscard]] QUARRY_FAST fast_receive receive_unexpected(rank_state& rank,
                                                          plain_receive const& wanted,
                                                          MPI_Status* status) {
  message* done = nullptr;
  fast_receive const result = take_unexpected(rank, wanted, done);
  if (result != fast_receive::taken) return result;
  set_status(status, static_cast<std::int32_t>(done->head.source),
             static_cast<std::int32_t>(done->head.tag), done->size);
  make_spare(rank, done);
  return result;
}

/// A message that has arrived.
struct longer_message {
  std::uint32_t source;
  std::uint32_t tag;
  std::uint32_t size;
};

/// Receives a brief message if it arrives soon. Otherwise nothing has been received; `found` is set
/// if the result is `is_longer`.
[[nodiscard]] QUARRY_FAST fast_receive receive_soon(rank_state& rank, plain_receive const& wanted,
                                                    MPI_Status* status, longer_message& found) {
  if (rank.unexpected_first != nullptr) {
    fast_receive const before = receive_unexpected(rank, wanted, status);
    if (before != fast_receive::none) return before;
  }
  own_mail_reader mails = reader_of(rank);
  std::uint32_t taken = mails.taken();
  std::uint32_t const most_looks = looks_for_message(rank);
  QUARRY_NO_UNROLL
  for (std::uint32_t looks = 0; looks < most_looks; ++looks) {
    own_mail_reader::arrival arrived;
    if (!mails.look(arrived, taken, is_crowded())) {
      if (looks == 0) return_slots(mails);
      if (looks >= most_fast_looks) let_other_rank_run();
      continue;
    }
    if (take_fast(mails, arrived, wanted, status)) {
      note_long_wait(rank, looks);
      return fast_receive::taken;
    }
    if (is_wanted(wanted, arrived.head)) {
      if (!is_here(arrived) || arrived.size() > wanted.room) return fast_receive::refused;
      found = {arrived.head.source, arrived.head.tag, arrived.size()};
      return fast_receive::is_longer;
    }
    if (!set_aside<most_brief>(rank, mails, arrived)) return fast_receive::refused;
    ++taken;
  }
  return fast_receive::none;
}

/// Begins a receive of a plain type, if nothing speaks against it.
[[nodiscard]] QUARRY_FAST bool irecv_fast(rank_state& rank, void* data, int count,
                                          MPI_Datatype type, int from, int tag, MPI_Comm handle,
                                          MPI_Request* result) {
  small_membership at;
  if (count < 0 || small_size(0, type) != 0 || tag < MPI_ANY_TAG ||
      !find_membership(rank, handle, at) || from < MPI_ANY_SOURCE ||
      from >= static_cast<int>(at.size) || rank.spare_request == nullptr)
    return false;
  message* done = nullptr;
  plain_receive const wanted{static_cast<bytes>(count) * (static_cast<std::uint32_t>(type) >> 8),
                             at.context, static_cast<char*>(data), from, tag};
  if (rank.unexpected_first != nullptr &&
      take_unexpected(rank, wanted, done) == fast_receive::refused)
    return false;
  request* const made = take_spare_request(rank, result);
  made->what = request::kind::receive;
  made->is_done = 0;
  made->next = nullptr;
  made->data = data;
  made->count = static_cast<std::uint64_t>(count);
  made->type = type;
  made->source = from;
  made->tag = tag;
  made->context = at.context;
  made->communicator = handle;
  made->error = MPI_SUCCESS;
  made->freed = request::handle_kind::none;
  made->sent = nullptr;
  if (done == nullptr) {
    append_posted(rank, *made);
    return true;
  }
  made->source = static_cast<std::int32_t>(done->head.source);
  made->tag = static_cast<std::int32_t>(done->head.tag);
  made->size = done->size;
  made->is_done = 1;
  make_spare(rank, done);
  return true;
}

/// Gives a message of at most `Most` bytes in the slot to the first posted receive that matches, if
/// it is plain and the message fits.
template <std::uint32_t Most>
[[nodiscard]] QUARRY_FAST fast_receive receive_posted(rank_state& rank, own_mail_reader& mails,
                                                      own_mail_reader::arrival const& arrived) {
  request* previous = nullptr;
  request* posted = rank.posted_first;
  QUARRY_NO_UNROLL
  while (posted != nullptr && !matches(*posted, arrived.head)) {
    previous = posted;
    posted = posted->next;
  }
  if (posted == nullptr) return fast_receive::none;
  std::uint32_t const size = arrived.head.size();
  if (posted->freed != request::handle_kind::none || !is_here(arrived) || size > Most ||
      !is_plain(posted->type) ||
      size > posted->count * (static_cast<std::uint32_t>(posted->type) >> 8))
    return fast_receive::refused;
  (previous != nullptr ? previous->next : rank.posted_first) = posted->next;
  if (rank.posted_last == posted) rank.posted_last = previous;
  posted->source = static_cast<std::int32_t>(arrived.head.source);
  posted->tag = static_cast<std::int32_t>(arrived.head.tag);
  posted->size = size;
  if constexpr (Most <= most_brief) {
    copy_brief(static_cast<char*>(posted->data), arrived);
  } else {
    copy_words(static_cast<char*>(posted->data), mails, arrived);
  }
  posted->is_done = 1;
  take_message(mails);
  return fast_receive::taken;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
