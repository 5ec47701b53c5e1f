// SPDX-License-Identifier: Apache-2.0
#include "collectives.hpp"
#include "requests.hpp"

#include <new>

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// Adds a membership; null if the heap has no memory.
QUARRY_SLOW membership* join(rank_state& rank, communicator* shared, std::uint32_t own,
                             MPI_Errhandler handler, MPI_Comm* handle) {
  std::uint32_t index = 0;
  while (index < rank.memberships && rank.member_of[index].shared != nullptr) ++index;
  if (index == rank.memberships) {
    std::uint32_t const capacity = rank.memberships * 2;
    auto* const table = static_cast<membership*>(allocate(capacity * sizeof(membership)));
    if (table == nullptr) return nullptr;
    for (std::uint32_t i = 0; i < capacity; ++i)
      table[i] = i < rank.memberships ? rank.member_of[i] : membership{};
    release(rank.member_of);
    rank.member_of = table;
    rank.memberships = capacity;
  }
  rank.member_of[index] = {shared, own, shared->size, shared->context, 0, handler};
  retain_handler(rank, handler);
  *handle = static_cast<MPI_Comm>(index + 1);
  return &rank.member_of[index];
}

[[nodiscard]] QUARRY_SLOW communicator* new_communicator(std::uint32_t ranks,
                                                         std::uint32_t members) {
  void* const memory = allocate(sizeof(communicator) + members * sizeof(std::uint32_t));
  if (memory == nullptr) return nullptr;
  simt::atomic_ref<std::uint32_t> const next{the_world().next_context};
  std::uint32_t const context = next.fetch_add(2, simt::relaxed);
  if (context + 1 >= end_of_contexts) {  // after 8 million communicators
    (void)next.fetch_sub(2, simt::relaxed);
    release(memory);
    return nullptr;
  }
  auto* const made = ::new (memory) communicator{ranks, context, nullptr, ranks};
  if (members != 0) made->members = reinterpret_cast<std::uint32_t*>(made + 1);
  return made;
}

/// A member's wish, and what became of it.
struct wish {
  std::int32_t color;
  std::int32_t key;
  std::uint32_t rank;  // in the old communicator
  std::uint32_t new_rank;
  communicator* part;
};

[[nodiscard]] QUARRY_HD bool is_before(wish const& left, wish const& right) {
  if (left.color != right.color) return left.color < right.color;
  if (left.key != right.key) return left.key < right.key;
  return left.rank < right.rank;
}

/// Sorts in place, in n log n steps.
QUARRY_SLOW void heap_sort(wish* wishes, std::uint32_t count) {
  auto const sift = [&](std::uint32_t root, std::uint32_t end) {
    for (std::uint32_t child = 2 * root + 1; child < end; child = 2 * root + 1) {
      if (child + 1 < end && is_before(wishes[child], wishes[child + 1])) ++child;
      if (!is_before(wishes[root], wishes[child])) return;
      wish const swapped = wishes[root];
      wishes[root] = wishes[child];
      wishes[child] = swapped;
      root = child;
    }
  };
  for (std::uint32_t i = count / 2; i-- != 0;) sift(i, count);
  for (std::uint32_t end = count; end-- > 1;) {
    wish const swapped = wishes[0];
    wishes[0] = wishes[end];
    wishes[end] = swapped;
    sift(0, end);
  }
}

/// Creates the communicators that the wishes describe. Returns false if the heap has no memory.
QUARRY_SLOW bool create_parts(communicator const& old, std::uint32_t own, wish* wishes,
                              wish* sorted) {
  for (std::uint32_t i = 0; i < old.size; ++i) sorted[i] = wishes[i];
  heap_sort(sorted, old.size);
  for (std::uint32_t begin = 0; begin < old.size;) {
    std::uint32_t end = begin;
    while (end < old.size && sorted[end].color == sorted[begin].color) ++end;
    communicator* part = nullptr;
    if (sorted[begin].color != MPI_UNDEFINED) {
      part = new_communicator(end - begin, end - begin);
      if (part == nullptr) return false;
    }
    for (std::uint32_t i = begin; i < end; ++i) {
      if (part != nullptr) part->members[i - begin] = old.world_rank(sorted[i].rank, own);
      wishes[sorted[i].rank].part = part;
      wishes[sorted[i].rank].new_rank = i - begin;
    }
    begin = end;
  }
  return true;
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Comm_rank(MPI_Comm communicator, int* rank) {
  rank_state& caller = self();
  membership const* const at = member(caller, communicator);
  if (at == nullptr)
    return fail(caller, communicator, MPI_ERR_COMM, "MPI_Comm_rank", "communicator", communicator);
  *rank = static_cast<int>(at->rank);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Comm_size(MPI_Comm communicator, int* size) {
  rank_state& caller = self();
  membership const* const at = member(caller, communicator);
  if (at == nullptr)
    return fail(caller, communicator, MPI_ERR_COMM, "MPI_Comm_size", "communicator", communicator);
  *size = static_cast<int>(at->size);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Comm_dup(MPI_Comm handle, MPI_Comm* copy) {
  rank_state& rank = self();
  membership* const at = member(rank, handle);
  if (at == nullptr)
    return fail(rank, handle, MPI_ERR_COMM, "MPI_Comm_dup", "communicator", handle);
  communicator const& old = *at->shared;
  communicator* made = nullptr;
  if (at->rank == 0) {
    made = new_communicator(old.size, old.members != nullptr ? old.size : 0);
    if (made != nullptr && old.members != nullptr)
      for (std::uint32_t i = 0; i < old.size; ++i) made->members[i] = old.members[i];
  }
  broadcast_bytes(rank, *at, &made, sizeof(made), 0, call::comm_dup);
  if (made == nullptr || join(rank, made, at->rank, at->handler, copy) == nullptr)
    return fail(rank, handle, MPI_ERR_NO_MEM, "MPI_Comm_dup", "size", old.size);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Comm_split(MPI_Comm handle, int color, int key, MPI_Comm* part) {
  rank_state& rank = self();
  membership* const at = member(rank, handle);
  if (at == nullptr)
    return fail(rank, handle, MPI_ERR_COMM, "MPI_Comm_split", "communicator", handle);
  if (color < 0 && color != MPI_UNDEFINED)
    return fail(rank, handle, MPI_ERR_ARG, "MPI_Comm_split", "color", color);
  communicator const& old = *at->shared;
  MPI_Errhandler const handler = at->handler;
  std::uint32_t const own = at->rank;
  // The members write their wishes to one array; rank 0 sorts them.
  wish* wishes = nullptr;
  if (own == 0) wishes = static_cast<wish*>(allocate(2 * old.size * sizeof(wish)));
  broadcast_bytes(rank, *at, &wishes, sizeof(wishes), 0, call::comm_split);
  if (wishes == nullptr)
    return fail(rank, handle, MPI_ERR_NO_MEM, "MPI_Comm_split", "size", old.size);
  wishes[own] = {color, key, own, 0, nullptr};
  barrier(rank, *at, call::comm_split);
  std::uint32_t is_created = 1;
  if (own == 0) is_created = create_parts(old, rank.rank, wishes, wishes + old.size) ? 1 : 0;
  broadcast_bytes(rank, *at, &is_created, sizeof(is_created), 0, call::comm_split);
  wish const result = wishes[own];
  barrier(rank, *at, call::comm_split);
  if (own == 0) release(wishes);
  *part = MPI_COMM_NULL;
  bool const is_joined =
      is_created != 0 && (result.part == nullptr ||
                          join(rank, result.part, result.new_rank, handler, part) != nullptr);
  if (!is_joined) return fail(rank, handle, MPI_ERR_NO_MEM, "MPI_Comm_split", "size", old.size);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Comm_free(MPI_Comm* handle) {
  rank_state& rank = self();
  membership* const at = member(rank, *handle);
  if (at == nullptr || *handle <= MPI_COMM_SELF)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_COMM, "MPI_Comm_free", "communicator", *handle);
  communicator* const shared = at->shared;
  at->shared = nullptr;
  keep_handler(rank, *handle, at->handler);
  release_handler(rank, at->handler);
  // acq_rel: the last member frees the memory after the other members' last accesses
  if (simt::atomic_ref<std::uint32_t>{shared->references}.fetch_sub(1, simt::acq_rel) == 1)
    release(shared);
  *handle = MPI_COMM_NULL;
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Comm_compare(MPI_Comm first, MPI_Comm second, int* result) {
  rank_state& rank = self();
  membership const* const left = member(rank, first);
  membership const* const right = member(rank, second);
  if (left == nullptr || right == nullptr)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_COMM, "MPI_Comm_compare", "communicator",
                left == nullptr ? first : second);
  *result = MPI_UNEQUAL;
  if (left->shared == right->shared) {
    *result = MPI_IDENT;
  } else if (left->shared->size == right->shared->size) {
    *result = MPI_CONGRUENT;
    std::uint32_t const size = left->shared->size;
    for (std::uint32_t i = 0; i < size; ++i) {
      std::uint32_t const wanted = left->shared->world_rank(i, rank.rank);
      if (wanted == right->shared->world_rank(i, rank.rank)) continue;
      *result = MPI_SIMILAR;
      bool is_member = false;
      for (std::uint32_t k = 0; k < size && !is_member; ++k)
        is_member = right->shared->world_rank(k, rank.rank) == wanted;
      if (is_member) continue;
      *result = MPI_UNEQUAL;
      break;
    }
  }
  return MPI_SUCCESS;
}

}  // extern "C"
