// SPDX-License-Identifier: Apache-2.0
#include "communicator_objects.hpp"

#include "communicator_meeting.hpp"
#include "context_numbers.hpp"
#include "copy_bytes.hpp"
#include "topologies.hpp"

#include <new>

namespace quarry::inline QUARRY_ABI::mpi {

namespace {

/// A communicator without members, with so much memory behind it; null if the heap has no memory.
[[nodiscard]] QUARRY_SLOW communicator* allocate_communicator(std::uint32_t ranks,
                                                              std::uint32_t references,
                                                              std::uint32_t context, bytes extra) {
  void* const memory = allocate(sizeof(communicator) + extra);
  return memory == nullptr ? nullptr
                           : ::new (memory) communicator{ranks, context, nullptr, references};
}

}  // namespace

QUARRY_SLOW communicator* new_communicator(std::uint32_t ranks, std::uint32_t members,
                                           std::uint32_t references, std::uint32_t context,
                                           bool meets) {
  if (context == 0) return nullptr;
  bytes const list = members * sizeof(std::uint32_t);
  bytes const meeting = meets && ranks > 1 ? communicator_meeting::bytes_for(ranks) : 0;
  communicator* made = allocate_communicator(ranks, references, context, meeting + list);
  bool const has_meeting = meeting != 0 && made != nullptr;
  if (made == nullptr && meeting != 0)  // then its members exchange messages
    made = allocate_communicator(ranks, references, context, list);
  if (made == nullptr) {
    free_contexts(context);
    return nullptr;
  }
  auto* rest = reinterpret_cast<char*>(made + 1);
  if (has_meeting) {
    made->meeting = ::new (rest) communicator_meeting{};
    rest += meeting;
  }
  if (members != 0) made->members = reinterpret_cast<std::uint32_t*>(rest);
  return made;
}

static_assert(sizeof(communicator) % alignof(communicator_meeting) == 0);

QUARRY_SLOW communicator* copy_of(communicator const& old, std::uint32_t context) {
  bool const is_listed = old.members != nullptr;
  communicator* const made =
      new_communicator(old.size, is_listed ? old.size : 0, spans_processes ? 1 : old.size, context,
                       !spans_processes);
  if (made == nullptr) return nullptr;
  if (is_listed) copy_bytes(made->members, old.members, old.size * sizeof(std::uint32_t));
  if (old.shape == nullptr) return made;
  made->shape = copy_of(*old.shape);
  if (made->shape != nullptr) return made;
  discard(made);
  return nullptr;
}

namespace {

/// Whether a rank has freed the communicator before its last receive. The last rank to free it sees
/// what the others have stored: each has given its reference back by an acq_rel RMW since then.
[[nodiscard]] QUARRY_HD bool keeps_contexts(communicator& freed) {
  return simt::atomic_ref<std::uint32_t>{freed.keeps_contexts}.load(simt::relaxed) != 0;
}

/// Releases a half's share of the pair. Both halves have the same contexts.
QUARRY_SLOW void leave(communicator& half) {
  group_pair* const pair = half.pair;
  if (keeps_contexts(half))
    simt::atomic_ref<std::uint32_t>{pair->keeps_contexts}.store(1, simt::relaxed);
  // acq_rel: the last half frees the memory after the other half's last accesses
  if (simt::atomic_ref<std::uint32_t>{pair->halves}.fetch_sub(1, simt::acq_rel) != 1) return;
  if (simt::atomic_ref<std::uint32_t>{pair->keeps_contexts}.load(simt::relaxed) == 0)
    free_contexts(half.context);
  if (pair->copies != nullptr) release(pair->copies);
  release(pair);
}

}  // namespace

QUARRY_SLOW void discard(communicator* made) {
  if (made == nullptr) return;
  if (made->pair != nullptr)
    leave(*made);
  else if (made->local == nullptr && !keeps_contexts(*made))
    free_contexts(made->context);
  if (made->shape != nullptr) release(made->shape);
  if (made->called != nullptr) release(made->called);
  if (made->copies != nullptr) release(made->copies);
  release(made);
}

namespace {

/// Those of `local` send to the ranks of `remote`. Null if the heap has no memory.
[[nodiscard]] QUARRY_SLOW communicator* new_half(communicator* local, communicator const& remote,
                                                 std::uint32_t leader, std::uint32_t context) {
  communicator* const made =
      new_communicator(remote.size, remote.size, local->size, context, false);
  if (made == nullptr) return nullptr;
  for (std::uint32_t i = 0; i < remote.size; ++i) made->members[i] = remote.world_rank(i, leader);
  made->local = local;
  return made;
}

}  // namespace

QUARRY_SLOW communicator_halves new_halves(communicator* own, std::uint32_t own_leader,
                                           communicator* other, std::uint32_t other_leader) {
  if (own == nullptr || other == nullptr) return {nullptr, nullptr};
  std::uint32_t const context = new_contexts();
  communicator_halves made{new_half(own, *other, other_leader, context), nullptr};
  if (made.own != nullptr) made.other = new_half(other, *own, own_leader, context);
  bool const are_made = made.own != nullptr && made.other != nullptr;  // else the context is free
  void* const pair = are_made ? allocate(sizeof(group_pair)) : nullptr;
  if (pair == nullptr) {
    discard(made.own);
    discard(made.other);
    if (are_made) free_contexts(context);
    return {nullptr, nullptr};
  }
  made.own->pair = made.other->pair = ::new (pair) group_pair{};
  return made;
}

QUARRY_SLOW void drop(communicator* shared) {
  while (shared != nullptr) {
    communicator* const local = shared->local;
    // acq_rel: the last member frees the memory after the other members' last accesses
    if (simt::atomic_ref<std::uint32_t>{shared->references}.fetch_sub(1, simt::acq_rel) == 1)
      discard(shared);
    shared = local;
  }
}

QUARRY_SLOW membership_extra* make_extra(rank_state& rank, membership& at) {
  if (at.extra != 0) return rank.extras.entries[at.extra - 1];
  std::int32_t const index = free_handle(rank.extras);
  void* const memory = index < 0 ? nullptr : allocate(sizeof(membership_extra));
  if (memory == nullptr) return nullptr;
  at.extra = static_cast<std::uint32_t>(index) + 1;
  return rank.extras.entries[index] = ::new (memory) membership_extra{};
}

namespace {

/// A free membership, after which the table may be another one; null if the heap has no memory.
[[nodiscard]] QUARRY_SLOW membership* free_membership(rank_state& rank) {
  std::uint32_t index = 0;
  while (index < rank.memberships && rank.member_of[index].shared != nullptr) ++index;
  if (index != rank.memberships) return &rank.member_of[index];
  std::uint32_t const capacity = rank.memberships * 2;
  auto* const table = static_cast<membership*>(allocate(capacity * sizeof(membership)));
  if (table == nullptr) return nullptr;
  for (std::uint32_t i = 0; i < capacity; ++i)
    table[i] = i < rank.memberships ? rank.member_of[i] : membership{};
  release(rank.member_of);
  rank.member_of = table;
  rank.memberships = capacity;
  return &rank.member_of[index];
}

/// Prepares the member's place.
QUARRY_HD void begin_meetings(communicator const& shared, std::uint32_t own, std::uint32_t world) {
  if (shared.meeting != nullptr)
    shared.meeting->places()[own].lanes = lanes_beside(shared, own, world);
}

}  // namespace

QUARRY_SLOW membership* join(rank_state& rank, communicator* shared, std::uint32_t own,
                             MPI_Errhandler handler, MPI_Comm* handle) {
  membership* const made = free_membership(rank);
  if (made == nullptr) {
    drop(shared);
    return nullptr;
  }
  *made = {shared, own, shared->size, shared->context, 0, 0, handler};
  begin_meetings(*shared, own, rank.rank);
  if (communicator* const local = shared->local) {
    membership_extra* const extra = make_extra(rank, *made);
    if (extra == nullptr) {
      *made = {};
      drop(shared);
      return nullptr;
    }
    begin_meetings(*local, own, rank.rank);
    extra->own_group = {local, own, local->size, local->context, 0, 0, handler};
  }
  retain_handler(rank, handler);
  *handle = static_cast<MPI_Comm>(made - rank.member_of + 1);
  return made;
}

}  // namespace quarry::inline QUARRY_ABI::mpi
