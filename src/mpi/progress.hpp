// SPDX-License-Identifier: Apache-2.0
// Matching of messages and receives, and waiting.
#pragma once

#include "calls.hpp"
#include "errors.hpp"
#include "seat.hpp"
#include "types.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// An operation that has begun. A blocking call keeps it on its stack: only its rank uses it.
struct request {
  enum class kind : std::uint32_t {
    none,
    send,
    receive,
    probe,        // asks for a message that stays where it is; `until` of `progress`
    cancelled,    // a receive that MPI_Cancel has ended
    pair,         // a receive and a send, or one of both that is persistent (operation_pair.hpp)
    generalized,  // the program's own (generalized_requests.cpp)
    collective    // (schedule.hpp)
  } what = kind::none;
  enum class handle_kind : std::uint32_t { none, request, communicator };
  static constexpr std::uint32_t done_by_cancel = 2;  // of `is_done`
  std::uint32_t is_done = 0;
  request* next = nullptr;  // in the list of posted receives
  void* data = nullptr;     // a buffer; of other kinds: the operation
  std::uint64_t count = 0;  // send: the receiver, a rank of the world
  MPI_Datatype type = 0;
  std::int32_t source = 0;
  std::int32_t tag = 0;
  std::uint32_t context = 0;
  MPI_Comm communicator = MPI_COMM_NULL;  // for errors of requests with a handle
  std::int32_t error = MPI_SUCCESS;
  handle_kind freed = handle_kind::none;         // `request`: nobody waits for the operation
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;  // of its communicator, if that is freed
  bytes size = 0;                                // of the message
  message* sent = nullptr;                       // send: what the receiver has not got yet
  MPI_Request handle = MPI_REQUEST_NULL;         // kept while the request is spare
  std::uint32_t is_persistent = 0;  // MPI_Start begins it, as often as the program likes
  std::uint32_t is_active = 1;      // it has begun, and no call has completed it
};

/// Allocates memory of the world's heap; null if there is none.
[[nodiscard]] QUARRY_SLOW void* allocate(bytes size);
QUARRY_SLOW void release(void* memory);
/// Frees the messages that the rank keeps for reuse, up to 40 KB. For allocations that fail.
/// Returns whether there were any.
QUARRY_SLOW bool release_spares(rank_state& rank);
/// Called after the heap has returned null: frees the rank's spares and tries again, then asks the
/// heaps of other GPUs. Ranks that wait free theirs soon.
[[nodiscard]] QUARRY_SLOW void* allocate_despite_shortage(bytes size);
QUARRY_SLOW void help_in_shortage(rank_state& rank, std::uint32_t shortages);

/// Ends the calling rank's thread. Does not return.
[[noreturn]] QUARRY_SLOW void end_rank(std::int32_t code);

/// CPU: says that something happened for which a rank may wait. (X) synchronizes with (Y): a rank
/// that looks after it has seen the count finds what happened before.
QUARRY_HD inline void note_activity() {
#ifndef __CUDA_ARCH__
  auto const* const lane = simt::current_lane;
  std::uint64_t& count = the_world().activity[lane == nullptr ? 0 : lane->thread()].count;
  (void)simt::atomic_ref<std::uint64_t>{count}.fetch_add(1, simt::release);  // (X)
#endif
}

/// CPU: says that a message has been written to the slot, and lets its receiver look.
QUARRY_FAST void note_mail([[maybe_unused]] sender_slot const& slot) {
#ifndef __CUDA_ARCH__
  note_activity();
  if (!slot.way().is_near()) return;  // ranks of several processes do not park
  simt::wake(static_cast<std::uint64_t>(&slot.mailbox() - layout().mailboxes));
#endif
}

/// Moves all messages of the mailbox to the receives that match them, or to the list of unexpected
/// messages. Waits of the general path call it, so that a rank that waits in one call serves its
/// other receives. Ends earlier if the receive `until` is done: a rank that takes messages of later
/// steps of a program lets their senders run further ahead, and copies more of them. If `until` is
/// a probe, it is done when its message is the next one, which stays in the mailbox: a receive will
/// take it from there. If the heap has no memory, a message stays in the mailbox, and is counted in
/// `looks_without_memory`. Looks at `most` messages at most.
QUARRY_SLOW void progress(rank_state& rank, request* until = nullptr,
                          std::uint32_t most = ~std::uint32_t{0});

/// CPU: how often something has happened for which a rank may wait. In programs of several
/// processes, the begin of a round (process_states.hpp) counts, too: ranks look again after it.
std::uint64_t sum_of_activity();
[[nodiscard]] QUARRY_HD inline std::uint64_t activity_now() {
#ifdef __CUDACC__
  return 0;
#else
  return sum_of_activity();
#endif
}

/// The calling rank's end of its mailbox.
[[nodiscard]] QUARRY_FAST own_mail_reader reader_of(rank_state& rank) {
  return {mailbox_of(rank.rank), rank.position, extensions_of(rank.rank)};
}

/// Takes the message, and returns slots if half of them are used. A sender may wait for a slot.
QUARRY_FAST void take_message(own_mail_reader& mails) {
  mails.take();
  note_activity();
}
/// Returns the slots of messages that were taken, before the rank waits.
QUARRY_FAST void return_slots(own_mail_reader& mails) {
  if (!mails.has_slots_to_return()) return;
  mails.return_slots();
  note_activity();
}

/// Whether elements of the type lie in a buffer as in a message.
[[nodiscard]] QUARRY_HD inline bool is_plain(MPI_Datatype type) {
  return is_basic(type) && !has_gap(type);
}

/// Whether the receive matches the message.
[[nodiscard]] QUARRY_HD inline bool matches(request const& wanted, envelope const& arrived) {
  return wanted.context == arrived.context() &&
         (wanted.source == MPI_ANY_SOURCE ||
          wanted.source == static_cast<std::int32_t>(arrived.source)) &&
         (wanted.tag == MPI_ANY_TAG || wanted.tag == static_cast<std::int32_t>(arrived.tag));
}

/// The message whose address is in the slot.
[[nodiscard]] QUARRY_HD inline message* message_elsewhere(own_mail_reader::arrival const& arrived) {
  return reinterpret_cast<message*>(std::uint64_t{arrived.words[1]} << 32 | arrived.words[0]);
}

/// Says that the receiver does not need the message any more.
QUARRY_SLOW void finish_message(rank_state& rank, message* received);

/// Adds a receive to those that no message has matched yet.
QUARRY_FAST void append_posted(rank_state& rank, request& receive) {
  (rank.posted_last != nullptr ? rank.posted_last->next : rank.posted_first) = &receive;
  rank.posted_last = &receive;
}

/// Adds a message that no receive waits for.
QUARRY_HD inline void append_unexpected(rank_state& rank, message* arrived) {
  arrived->later = nullptr;
  (rank.unexpected_last != nullptr ? rank.unexpected_last->later : rank.unexpected_first) = arrived;
  rank.unexpected_last = arrived;
}

/// A rank keeps this many messages that were unexpected, for reuse.
inline constexpr std::uint32_t most_spares = 16;

/// And this many that were too long for a slot.
inline constexpr std::uint32_t most_long_spares = 4;

/// The memory of messages that ranks keep for reuse: 2^k bytes, so that few sizes replace each
/// other.
[[nodiscard]] QUARRY_HD inline bytes message_capacity(bytes size) {
  bytes capacity = 256;
  while (capacity < size) capacity *= 2;
  return capacity;
}

/// Keeps an unexpected message for reuse, after its receive.
QUARRY_FAST void make_spare(rank_state& rank, message* received) {
  received->later = rank.spare;
  rank.spare = received;
  ++rank.spares;
}

/// The first unexpected message that matches. Removes it from the list if `takes` is true.
[[nodiscard]] QUARRY_SLOW message* find_unexpected(rank_state& rank, request const& wanted,
                                                   bool takes);

/// Begins a receive. Afterwards it is done or in the list of posted receives.
QUARRY_SLOW void begin_receive(rank_state& rank, request& receive);

/// Gives a message that is in no list to a receive that is in no list, and completes the receive.
QUARRY_SLOW void receive_message(rank_state& rank, request& receive, message* matched);

#ifdef QUARRY_MPI_PROCESSES
/// The first receive that waits for the message, no longer in the list, if it can get the bytes as
/// they are and has room for them; else null, and nothing has changed.
[[nodiscard]] QUARRY_SLOW request* take_direct_receive(rank_state& rank, envelope const& head,
                                                       bytes size);
/// Completes a receive that is in no list and whose buffer has the data.
QUARRY_SLOW void complete_direct_receive(rank_state& rank, request& receive, envelope const& head,
                                         bytes size);
/// Gives the message to the first receive that waits for it, or to the list of unexpected messages.
QUARRY_SLOW void match_message(rank_state& rank, message* arrived);
#endif

[[nodiscard]] QUARRY_HD constexpr bool is_on_host() { return !simt::is_on_gpu(); }

/// On the GPU most waits are short, and each look at other words would make them longer.
inline constexpr std::uint32_t polls_before_idle = is_on_host() ? 1 : 32;

#ifdef QUARRY_MPI_PROCESSES
/// Ends the ranks of this process if another process has aborted the program.
QUARRY_SLOW void look_for_abort_elsewhere();
#endif

/// Whether the program was aborted: the rank must end soon.
[[nodiscard]] QUARRY_FAST bool is_aborted() {
#ifdef QUARRY_MPI_PROCESSES
  look_for_abort_elsewhere();
#endif
  return simt::atomic_ref<std::uint32_t>{the_world().aborted}.load(simt::relaxed) != 0;
}

/// Called by a rank that waits: frees its spares if an allocation of any rank has failed since.
QUARRY_HD inline void look_for_shortage(rank_state& rank) {
  std::uint32_t const shortages =
      simt::atomic_ref<std::uint32_t>{the_world().shortages}.load(simt::relaxed);
  if (shortages != rank.shortages_seen) help_in_shortage(rank, shortages);
}

/// Called by a rank that asks and does not wait: lets other ranks run. Ends the rank if the program
/// was aborted.
QUARRY_SLOW void yield_rank();

/// Ends a call that looks for messages, has found nothing, and does not wait: lets other ranks run.
/// Programs repeat such calls, and no deadlock is found while they do. So the call fails if the
/// heap has been full for many of them.
QUARRY_SLOW int end_look(rank_state& rank, MPI_Comm communicator, char const* function);

/// CPU: whether a rank that waits says at this poll that it has found nothing. It then reads the
/// activity before it looks.
[[nodiscard]] QUARRY_HD constexpr bool is_reported(std::uint32_t polls) {
  return is_on_host() && polls % 4 == 3;
}

/// Called by a rank that waits and found nothing, the `polls`-th time. `activity` was the world's
/// before it looked, if the poll `is_reported`. Ends the rank if the program was aborted.
QUARRY_SLOW void idle(rank_state& rank, wait_reason const& reason, std::uint64_t activity,
                      std::uint32_t polls);
/// CPU: whether a rank that others wake is left out until then. Only where one thread runs all
/// ranks: another thread, or process, cannot wake a fiber of this one.
[[nodiscard]] QUARRY_HD inline bool may_park() {
  return is_on_host() && !spans_processes && the_world().threads == 1;
}

#ifndef __CUDA_ARCH__
/// CPU: the same for a rank that may park.
void idle_until_woken(rank_state& rank, wait_reason const& reason, std::uint64_t activity,
                      std::uint32_t polls);
#endif
QUARRY_SLOW void end_wait(rank_state& rank);

/// Waits until `has_come()`. `reason` is shown if all ranks wait. The count of polls goes on with
/// `polls_before_idle` after 2^32. `is_woken`: as in `wait_for_mail`.
template <class Condition>
QUARRY_HD void poll_until(rank_state& rank, wait_reason const& reason, Condition const& has_come,
                          [[maybe_unused]] bool is_woken = false) {
  for (std::uint32_t polls = 0;; polls = polls + 1 != 0 ? polls + 1 : polls_before_idle) {
    bool const parks = is_woken && may_park();
    std::uint64_t const activity = parks || is_reported(polls) ? activity_now() : 0;
    if (has_come()) {
      if (polls >= polls_before_idle) end_wait(rank);
      return;
    }
#ifndef __CUDA_ARCH__
    if (parks) {
      idle_until_woken(rank, reason, activity, polls);
      continue;
    }
#endif
    if (polls % polls_before_idle == polls_before_idle - 1) idle(rank, reason, activity, polls);
  }
}

#ifdef __CUDA_ARCH__
/// The time between two looks of a rank that has waited long. The more ranks look at their
/// mailboxes, the more each look delays what the other ranks do with the GPU's memory: 262,144
/// ranks nap 5 us.
[[nodiscard]] QUARRY_FAST std::uint32_t nap_of_long_wait() {
  constexpr std::uint32_t ranks_per_ns = 50;
  return layout().size / ranks_per_ns;
}

/// Whether a message to this rank begins to arrive within so many looks.
[[nodiscard]] QUARRY_FAST bool await_message(rank_state& rank, std::uint32_t looks, bool naps) {
  own_mail_reader const mails = reader_of(rank);
  if (!looks_together()) return mails.awaits_message(looks);
  auto const next = mails.next_message();
  return await_word(next.word, next.value, looks, naps ? nap_of_long_wait() : 0);
}
#endif

/// Waits until `has_come()`, which nothing but a message to this rank makes true. On the CPU the
/// scheduler leaves the rank out until one is sent: 100,000 ranks that look in turn would make each
/// step of another rank 100,000 times as long. On the GPU the rank looks at its mailbox, and after
/// some time only seldom at other words. The count of polls goes on with `brief_polls` after 2^32.
template <class Condition>
QUARRY_HD void poll_mailbox(rank_state& rank, wait_reason const& reason,
                            Condition const& has_come) {
#ifndef __CUDA_ARCH__
  poll_until(rank, reason, has_come, true);
#else
  constexpr std::uint32_t brief_polls = 256;
  constexpr std::uint32_t looks_after_them = 256;
  std::uint32_t polls = 0;
  while (!has_come()) {
    bool const is_brief = polls < brief_polls;
    if (await_message(rank, is_brief ? polls_before_idle : looks_after_them, !is_brief))
      ++polls;
    else
      polls = (polls | (polls_before_idle - 1)) + 1;
    if (polls == 0) polls = brief_polls;
    if (polls % polls_before_idle == 0) idle(rank, reason, 0, polls - 1);
  }
  if (polls >= polls_before_idle) end_wait(rank);
#endif
}

/// Long work is no wait, also if a wait has led to it: the launcher looks for ranks that wait. For
/// the time of work on `size` bytes.
class long_work {
 public:
  QUARRY_HD long_work(rank_state& rank, bytes size)
      : rank_{rank}, waiting_{size >= least ? rank.waiting.call : 0} {
    if (waiting_ != 0) rank.waiting.call = 0;
  }
  QUARRY_HD ~long_work() {
    if (waiting_ != 0) rank_.waiting.call = waiting_;
  }
  long_work(long_work const&) = delete;

 private:
  static constexpr bytes least = bytes{64} << 10;
  rank_state& rank_;
  std::uint32_t waiting_;
};

/// Advances the rank's collective operations that have begun (schedule.hpp).
QUARRY_SLOW bool advance_schedules(rank_state& rank);

/// Takes messages, and advances collective operations. For calls that look and do not wait.
/// `until`: as in `progress`, but these operations may need all messages.
QUARRY_SLOW void look_around(rank_state& rank, request* until = nullptr);

/// Waits until `is_done()` for something that other ranks do whenever they make progress: that they
/// free memory, for example. Steps of collective operations may wait so.
template <class Condition>
QUARRY_HD void wait_for_others(rank_state& rank, wait_reason const& reason,
                               Condition const& is_done) {
  own_mail_reader const mails = reader_of(rank);
  poll_until(rank, reason, [&] {
    if (mails.has_message()) progress(rank);
    return is_done();
  });
}

/// Waits until `is_done()`; every step makes progress.
template <class Condition>
QUARRY_HD void wait_until(rank_state& rank, wait_reason const& reason, Condition const& is_done,
                          bool is_woken = false) {
  own_mail_reader const mails = reader_of(rank);
  auto const look = [&] {
    if (mails.has_message()) progress(rank);
    if (rank.schedules != nullptr) (void)advance_schedules(rank);
    return is_done();
  };
  poll_until(rank, reason, look, is_woken);
}

/// The same for a condition that only a message to this rank makes true, or a rank that wakes this
/// one. Steps of collective operations that have begun may wait for more.
template <class Condition>
QUARRY_HD void wait_for_mail(rank_state& rank, wait_reason const& reason,
                             Condition const& is_done) {
  wait_until(rank, reason, is_done, is_on_host() && rank.schedules == nullptr);
}

/// The same for a condition that only a message to this rank makes true. Steps of collective
/// operations that have begun may wait for more.
template <class Condition>
QUARRY_HD void wait_for_message(rank_state& rank, wait_reason const& reason,
                                Condition const& is_done, request* until = nullptr) {
  if (rank.schedules != nullptr) return wait_until(rank, reason, is_done);
  own_mail_reader const mails = reader_of(rank);
  poll_mailbox(rank, reason, [&] {
    if (mails.has_message()) progress(rank, until);
    return is_done();
  });
}

/// Waits until the receive is done. Takes no messages after that, unless a nonblocking collective
/// operation is in progress.
QUARRY_HD inline void wait_for_receive(rank_state& rank, wait_reason const& reason,
                                       request& wanted) {
  wait_for_message(rank, reason, [&] { return wanted.is_done != 0; }, &wanted);
}

/// From now on the ranks of the caller's warp do not join. Call it before a collective operation
/// begins that goes on while the rank does other things. A rank advances such an operation while
/// it waits in a meeting, and a step may wait for a slot of another lane's mailbox. If that lane
/// waited in `join_lanes`, both would wait for ever.
QUARRY_HD inline void part_lanes() {
#ifdef __CUDA_ARCH__
  if (layout().shift < 5) atomicOr_block(&own_block().parted_warps, 1u << threadIdx.x / 32);  // (Y)
#endif
}

/// The ranks of a warp continue together. Waits for all ranks of the warp that have not ended. Call
/// it directly after a meeting is complete: between the two, no rank may wait for another. Lanes
/// that have parted run one after another until then. Where two ranks take turns so, each look of
/// one at its mailbox may delay the message of the other.
///
/// A rank that waits here is in no report of a deadlock. So ranks of a warp whose operations have a
/// different number of meetings must not be in the same kind of meeting
/// (block_place::reduction_kind).
///
/// Memory order. Relaxed (Y): all lanes decide alike whether they join. A lane sets its warp's bit
/// before it arrives at the meeting, whose orders in `meeting_place.hpp` put that before all loads
/// here: (A) and (W), or (A), (P) and (V). A lane that sets the bit later has passed the join, so
/// all lanes have loaded the bit before. A mutant of (Y) has no weaker order; those of the meeting
/// break what (Y) relies on.
QUARRY_FAST void join_lanes() {
#ifdef __CUDA_ARCH__
  std::uint32_t const shift = layout().shift;
  if (shift >= 5) return;  // a rank has a warp
  std::uint32_t const parted = block_word{own_block().parted_warps}.load(simt::relaxed);  // (Y)
  if ((parted >> threadIdx.x / 32 & 1) != 0) return;
  std::uint32_t const left = layout().size - (own_rank() - (threadIdx.x % 32 >> shift));
  std::uint32_t const lanes = left >= 32u >> shift ? 32 : left << shift;
  // a bit for each multiple of 2^shift
  std::uint32_t const ranks = ~0u / ((1u << (1u << shift)) - 1);
  __syncwarp(ranks & ~0u >> (32 - lanes));
#endif
}

[[nodiscard]] QUARRY_HD inline wait_reason reason_of(call which, std::int32_t peer = MPI_PROC_NULL,
                                                     std::int32_t tag = 0,
                                                     std::uint32_t context = 0) {
  return {static_cast<std::uint32_t>(which), peer, tag, context, own_record().place, 0};
}

/// Calls `allocate` until it returns memory of the heap, and returns that.
template <class Allocate>
[[nodiscard]] QUARRY_HD auto wait_for_memory(rank_state& rank, wait_reason reason,
                                             Allocate const& allocate) {
  auto* memory = allocate();
  if (memory != nullptr) return memory;
  reason.is_for_memory = 1;
  wait_for_others(rank, reason, [&] {
    memory = allocate();
    return memory != nullptr;
  });
  return memory;
}

}  // namespace quarry::inline QUARRY_ABI::mpi

/// Ends the program because a rank divides by zero. `place`: the number of the place in the source.
extern "C" [[noreturn]] QUARRY_SLOW void quarry_mpi_divides_by_zero(std::uint32_t place);
