// SPDX-License-Identifier: Apache-2.0
#include "schedule.hpp"

#include "convert_elements.hpp"
#include "point_to_point.hpp"
#include "reduction.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

QUARRY_HD void note_error(schedule& run, std::int32_t error) {
  if (run.error == MPI_SUCCESS) run.error = error;
}

/// Frees the places of messages that have arrived. Returns whether there were any.
QUARRY_FAST bool land(rank_state& rank, schedule& run) {
  std::uint32_t const before = run.in_flight;
  for (std::uint32_t i = 0; i < run.places && run.in_flight != 0; ++i) {
    request& posted = run.flights[i].posted;
    if (posted.what == request::kind::none || !is_complete(rank, posted)) continue;
    note_error(run, posted.error);
    posted.what = request::kind::none;
    --run.in_flight;
  }
  return run.in_flight != before;
}

[[nodiscard]] QUARRY_HD schedule::flight* free_place(schedule& run) {
  for (std::uint32_t i = 0; i < run.places; ++i)
    if (run.flights[i].posted.what == request::kind::none) return &run.flights[i];
  return nullptr;
}

QUARRY_FAST void begin_send(rank_state& rank, schedule& run, schedule_step const& step,
                            schedule::flight& place) {
  channel const through{&run.at, run.at.context + 1};
  message* const sent =
      start_send(rank, through, step.source, step.count, step.type, step.peer, step.tag,
                 mode::standard, static_cast<call>(scheduled_call(run.what, run.how)), place.sent);
  if (sent == nullptr) return;
  place.posted = {};
  place.posted.what = request::kind::send;
  place.posted.sent = sent;
  ++run.in_flight;
}

QUARRY_FAST void begin_receive(rank_state& rank, schedule& run, schedule_step const& step,
                               schedule::flight& place) {
  request& posted = place.posted;
  posted = {};
  posted.what = request::kind::receive;
  posted.data = step.target;
  posted.count = step.count;
  posted.type = step.type;
  posted.source = step.peer;
  posted.tag = step.tag;
  posted.context = run.at.context + 1;
  ++run.in_flight;
  begin_receive(rank, posted);
}

/// Returns false if the step cannot begin yet.
QUARRY_FAST bool begin_step(rank_state& rank, schedule& run, schedule_step const& step) {
  if (step.waits != 0 && run.in_flight != 0) return false;
  bool const is_local =
      step.what == schedule_step::kind::copy || step.what == schedule_step::kind::reduce;
  long_work const works{rank, is_local ? step.count * element_size(rank, step.type) : 0};
  switch (step.what) {
    case schedule_step::kind::copy:
      convert_elements(rank, step.source, step.count, step.type, step.target, step.to_type);
      return true;
    case schedule_step::kind::reduce:
      reduce(rank, step.source, step.target, step.count, step.type, run.op);
      return true;
    default:
      break;
  }
  schedule::flight* const place = free_place(run);
  if (place == nullptr) return false;
  if (step.what == schedule_step::kind::send) {
    begin_send(rank, run, step, *place);
  } else {
    begin_receive(rank, run, step, *place);
  }
  return true;
}

/// Returns whether anything has changed.
QUARRY_FAST bool advance(rank_state& rank, schedule& run) {
  bool has_changed = false;
  for (bool changes = true; changes; has_changed = has_changed || changes) {
    changes = land(rank, run);
    while (run.position < run.count && begin_step(rank, run, run.steps[run.position])) {
      ++run.position;
      changes = true;
    }
  }
  return has_changed;
}

QUARRY_SLOW void finish(rank_state& rank, schedule& run) {
  run.is_done = 1;
  request* const owner = run.owner;
  if (owner == nullptr) return;
  owner->is_done = 1;
  owner->error = run.error;
  if (owner->freed != request::handle_kind::none) finish_freed(rank, *owner);
}

}  // namespace

QUARRY_SLOW bool advance_schedules(rank_state& rank) {
  if (rank.is_advancing != 0) return false;  // an operation of the program calls MPI
  rank.is_advancing = 1;
  bool has_changed = false;
  for (schedule** link = &rank.schedules; *link != nullptr;) {
    schedule& run = **link;
    has_changed = advance(rank, run) || has_changed;
    if (run.position < run.count || run.in_flight != 0) {
      link = &run.next;
      continue;
    }
    *link = run.next;
    finish(rank, run);
    has_changed = true;
  }
  rank.is_advancing = 0;
  return has_changed;
}

QUARRY_SLOW void start_schedule(rank_state& rank, schedule& run) {
  part_lanes();
  run.position = 0;
  run.in_flight = 0;
  run.is_done = 0;
  run.error = run.own_error;
  run.next = nullptr;
  schedule** link = &rank.schedules;
  while (*link != nullptr) link = &(*link)->next;
  *link = &run;
  (void)advance_schedules(rank);
}

QUARRY_SLOW void delete_schedule(rank_state& rank, schedule* done) {
  for (std::uint32_t i = 0; i < done->count; ++i) {
    schedule_step const& step = done->steps[i];
    release_type(rank, step.type);
    if (step.what == schedule_step::kind::copy) release_type(rank, step.to_type);
  }
  release_op(rank, done->op);
  while (done->memory != nullptr) {
    schedule::block* const block = done->memory;
    done->memory = block->next;
    release(block);
  }
  if (done->steps != nullptr) release(done->steps);
  if (done->flights != nullptr) release(done->flights);
  release(done);
}

}  // namespace quarry::inline QUARRY_ABI::mpi
