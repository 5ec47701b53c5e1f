// SPDX-License-Identifier: Apache-2.0
// The beginning and the end of a rank, and its waits.
#include "rank.hpp"

#include "c_library.hpp"
#include "checks.hpp"
#include "trace.hpp"

#if defined(QUARRY_MPI_PROCESSES) && !defined(__CUDACC__)
#include <atomic>
#endif
#ifdef __CUDACC__
#include "copiers.cuh"
#include "warp_helpers.cuh"
#endif

namespace quarry::inline QUARRY_ABI::mpi {

namespace {

QUARRY_HD void finish_rank(rank_state& rank, std::int32_t code) {
  bool const has_reports = rank.checked != nullptr && rank.checked->reports != 0;
  rank.exit_code = code == 0 && has_reports ? 1 : code;
  rank.waiting.call = 0;
#ifndef __CUDACC__
  note_end_of_rank();
#endif
  simt::atomic_ref<life>{rank.stage}.store(life::done, simt::release);
  note_activity();
#if defined(QUARRY_MPI_PROCESSES) && !defined(__CUDACC__)
  quarry_mpi_deliver_all();
#endif
}

/// The program may change its arguments, so each rank has its own. Null if the heap has no memory.
[[nodiscard]] QUARRY_SLOW char** copy_arguments(int count, char** arguments) {
  auto const length = [](char const* text) {
    bytes size = 1;
    while (text[size - 1] != 0) ++size;
    return size;
  };
  bytes const table = (static_cast<bytes>(count) + 1) * sizeof(char*);
  bytes total = table;
  for (int i = 0; i < count; ++i) total += length(arguments[i]);
  auto* const copies = static_cast<char**>(allocate(total));
  if (copies == nullptr) return nullptr;
  auto* text = reinterpret_cast<char*>(copies) + table;
  for (int i = 0; i < count; ++i) {
    copies[i] = text;
    bytes const size = length(arguments[i]);
    for (bytes k = 0; k < size; ++k) text[k] = arguments[i][k];
    text += size;
  }
  copies[count] = nullptr;
  return copies;
}

}  // namespace

[[noreturn]] QUARRY_SLOW void end_rank(std::int32_t code) {
  finish_rank(self(), code);
#ifdef __CUDA_ARCH__
  copiers::leave();
  warp_helpers::dismiss();
  asm volatile("exit;");
  __builtin_unreachable();
#elif !defined(__CUDACC__)
  std::longjmp(the_world().ends[local_rank()].place, 1);
#else
  __builtin_unreachable();
#endif
}

QUARRY_HD void run_rank(std::uint32_t number) {
  world& all = the_world();
  rank_state& rank = state_of(number);
  // the launcher has initialised the mailbox, the number and the record's header
  auto* const memberships = static_cast<membership*>(allocate(4 * sizeof(membership)));
  auto* const alone = static_cast<communicator*>(allocate(sizeof(communicator)));
  char** const argv = copy_arguments(all.argc, all.argv);
  if (memberships == nullptr || alone == nullptr || argv == nullptr) {
    rank.stage = life::running;
    simt::atomic_ref<std::uint32_t>{all.aborted}.store(2, simt::release);  // the heap is too small
    finish_rank(rank, 1);
    return;
  }
  *alone = {1, 2, nullptr, 1};
  memberships[0] = {&all.all, number, all.all.size, 0, 0, 0, MPI_ERRORS_ARE_FATAL};
  memberships[1] = {alone, 0, 1, 2, 0, 0, MPI_ERRORS_ARE_FATAL};
  memberships[2] = memberships[3] = membership{};
  rank.member_of = memberships;
  rank.memberships = 4;
  char* const record = reinterpret_cast<char*>(&own_record());
#if defined(__CUDA_ARCH__) || !defined(__CUDACC__)
  quarry_mpi_init_record(record);
#ifndef __CUDA_ARCH__
  if (setjmp(all.ends[local_rank()].place) != 0) return;
#endif
  int const code = quarry_mpi_main(all.argc, argv, all.environment);
  leave_library(rank);
  if (rank.checked != nullptr) report_end(rank);
  finish_rank(rank, code & 0xff);  // as the status of a process
#endif
}

QUARRY_SLOW void yield_rank() {
  if (is_aborted()) end_rank(0);
  if constexpr (is_on_host()) deliver_some();
  simt::pause();
}

#ifdef QUARRY_MPI_PROCESSES
QUARRY_SLOW void look_for_abort_elsewhere() {
  // Relaxed: the word itself has the code, and nothing else that the other process wrote is read.
  std::uint64_t const word =
      simt::atomic_ref<std::uint64_t>{the_processes().words->aborted}.load(simt::relaxed);
  if (word == 0) return;
  world& all = the_world();
  std::uint32_t first = 0;
  if (simt::atomic_ref<std::uint32_t>{all.aborted}.compare_exchange(first, 1, simt::acq_rel))
    all.abort_code = static_cast<std::int32_t>(word);
}
#endif

namespace {

/// The wait's communicator; null if the rank has none with its context.
[[nodiscard]] QUARRY_HD communicator const* communicator_of(rank_state const& rank,
                                                            wait_reason const& reason) {
  for (std::uint32_t i = 0; i < rank.memberships; ++i) {
    communicator const* const shared = rank.member_of[i].shared;
    if (shared != nullptr && (shared->context | 1) == (reason.context | 1)) return shared;
  }
  return nullptr;
}

/// The world's rank that the wait's peer is; MPI_ANY_SOURCE if it is not one.
[[nodiscard]] QUARRY_HD std::int32_t awaited_rank(rank_state const& rank,
                                                  communicator const* shared,
                                                  wait_reason const& reason) {
  auto const peer = static_cast<std::uint32_t>(reason.peer);
  if (reason.peer < 0 || shared == nullptr || peer >= shared->size) return MPI_ANY_SOURCE;
  return static_cast<std::int32_t>(shared->world_rank(peer, rank.rank));
}

QUARRY_HD void begin_wait(rank_state& rank, own_mail_reader const& mails,
                          wait_reason const& reason) {
  communicator const* const shared = communicator_of(rank, reason);
  rank.awaited = awaited_rank(rank, shared, reason);
  rank.awaiting_members = shared == nullptr ? 0 : shared->size;
  rank.waiting = reason;
  if (!mails.has_message()) rank.looks_without_memory = 0;  // other calls took it
}

#ifndef __CUDACC__
/// Says that the rank found nothing after the world's activity was `activity`. At each 64th poll,
/// looks whether no rank can continue. A heap that other ranks use at the same time may refuse
/// memory that it has. So a rank that waits for memory says so after it was refused for 64 polls.
void report_nothing(rank_state& rank, wait_reason const& reason, std::uint64_t activity,
                    std::uint32_t polls) {
  bool const is_long = polls % 64 == 63;
  if (reason.is_for_memory != 0 || rank.looks_without_memory != 0) {
    if (!is_long) return;
    bool const was_refused = rank.refused_at == activity;
    rank.refused_at = activity;
    if (!was_refused) return;
  }
  simt::atomic_ref<std::uint64_t>{rank.polled_at}.store(activity, simt::release);  // (P)
  if (is_long) find_deadlock(activity);
}
#endif

}  // namespace

#ifndef __CUDACC__
std::uint64_t sum_of_activity() {
  world& all = the_world();
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < all.threads; ++i)
    sum += simt::atomic_ref<std::uint64_t>{all.activity[i].count}.load(simt::acquire);  // (Y)
#ifdef QUARRY_MPI_PROCESSES
  if (quarry_mpi_round != nullptr)
    sum += std::atomic_ref{*quarry_mpi_round}.load(std::memory_order_acquire);
#endif
  return sum;
}
#endif

#ifndef __CUDA_ARCH__
void idle_until_woken(rank_state& rank, wait_reason const& reason, std::uint64_t activity,
                      std::uint32_t polls) {
  own_mail_reader mails = reader_of(rank);
  return_slots(mails);
  if (is_aborted()) end_rank(0);
  look_for_shortage(rank);
  simt::atomic_ref<std::uint64_t>{rank.polled_at}.store(activity, simt::release);  // (P)
  if (polls == 0) begin_wait(rank, mails, reason);
  // If something has happened since the look, it may be what the rank waits for. A message that is
  // still there waits for memory.
  if (mails.has_message() || activity_now() != activity) return simt::pause();
  [[maybe_unused]] bool const is_woken = simt::park();
#ifndef __CUDACC__
  if (!is_woken) find_deadlock(activity);
#endif
}
#endif

QUARRY_SLOW void idle(rank_state& rank, wait_reason const& reason,
                      [[maybe_unused]] std::uint64_t activity, std::uint32_t polls) {
  own_mail_reader mails = reader_of(rank);
  return_slots(mails);
  if (is_aborted()) end_rank(0);
  look_for_shortage(rank);
#ifdef __CUDA_ARCH__
  if (polls == 31) begin_wait(rank, mails, reason);
  if (polls > 255) __nanosleep(20);
#else
  if (polls == 0) begin_wait(rank, mails, reason);
#ifndef __CUDACC__
  if (is_reported(polls)) report_nothing(rank, reason, activity, polls);
#endif
  deliver_some();
  simt::pause();
#endif
}

QUARRY_SLOW void end_wait(rank_state& rank) {
  rank.waiting.call = 0;
#ifndef __CUDA_ARCH__
  simt::atomic_ref<std::uint64_t>{rank.polled_at}.store(no_activity, simt::relaxed);
  rank.refused_at = no_activity;
#endif
  ++rank.steps;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
