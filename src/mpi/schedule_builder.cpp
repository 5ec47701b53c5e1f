// SPDX-License-Identifier: Apache-2.0
#include "schedule_builder.hpp"

#include <new>

namespace quarry::inline QUARRY_ABI::mpi {
QUARRY_SLOW void schedule_builder::add(schedule_step const& step) {
  if (has_failed_) return;
  if (made_.count == capacity_) {
    std::uint32_t const capacity = capacity_ == 0 ? 8 : capacity_ * 2;
    auto* const steps = static_cast<schedule_step*>(allocate(capacity * sizeof(schedule_step)));
    if (steps == nullptr) {
      has_failed_ = true;
      return;
    }
    for (std::uint32_t i = 0; i < made_.count; ++i) steps[i] = made_.steps[i];
    if (made_.steps != nullptr) release(made_.steps);
    made_.steps = steps;
    capacity_ = capacity;
  }
  retain_type(rank_, step.type);
  if (step.what == schedule_step::kind::copy) retain_type(rank_, step.to_type);
  schedule_step& added = made_.steps[made_.count++];
  added = step;
  added.waits = waits_;
  waits_ = 0;
}

QUARRY_SLOW void schedule_builder::send(peer_group const& to, std::uint32_t peer, void const* data,
                                        bytes count, MPI_Datatype type, std::uint32_t direction) {
  schedule_step step{};
  step.what = schedule_step::kind::send;
  step.source = data;
  step.count = count;
  step.type = type;
  step.peer = static_cast<std::int32_t>(to.members->world_rank(peer, rank_.rank));
  step.tag = to.tag + static_cast<std::int32_t>(direction);
  add(step);
}

QUARRY_SLOW void schedule_builder::receive(peer_group const& from, std::uint32_t peer, void* data,
                                           bytes count, MPI_Datatype type,
                                           std::uint32_t direction) {
  schedule_step step{};
  step.what = schedule_step::kind::receive;
  step.target = data;
  step.count = count;
  step.type = type;
  step.peer = static_cast<std::int32_t>(peer);
  step.tag = from.tag + static_cast<std::int32_t>(direction);
  add(step);
}

QUARRY_SLOW void schedule_builder::copy(void const* source, bytes count, MPI_Datatype type,
                                        void* target, MPI_Datatype to_type) {
  if (source == target || count == 0) return;
  schedule_step step{};
  step.what = schedule_step::kind::copy;
  step.source = source;
  step.target = target;
  step.count = count;
  step.type = type;
  step.to_type = to_type;
  add(step);
}

QUARRY_SLOW void schedule_builder::copy_part(void const* source, bytes count, MPI_Datatype type,
                                             void* target, bytes room, MPI_Datatype to_type) {
  bytes const element = element_size(rank_, type);
  bytes const room_bytes = room * element_size(rank_, to_type);
  bool const is_too_long = count * element > room_bytes;
  if (is_too_long) made_.own_error = MPI_ERR_TRUNCATE;
  copy(source, is_too_long ? room_bytes / element : count, type, target, to_type);
}

QUARRY_SLOW void schedule_builder::reduce(void const* lower, void* result, bytes count,
                                          MPI_Datatype type) {
  if (count == 0) return;
  schedule_step step{};
  step.what = schedule_step::kind::reduce;
  step.source = lower;
  step.target = result;
  step.count = count;
  step.type = type;
  add(step);
}

QUARRY_SLOW char* schedule_builder::memory(bytes size) {
  if (has_failed_ || size == 0) return nullptr;
  void* const found = allocate(sizeof(schedule::block) + size);
  if (found == nullptr) {
    has_failed_ = true;
    return nullptr;
  }
  made_.memory = ::new (found) schedule::block{made_.memory};
  return reinterpret_cast<char*>(made_.memory + 1);
}

QUARRY_SLOW char* schedule_builder::elements(bytes count, MPI_Datatype type) {
  element_span const span = span_of(rank_, count, type);
  char* const begin = memory(span.size);
  return begin == nullptr ? nullptr : begin - span.first;
}

QUARRY_SLOW bool schedule_builder::finish(std::uint32_t most_messages) {
  if (has_failed_) return false;
  std::uint32_t places = 0;
  std::uint32_t messages = 0;
  for (std::uint32_t i = 0; i < made_.count; ++i) {
    schedule_step const& step = made_.steps[i];
    if (step.waits != 0) messages = 0;
    if (step.what != schedule_step::kind::send && step.what != schedule_step::kind::receive)
      continue;
    ++messages;
    if (messages > places) places = messages;
  }
  if (places > most_messages) places = most_messages;
  if (places == 0) return true;
  auto* const flights = static_cast<schedule::flight*>(allocate(places * sizeof(schedule::flight)));
  if (flights == nullptr) return false;
  for (std::uint32_t i = 0; i < places; ++i) {
    ::new (&flights[i]) schedule::flight{};
  }
  made_.flights = flights;
  made_.places = places;
  return true;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
