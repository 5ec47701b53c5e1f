// SPDX-License-Identifier: Apache-2.0
#include "trace.hpp"

#include "checks.hpp"
#include "errors.hpp"
#include "operation_pair.hpp"
#include "progress.hpp"
#include "types.hpp"

#include "quarry/simt/clock.hpp"

#include <ctime>

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

constexpr std::uint32_t no_record = ~std::uint32_t{0};

/// The calling rank and its part of the trace.
struct traced_rank {
  rank_state& rank;
  trace_memory const& memory;
  rank_trace& own;

  /// Null if no trace is wanted, or for a record that does not exist.
  [[nodiscard]] QUARRY_HD trace_record* record(std::uint32_t number) const {
    if (number == no_record) return nullptr;
    std::uint32_t const place = number < memory.limit ? number : memory.limit;
    return memory.records + std::uint64_t{rank.rank} * (std::uint64_t{memory.limit} + 1) + place;
  }
  [[nodiscard]] QUARRY_HD bool fits(std::uint32_t number) const { return number < memory.limit; }
};

[[nodiscard]] QUARRY_HD bool is_wanted() { return the_world().trace.records != nullptr; }

[[nodiscard]] QUARRY_HD traced_rank traced_self() {
  trace_memory const& memory = the_world().trace;
  std::uint32_t const number = own_rank();
  return {state_of(number), memory, memory.ranks[number]};
}

/// The times of a record, in nanoseconds.
struct trace_times {
  std::uint64_t now;  // of the machine's clock
  std::uint64_t own;  // how long the rank itself has run and slept; 0 on GPUs, whose ranks all run
};

#ifndef __CUDACC__
std::uint64_t nanoseconds_of(clockid_t clock) {
  std::timespec time{};
  (void)clock_gettime(clock, &time);
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u +
         static_cast<std::uint64_t>(time.tv_nsec);
}
#endif

/// On the CPU, if the ranks take turns on one thread, the machine's clock is the thread's: what
/// other programs on the machine do is not in it. Several threads need a clock that they share.
[[nodiscard]] QUARRY_HD trace_times times_of([[maybe_unused]] rank_trace const& own) {
#ifdef __CUDACC__
  return {simt::clock_ns(), 0};
#else
  std::uint64_t const ran = thread_time_ns();
  return {the_world().threads == 1 ? ran : nanoseconds_of(CLOCK_MONOTONIC),
          simt::current_lane->time_run(ran) + own.added};
#endif
}

QUARRY_HD void set_end(traced_rank const& at, trace_record& made) {
  trace_times const times = times_of(at.own);
  made.end = times.now;
  made.own_end = times.own;
}

/// The address of an allocation.
QUARRY_HD void set_address(trace_record& made, void const* address) {
  auto const bits = reinterpret_cast<std::uint64_t>(address);
  made.peer = static_cast<std::int32_t>(static_cast<std::uint32_t>(bits));
  made.tag = static_cast<std::int32_t>(static_cast<std::uint32_t>(bits >> 32));
}

[[nodiscard]] QUARRY_HD std::uint32_t new_record(traced_rank const& at,
                                                 std::uint32_t role_and_function,
                                                 std::uint32_t place) {
  if (at.own.written == no_record) return no_record;  // 4 billion calls
  std::uint32_t const number = at.own.written;
  trace_record& made = *at.record(number);
  made = trace_record{};
  made.function = static_cast<std::uint16_t>(role_and_function & 0xffff);
  made.role = static_cast<std::uint8_t>(role_and_function >> 16);
  made.place = place;
  trace_times const times = times_of(at.own);
  made.begin = times.now;
  made.own_begin = times.own;
#ifdef __CUDA_ARCH__
  at.own.written = number + 1;
#else
  // The launcher may read while ranks run on other threads, if the program is ended.
  simt::atomic_ref<std::uint32_t>{at.own.written}.store(number + 1, simt::release);
#endif
  return number;
}

/// Leaves a call without a trace: it has found nothing. If it does not fit, its record has replaced
/// the rank's last one. How often a program asks depends on how ranks take turns, so the calls take
/// none of the rank's own time.
QUARRY_HD void take_back(traced_rank const& at, std::uint32_t number) {
  trace_record& empty = *at.record(number);
  set_end(at, empty);
  at.own.added += empty.own_begin - empty.own_end;
  if (number + 1 == at.own.written) --at.own.written;
}

[[nodiscard]] QUARRY_HD trace_role role_of(trace_record const& record) {
  return static_cast<trace_role>(record.role);
}

/// Ends the record of a call that has no message, and is no operation, if it has failed. Returns
/// whether it has.
QUARRY_HD bool end_failed(traced_rank const& at, trace_record& made, int error) {
  if (error == MPI_SUCCESS || error == MPI_ERR_TRUNCATE) return false;
  set_end(at, made);
  made.role = static_cast<std::uint8_t>(trace_role::call);
  made.peer = MPI_PROC_NULL;
  return true;
}

/// The place of a call: that of the rank's last call for a call through a pointer.
[[nodiscard]] QUARRY_HD std::uint32_t known_place(std::uint32_t place) {
  return place != 0 ? place : own_record().place;
}

/// The rank of the world that `peer` is in the communicator.
[[nodiscard]] QUARRY_HD std::int32_t world_peer(rank_state& rank, MPI_Comm communicator, int peer) {
  membership const* const at = member(rank, communicator);
  if (peer < 0 || at == nullptr || static_cast<std::uint32_t>(peer) >= at->shared->size)
    return peer == MPI_ANY_SOURCE ? MPI_ANY_SOURCE : MPI_PROC_NULL;
  return static_cast<std::int32_t>(
      at->shared->world_rank(static_cast<std::uint32_t>(peer), rank.rank));
}

/// Whether the caller is the root of a collective operation between two groups.
[[nodiscard]] QUARRY_HD bool is_root_of_other_group(trace_record const& made, int peer) {
  return peer == MPI_ROOT &&
         (role_of(made) == trace_role::collective || role_of(made) == trace_role::begun_collective);
}

QUARRY_HD void note_message(rank_state& rank, trace_record& made, MPI_Comm communicator,
                            MPI_Status const* status) {
  if (status == nullptr || made.peer == MPI_PROC_NULL) return;
  if (made.peer == MPI_ANY_SOURCE) {
    std::int32_t const source = world_peer(rank, communicator, status->MPI_SOURCE);
    if (source >= 0) made.peer = source;
  }
  if (made.tag == MPI_ANY_TAG) made.tag = status->MPI_TAG;
  made.bytes = static_cast<bytes>(status->byte_count);
}

// The table of requests.

[[nodiscard]] QUARRY_HD std::uint32_t first_place(rank_trace const& own, MPI_Request handle) {
  return (static_cast<std::uint32_t>(handle) * 2654435769u) & (own.places - 1);
}

[[nodiscard]] QUARRY_HD traced_request* find(rank_trace const& own, MPI_Request handle) {
  if (own.places == 0 || handle == MPI_REQUEST_NULL) return nullptr;
  std::uint32_t place = first_place(own, handle);
  while (own.requests[place].handle != MPI_REQUEST_NULL) {
    if (own.requests[place].handle == handle) return &own.requests[place];
    place = (place + 1) & (own.places - 1);
  }
  return nullptr;
}

/// There is a free place.
QUARRY_HD void put(rank_trace const& own, traced_request const& added) {
  std::uint32_t place = first_place(own, added.handle);
  while (own.requests[place].handle != MPI_REQUEST_NULL) place = (place + 1) & (own.places - 1);
  own.requests[place] = added;
}

/// Returns false if the heap has no memory: the trace does not link the request then.
[[nodiscard]] QUARRY_SLOW bool make_room(rank_trace& own) {
  if (2 * (own.open + 1) <= own.places) return true;
  std::uint32_t const old_places = own.places;
  traced_request* const old = own.requests;
  std::uint32_t const places = old_places == 0 ? 16 : 2 * old_places;
  auto* const memory = static_cast<traced_request*>(allocate(places * sizeof(traced_request)));
  if (memory == nullptr) return false;
  for (std::uint32_t i = 0; i < places; ++i) memory[i] = traced_request{};
  own.requests = memory;
  own.places = places;
  for (std::uint32_t i = 0; i < old_places; ++i)
    if (old[i].handle != MPI_REQUEST_NULL) put(own, old[i]);
  if (old != nullptr) release(old);
  return true;
}

/// Later requests of a chain move to the front, so that `find` needs no marks of removed ones.
QUARRY_HD void remove(rank_trace& own, traced_request* gone) {
  std::uint32_t const mask = own.places - 1;
  auto hole = static_cast<std::uint32_t>(gone - own.requests);
  --own.open;
  for (std::uint32_t next = (hole + 1) & mask; own.requests[next].handle != MPI_REQUEST_NULL;
       next = (next + 1) & mask) {
    std::uint32_t const distance = (next - first_place(own, own.requests[next].handle)) & mask;
    if (distance < ((next - hole) & mask)) continue;
    own.requests[hole] = own.requests[next];
    hole = next;
  }
  own.requests[hole] = traced_request{};
}

QUARRY_HD void add(rank_trace& own, traced_request const& added) {
  if (traced_request* const found = find(own, added.handle)) {
    *found = added;
  } else if (make_room(own)) {
    put(own, added);
    ++own.open;
  }
}

/// Lets `memory` have room for `count` elements; its contents are lost. Null if the heap is full.
template <class T>
[[nodiscard]] QUARRY_HD T* grown(T*& memory, std::uint32_t& has, int count) {
  auto const wanted = static_cast<std::uint32_t>(count);
  if (count <= 0) return nullptr;
  if (wanted <= has) return memory;
  T* const larger = static_cast<T*>(allocate(wanted * sizeof(T)));
  if (larger == nullptr) return nullptr;
  if (memory != nullptr) release(memory);
  memory = larger;
  has = wanted;
  return memory;
}

/// Whether the operation of the program's request has begun, and no call has completed it.
[[nodiscard]] QUARRY_HD bool is_active(rank_state& rank, MPI_Request handle) {
  request const* const found = request_of(rank, runtime_handle(rank, handle));
  return found != nullptr && found->is_active != 0;
}

/// A request is complete in the call of `record`, unless that has failed because of another
/// request. The program has the handle `now` after it.
QUARRY_HD void note_complete(traced_rank const& at, std::uint32_t record, MPI_Request handle,
                             MPI_Request now, MPI_Status const* status) {
  traced_request* const found = find(at.own, handle);
  if (found == nullptr) return;
  bool const is_kept = now != MPI_REQUEST_NULL;
  if (is_kept && (found->is_persistent == 0 || is_active(at.rank, handle))) return;
  if (found->record != no_record) {
    trace_record& began = *at.record(found->record);
    if (status != nullptr && status->is_cancelled != 0)
      began.peer = MPI_PROC_NULL;  // no message
    else if (role_of(began) == trace_role::begun_receive)
      note_message(at.rank, began, found->communicator, status);
    if (at.fits(record)) began.link = record + 1;
  }
  found->record = no_record;
  if (found->is_persistent == 0) remove(at.own, found);
}

/// Whether what MPI_Start has just begun lasts until its receiver has the message.
[[nodiscard]] QUARRY_HD bool send_waits(rank_state& rank, MPI_Request handle) {
  request const* const found = request_of(rank, runtime_handle(rank, handle));
  return found != nullptr && found->what == request::kind::pair &&
         operation_pair::of(*found).send_waits != 0;
}

/// Whether a call of MPI_Startall that has failed has begun the persistent request. It refuses
/// those that an earlier call has begun.
[[nodiscard]] QUARRY_HD bool has_just_begun(rank_state& rank, traced_request const& asked) {
  return asked.record == no_record && is_active(rank, asked.handle);
}

}  // namespace

#ifndef __CUDACC__
std::uint64_t thread_time_ns() { return nanoseconds_of(CLOCK_THREAD_CPUTIME_ID); }

void set_own_time(std::uint64_t before, std::uint64_t nanoseconds) {
  if (!is_wanted()) return;
  rank_trace& own = traced_self().own;
  own.added += before + nanoseconds - times_of(own).own;
}

std::uint64_t own_time() { return is_wanted() ? times_of(traced_self().own).own : 0; }

void note_end_of_rank() {
  if (!is_wanted()) return;
  rank_trace& own = traced_self().own;
  // The launcher may read meanwhile, if it ends the program.
  simt::atomic_ref<std::uint64_t>{own.ended}.store(times_of(own).own, simt::release);
}
#endif

}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_SLOW std::uint32_t quarry_mpi_trace_begin(std::uint32_t role_and_function,
                                                 std::uint32_t place, int count, MPI_Datatype type,
                                                 int peer, int tag, MPI_Comm communicator) {
  if (!is_wanted()) return no_record;
  traced_rank const at = traced_self();
  std::uint32_t const number = new_record(at, role_and_function, known_place(place));
  if (number == no_record) return no_record;
  trace_record& made = *at.record(number);
  if (count > 0 && is_known_type(at.rank, type))
    made.bytes = static_cast<bytes>(count) * element_size(at.rank, type);
  membership const* const shared = member(at.rank, communicator);
  if (shared != nullptr) made.communicator = shared->context / 2;  // as reports say
  made.peer = is_root_of_other_group(made, peer) ? static_cast<std::int32_t>(at.rank.rank)
                                                 : world_peer(at.rank, communicator, peer);
  made.tag = tag;
  at.rank.send_waits = 0;
  return number;
}

QUARRY_SLOW void quarry_mpi_trace_end(std::uint32_t record) {
  if (record == no_record) return;
  traced_rank const at = traced_self();
  set_end(at, *at.record(record));
}

QUARRY_SLOW void quarry_mpi_trace_end_send(std::uint32_t record, int error) {
  if (record == no_record) return;
  traced_rank const at = traced_self();
  trace_record& made = *at.record(record);
  if (end_failed(at, made, error)) return;
  set_end(at, made);
  bool const sends = role_of(made) == trace_role::send || role_of(made) == trace_role::send_part;
  if (sends && at.rank.send_waits != 0) made.flags |= trace_flag::send_waits;
}

QUARRY_SLOW void quarry_mpi_trace_end_receive(std::uint32_t record, MPI_Comm communicator,
                                              int const* flag, MPI_Status const* status,
                                              int error) {
  if (record == no_record) return;
  traced_rank const at = traced_self();
  if (end_failed(at, *at.record(record), error)) return;
  if (flag != nullptr && *flag == 0) return take_back(at, record);
  trace_record& made = *at.record(record);
  set_end(at, made);
  note_message(at.rank, made, communicator, status);
}

QUARRY_SLOW void quarry_mpi_trace_end_begun(std::uint32_t record, MPI_Comm communicator,
                                            MPI_Request const* request, std::uint32_t persistent,
                                            int error) {
  if (record == no_record) return;
  traced_rank const at = traced_self();
  trace_record& made = *at.record(record);
  if (end_failed(at, made, error)) return;  // there is no request
  set_end(at, made);
  if (role_of(made) == trace_role::begun_send && at.rank.send_waits != 0)
    made.flags |= trace_flag::send_waits;
  traced_request added{*request, at.fits(record) ? record : no_record, communicator, persistent,
                       made};
  if (persistent != 0) {
    added.record = no_record;
    if (role_of(made) == trace_role::begun_collective) {
      added.pattern.tag = at.fits(record) ? static_cast<std::int32_t>(record + 1) : 0;
      made.flags = trace_flag::makes_collective;
    }
    made.role = static_cast<std::uint8_t>(trace_role::call);
  }
  bool const is_noted = persistent != 0 || at.fits(record);
  if (is_noted && *request == sent_request && role_of(made) == trace_role::begun_collective) {
    made.link = record + 1;  // all operations that were complete at once have this handle
    return;
  }
  if (is_noted && *request != MPI_REQUEST_NULL) add(at.own, added);
}

QUARRY_SLOW std::uint32_t quarry_mpi_trace_begin_wait(std::uint32_t role_and_function,
                                                      std::uint32_t place, int count,
                                                      MPI_Request const* requests) {
  if (!is_wanted()) return no_record;
  traced_rank const at = traced_self();
  std::uint32_t const number = new_record(at, role_and_function, known_place(place));
  MPI_Request* const copies =
      requests == nullptr ? nullptr : grown(at.own.handles, at.own.saved, count);
  for (int i = 0; i < count && copies != nullptr; ++i) copies[i] = requests[i];
  return number;
}

QUARRY_SLOW void quarry_mpi_trace_end_wait(std::uint32_t record, int count,
                                           MPI_Request const* requests, int const* done,
                                           int const* indices, MPI_Status const* statuses) {
  if (record == no_record) return;
  traced_rank const at = traced_self();
  int complete = 0;
  if (done != nullptr)
    complete = indices != nullptr ? *done : *done != 0 ? count : 0;
  else
    complete = indices != nullptr ? 1 : count;
  if (done != nullptr && complete <= 0) return take_back(at, record);
  set_end(at, *at.record(record));
  if (count < 0 || static_cast<std::uint32_t>(count) > at.own.saved) return;
  for (int i = 0; i < complete && i < count; ++i) {
    int const index = indices != nullptr ? indices[i] : i;
    if (index < 0 || index >= count) continue;
    note_complete(at, record, at.own.handles[index], requests[index],
                  statuses == nullptr ? nullptr : statuses + i);
  }
}

QUARRY_SLOW void quarry_mpi_trace_end_start(std::uint32_t record, int count,
                                            MPI_Request const* requests, int error) {
  if (record == no_record) return;
  traced_rank const at = traced_self();
  trace_record& call = *at.record(record);
  set_end(at, call);
  trace_record const started = call;
  for (int i = 0; i < count; ++i) {
    traced_request* const found = find(at.own, requests[i]);
    if (found == nullptr || found->is_persistent == 0) continue;
    if (error != MPI_SUCCESS && !has_just_begun(at.rank, *found)) continue;
    std::uint32_t const number = new_record(at, 0, started.place);
    if (number == no_record) return;
    trace_record& made = *at.record(number);
    made = found->pattern;
    made.place = started.place;
    made.begin = made.end = started.begin;
    made.own_begin = made.own_end = started.own_end;
    made.flags = trace_flag::is_started;
    if (role_of(made) == trace_role::begun_send && send_waits(at.rank, requests[i]))
      made.flags |= trace_flag::send_waits;
    found->record = at.fits(number) ? number : no_record;
  }
}

QUARRY_SLOW void quarry_mpi_trace_forget(MPI_Request const* request) {
  if (!is_wanted()) return;
  traced_rank const at = traced_self();
  if (traced_request* const found = find(at.own, *request)) remove(at.own, found);
}

QUARRY_SLOW MPI_Status* quarry_mpi_trace_statuses(MPI_Status* statuses, int count) {
  if (statuses != MPI_STATUSES_IGNORE || !is_wanted()) return statuses;
  rank_trace& own = traced_self().own;
  return grown(own.statuses, own.spares, count);
}

QUARRY_SLOW std::uint32_t quarry_mpi_trace_begin_memory(std::uint32_t role_and_function,
                                                        std::uint32_t place, std::uint64_t size,
                                                        std::uint64_t count, void* old) {
  if (!is_wanted()) return no_record;
  traced_rank const at = traced_self();
  std::uint32_t const number = new_record(at, role_and_function, place);
  if (number == no_record) return no_record;
  trace_record& made = *at.record(number);
  made.bytes = size * count;
  set_address(made, old);
  return number;
}

QUARRY_SLOW void quarry_mpi_trace_end_memory(std::uint32_t record, void* result) {
  if (record == no_record) return;
  traced_rank const at = traced_self();
  trace_record& made = *at.record(record);
  set_end(at, made);
  if (role_of(made) != trace_role::allocate) return;
  bool const had_old = made.peer != 0 || made.tag != 0;
  if (had_old && (result != nullptr || made.bytes == 0)) made.flags |= trace_flag::frees_old;
  set_address(made, result);
}

}  // extern "C"
