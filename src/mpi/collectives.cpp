// SPDX-License-Identifier: Apache-2.0
// Collective operations of all ranks: barriers, broadcasts, reductions and scans. Small data of the
// world goes through meetings, other data by messages along binomial trees.
#include "collective.hpp"
#include "collective_calls.hpp"
#include "communicator_meeting.hpp"
#include "direct_collectives.hpp"
#include "entry_collectives.hpp"
#include "meeting.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// Sends `data` of `root` to all ranks along a binomial tree.
QUARRY_SLOW void broadcast(collective const& of, void* data, bytes length, std::uint32_t root) {
  std::uint32_t const own = (of.own + of.size - root) % of.size;  // the root is 0
  std::uint32_t bit = 1;
  for (; bit < of.size; bit <<= 1) {
    if ((own & bit) == 0) continue;
    of.receive(data, length, (own - bit + root) % of.size);
    break;
  }
  for (bit >>= 1; bit != 0; bit >>= 1)
    if (own + bit < of.size) of.send(data, length, (own + bit + root) % of.size);
}

/// In a barrier of more ranks that do not meet, a tree of two messages for each rank takes less
/// time than rounds in which each rank sends a message.
constexpr std::uint32_t most_in_rounds = 64;

/// Reduces `partial` of all ranks to rank 0, in the order of ranks: the result does not depend on
/// timing, and operations need not commute.
QUARRY_SLOW void reduce_to_first(collective const& of, char* partial, bytes count,
                                 MPI_Datatype type, MPI_Op op) {
  element_span const span = span_of(of.rank, count, type);
  bytes const length = span.size;
  scratch const other{of.rank, length};
  for (std::uint32_t bit = 1; bit < of.size; bit <<= 1) {
    if ((of.own & bit) != 0) {
      of.send(partial, length, of.own - bit);
      return;
    }
    if (of.own + bit >= of.size) continue;
    of.receive(other.data(), length, of.own + bit);
    // the own part is of lower ranks
    reduce(of.rank, partial - span.first, other.data() - span.first, count, type, op);
    copy_bytes(partial, other.data(), length);
  }
}

/// A copy of a rank's elements, for reductions. The elements begin at `elements()`, which lies
/// outside the memory if their first byte is not at the buffer's address.
class partial_result {
 public:
  QUARRY_HD partial_result(rank_state& rank, void const* from, bytes count, MPI_Datatype type)
      : memory_{rank, span_of(rank, count, type).size},
        elements_{memory_.data() - span_of(rank, count, type).first} {
    copy_elements(rank, elements_, from, count, type);
  }
  [[nodiscard]] QUARRY_HD char* elements() const { return elements_; }
  /// For messages, which contain the gaps between elements too.
  [[nodiscard]] QUARRY_HD char* data() const { return memory_.data(); }

 private:
  scratch memory_;
  char* elements_;
};

}  // namespace

QUARRY_SLOW int check(rank_state& rank, MPI_Comm handle, std::int64_t count, MPI_Datatype type,
                      int root, char const* function, membership*& found) {
  found = member(rank, handle);
  if (found == nullptr) return fail(rank, handle, MPI_ERR_COMM, function, "communicator", handle);
  if (count < 0) return fail(rank, handle, MPI_ERR_COUNT, function, "count", count);
  if (!is_type(rank, type)) return fail(rank, handle, MPI_ERR_TYPE, function, "datatype", type);
  if (root < 0 || static_cast<std::uint32_t>(root) >= found->size)
    return fail(rank, handle, MPI_ERR_ROOT, function, "root", root);
  return MPI_SUCCESS;
}

QUARRY_SLOW void broadcast_bytes(rank_state& rank, membership& among, void* data, bytes size,
                                 std::uint32_t root, call which) {
  if (meets(among) && size <= best_broadcast(among)) {
    (void)broadcast_small(rank, among, data, static_cast<std::uint32_t>(size), root, which);
    return;
  }
  broadcast(collective{rank, among, which}, data, size, root);
}

QUARRY_SLOW void arrive(collective const& of, std::uint32_t root) {
  if (meets(*of.through.at)) return of.meet();
  std::uint32_t const own = (of.own + of.size - root) % of.size;  // the root is 0
  char token = 0;
  for (std::uint32_t bit = 1; bit < of.size; bit <<= 1) {
    if ((own & bit) != 0) return of.send(&token, 0, (own - bit + root) % of.size);
    if (own + bit < of.size) of.receive(&token, 0, (own + bit + root) % of.size);
  }
}

QUARRY_SLOW void barrier(rank_state& rank, membership& among, call which) {
  if (meets(among)) return meet(rank, among, which);
  collective const of{rank, among, which};
  char token = 0;
  if (of.size > most_in_rounds) {
    arrive(of, 0);
    broadcast(of, &token, 0, 0);
    return;
  }
  for (std::uint32_t bit = 1; bit < of.size; bit <<= 1) {
    of.send(&token, 0, (of.own + bit) % of.size);
    of.receive(&token, 0, (of.own + of.size - bit) % of.size);
  }
}

}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

namespace {

// Operations of communicators of two groups. Functions of their own, so that the arguments take no
// memory in the callers.

QUARRY_SLOW int barrier_across(MPI_Comm communicator) {
  return run_across(barrier_call(), communicator, "MPI_Barrier");
}
QUARRY_SLOW int broadcast_across(void* data, int count, MPI_Datatype type, int root,
                                 MPI_Comm communicator) {
  return run_across(bcast_call(data, count, type, root), communicator, "MPI_Bcast");
}
QUARRY_SLOW int reduce_across(void const* sent, void* received, int count, MPI_Datatype type,
                              MPI_Op op, int root, MPI_Comm communicator) {
  return run_across(reduce_call(sent, received, count, type, op, root), communicator, "MPI_Reduce");
}
QUARRY_SLOW int reduce_to_all_across(void const* sent, void* received, int count, MPI_Datatype type,
                                     MPI_Op op, MPI_Comm communicator) {
  return run_across(allreduce_call(sent, received, count, type, op), communicator, "MPI_Allreduce");
}

// The fast paths of MPI's functions end in one call: what lives across calls costs memory.

QUARRY_SLOW int finish_barrier(MPI_Comm communicator, meeting::unfinished rest) {
  rank_state& rank = self();
  if (rest.has_arrived) {
    meeting::finish_barrier(call::barrier, static_cast<std::uint32_t>(call::barrier), rest);
    join_lanes();
    return MPI_SUCCESS;
  }
  if (has_two_groups(communicator)) return barrier_across(communicator);
  membership* among = nullptr;
  if (int const error = check(rank, communicator, 0, MPI_BYTE, 0, "MPI_Barrier", among))
    return error;
  barrier(rank, *among, call::barrier);
  return MPI_SUCCESS;
}

QUARRY_SLOW int broadcast_any(void* data, int count, MPI_Datatype type, int root,
                              MPI_Comm communicator) {
  if (has_two_groups(communicator)) return broadcast_across(data, count, type, root, communicator);
  rank_state& rank = self();
  membership* among = nullptr;
  if (int const error = check(rank, communicator, count, type, root, "MPI_Bcast", among))
    return error;
  bytes const size = static_cast<bytes>(count) * element_size(rank, type);
  auto const from = static_cast<std::uint32_t>(root);
  bool const is_root = among->rank == from;
  bool const is_whole = is_dense(rank, type);
  if (meets(*among) && size <= best_broadcast(*among)) {  // the type may be dense on other ranks
    own_scratch packed{rank, is_whole ? 0 : size};
    if (!is_whole) pack(rank, packed.data(), data, static_cast<bytes>(count), type);
    int const error = broadcast_small(rank, *among, is_whole ? data : packed.data(),
                                      static_cast<std::uint32_t>(size), from, call::bcast);
    if (!is_whole && !is_root) unpack(rank, data, type, packed.data(), size);
    return error == MPI_SUCCESS ? error
                                : fail(rank, communicator, error, "MPI_Bcast", "count", count);
  }
  bool const is_direct = meets(*among);
  collective const of{rank, *among, is_direct ? call::shared_bcast : call::bcast};
  if (is_direct) {
    broadcast_directly(of, data, static_cast<bytes>(count), type, from);
    return of.result(communicator, "MPI_Bcast");
  }
  if (is_whole) {
    broadcast(of, data, size, from);
    return of.result(communicator, "MPI_Bcast");
  }
  scratch const packed{rank, size};
  if (is_root) pack(rank, packed.data(), data, static_cast<bytes>(count), type);
  broadcast(of, packed.data(), size, from);
  if (!is_root) unpack(rank, data, type, packed.data(), size);
  return of.result(communicator, "MPI_Bcast");
}

/// `error` is that of the fast path, if it was taken to its end.
QUARRY_SLOW int finish_broadcast(void* data, int count, MPI_Datatype type, int root,
                                 MPI_Comm communicator, int error, meeting::unfinished rest) {
  if (!rest.has_arrived) {
    std::uint32_t const size = small_size(count, type, entry_collective::max_elements);
    if (size > meeting::best_broadcast() && static_cast<std::uint32_t>(root) < layout().size &&
        entry_broadcast::suits(data, size, communicator))
      return entry_broadcast::run(data, size, static_cast<std::uint32_t>(root));
    return broadcast_any(data, count, type, root, communicator);
  }
  if (error == MPI_SUCCESS)
    error = meeting::finish_broadcast(
        own_rank() == static_cast<std::uint32_t>(root) ? nullptr : data,
        small_size(count, type, meeting::max_broadcast), call::bcast, rest);
  join_lanes();
  return error == MPI_SUCCESS ? error
                              : fail(self(), communicator, error, "MPI_Bcast", "count", count);
}

/// Reduces a few numbers of all ranks, as many in a meeting as can meet at once. `received` is null
/// if this rank does not get the result.
QUARRY_SLOW void reduce_numbers(void const* sent, void* received, int count, MPI_Datatype type,
                                small_reduction how, call which) {
  auto const size = static_cast<std::uint8_t>(type >> 8);
  auto const all = static_cast<std::uint32_t>(count);
  std::uint32_t const at_once = meeting::numbers_at_once();
  for (std::uint32_t first = 0; first < all; first += at_once) {
    std::uint32_t const left = all - first;
    meeting::number_batch const numbers{size,
                                        static_cast<std::uint8_t>(left < at_once ? left : at_once),
                                        static_cast<std::uint8_t>(all)};
    char const* const own = static_cast<char const*>(sent) + first * size;
    char* const result =
        received != nullptr ? static_cast<char*>(received) + first * size : nullptr;
    meeting::unfinished rest;
    simt::lane_group group = simt::lane_group::alone();
    if (!meeting::try_reduce(own, result, numbers, which, false, group, rest))
      meeting::finish_reduce(result, numbers, how, which, group, rest);
  }
  join_lanes();
}

/// Whether `count` numbers meet: they can, and it is the faster way. With several GPUs each block
/// reads numbers of all blocks from the other GPUs.
[[nodiscard]] QUARRY_FAST bool are_best_met(int count, small_reduction how, MPI_Comm communicator) {
  if (spans_processes || communicator != MPI_COMM_WORLD || !meeting::can_reduce(how)) return false;
  auto const numbers = static_cast<std::uint32_t>(count);
  if (!meeting::are_fast_for_many()) return numbers <= 12;
  return count == 1 ||
         numbers <= small_reduction::best_meetings(layout().size) * meeting::numbers_at_once();
}
/// The same for a communicator other than the world, where each number has meetings of its own.
[[nodiscard]] QUARRY_HD bool are_few_of(membership const& among, int count, small_reduction how) {
  return how.exists() &&
         static_cast<std::uint32_t>(count) <= small_reduction::best_meetings(among.size) &&
         !is_world(among) && meets(among);
}

QUARRY_SLOW int reduce_any(void const* sent, void* received, int count, MPI_Datatype type,
                           MPI_Op op, int root, MPI_Comm communicator) {
  if (has_two_groups(communicator))
    return reduce_across(sent, received, count, type, op, root, communicator);
  rank_state& rank = self();
  membership* among = nullptr;
  if (int const error = check(rank, communicator, count, type, root, "MPI_Reduce", among))
    return error;
  if (!is_reducible(rank, op, type))
    return fail(rank, communicator, MPI_ERR_OP, "MPI_Reduce", "operation", op);
  if (small_reduction const how = small_reduction::of(count, type, op);
      are_few_of(*among, count, how)) {
    reduce_few(rank, *among, sent == MPI_IN_PLACE ? received : sent,
               among->rank == static_cast<std::uint32_t>(root) ? received : nullptr, count, type,
               how, call::reduce);
    return MPI_SUCCESS;
  }
  auto const elements = static_cast<bytes>(count);
  auto const target = static_cast<std::uint32_t>(root);
  if (reduces_directly(*among, count, type, op)) {
    collective const of{rank, *among, call::shared_reduce};
    reduce_directly(of, sent == MPI_IN_PLACE ? received : sent,
                    of.own == target ? received : nullptr, elements, type, op);
    return of.result(communicator, "MPI_Reduce");
  }
  collective const of{rank, *among, call::reduce};
  bytes const length = span_of(rank, elements, type).size;
  partial_result const partial{rank, sent == MPI_IN_PLACE ? received : sent, elements, type};
  reduce_to_first(of, partial.data(), elements, type, op);
  if (of.own == 0 && target != 0) of.send(partial.data(), length, target);
  if (of.own == target) {
    if (target != 0) of.receive(partial.data(), length, 0);
    copy_elements(rank, received, partial.elements(), elements, type);
  }
  return of.result(communicator, "MPI_Reduce");
}

QUARRY_SLOW int reduce_to_all(void const* sent, void* received, int count, MPI_Datatype type,
                              MPI_Op op, MPI_Comm communicator) {
  if (has_two_groups(communicator))
    return reduce_to_all_across(sent, received, count, type, op, communicator);
  rank_state& rank = self();
  membership* among = nullptr;
  if (int const error = check(rank, communicator, count, type, 0, "MPI_Allreduce", among))
    return error;
  if (!is_reducible(rank, op, type))
    return fail(rank, communicator, MPI_ERR_OP, "MPI_Allreduce", "operation", op);
  if (small_reduction const how = small_reduction::of(count, type, op);
      are_few_of(*among, count, how)) {
    reduce_few(rank, *among, sent == MPI_IN_PLACE ? received : sent, received, count, type, how,
               call::allreduce);
    return MPI_SUCCESS;
  }
  if (!is_dense(rank, type)) {  // the gaps between elements stay as they are
    bool const is_copied = sent == MPI_IN_PLACE && among->rank != 0;
    int const error =
        MPI_Reduce(is_copied ? received : sent, received, count, type, op, 0, communicator);
    return error != MPI_SUCCESS ? error : MPI_Bcast(received, count, type, 0, communicator);
  }
  if (reduces_directly(*among, count, type, op)) {
    collective const of{rank, *among, call::shared_allreduce};
    reduce_directly(of, sent == MPI_IN_PLACE ? received : sent, received, static_cast<bytes>(count),
                    type, op);
    return of.result(communicator, "MPI_Allreduce");
  }
  collective const of{rank, *among, call::allreduce};
  bytes const length = static_cast<bytes>(count) * static_cast<bytes>(element_extent(rank, type));
  if (sent != MPI_IN_PLACE) copy_bytes(received, sent, length);
  if (!spans_processes && is_world(*among) && length <= meeting::part_bytes) {
    meeting::reduce(rank, received, length, static_cast<bytes>(count), type, op, call::allreduce);
    return MPI_SUCCESS;
  }
  scratch const partial{rank, length};
  copy_bytes(partial.data(), received, length);
  reduce_to_first(of, partial.data(), static_cast<bytes>(count), type, op);
  broadcast(of, partial.data(), length, 0);
  copy_bytes(received, partial.data(), length);
  return MPI_SUCCESS;
}

/// A function of its own, so that reductions of few numbers save no registers for it.
QUARRY_SLOW int reduce_more_to_all(void const* sent, void* received, int count, MPI_Datatype type,
                                   MPI_Op op, MPI_Comm communicator) {
  std::uint32_t const size = small_size(count, type, entry_collective::max_elements);
  void const* const own = sent == MPI_IN_PLACE ? received : sent;
  if (entry_reduction::suits(own, received, size, type, op, communicator))
    return entry_reduction::run(own, received, size, type, op);
  return reduce_to_all(sent, received, count, type, op, communicator);
}

/// Reduces a number of all ranks. What is left in rare cases is one call at the end. A function for
/// each call: lanes that arrive here together have the same.
template <call Which>
QUARRY_FAST void reduce_number(void const* sent, void* received, MPI_Datatype type,
                               small_reduction how) {
  meeting::number_batch const one{static_cast<std::uint8_t>(type >> 8), 1, 1};
  meeting::unfinished rest;
  simt::lane_group group = simt::lane_group::alone();
  if (!meeting::try_reduce(sent, received, one, Which, true, group, rest))
    meeting::finish_reduce(received, one, how, Which, group, rest);
  join_lanes();
}

}  // namespace

extern "C" {

QUARRY_HD int MPI_Barrier(MPI_Comm communicator) {
  meeting::unfinished rest;
  if (!spans_processes && communicator == MPI_COMM_WORLD &&
      meeting::try_barrier(static_cast<std::uint32_t>(call::barrier), true, rest)) {
    join_lanes();
    return MPI_SUCCESS;
  }
  return finish_barrier(communicator, rest);
}

QUARRY_HD int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm communicator) {
  std::uint32_t const size = small_size(count, type, meeting::max_broadcast);
  meeting::unfinished rest;
  int error = MPI_SUCCESS;
  bool const is_small =
      !spans_processes && communicator == MPI_COMM_WORLD &&
      (size <= meeting::part_bytes ||
       (size <= meeting::best_broadcast() && reinterpret_cast<std::uint64_t>(data) % 8 == 0)) &&
      static_cast<std::uint32_t>(root) < layout().size;
  if (is_small &&
      meeting::try_broadcast(data, size, static_cast<std::uint32_t>(root), call::bcast, error,
                             rest) &&
      error == MPI_SUCCESS) {
    join_lanes();
    return MPI_SUCCESS;
  }
  return finish_broadcast(data, count, type, root, communicator, error, rest);
}

QUARRY_HD int MPI_Reduce(void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op,
                         int root, MPI_Comm communicator) {
  small_reduction const how = small_reduction::of(count, type, op);
  if (!are_best_met(count, how, communicator) || static_cast<std::uint32_t>(root) >= layout().size)
    return reduce_any(sent, received, count, type, op, root, communicator);
  if (sent == MPI_IN_PLACE) sent = received;
  if (own_rank() != static_cast<std::uint32_t>(root)) received = nullptr;
  if (count == 1)
    reduce_number<call::reduce>(sent, received, type, how);
  else
    reduce_numbers(sent, received, count, type, how, call::reduce);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Allreduce(void const* sent, void* received, int count, MPI_Datatype type,
                            MPI_Op op, MPI_Comm communicator) {
  small_reduction const how = small_reduction::of(count, type, op);
  if (!are_best_met(count, how, communicator))
    return reduce_more_to_all(sent, received, count, type, op, communicator);
  if (sent == MPI_IN_PLACE) sent = received;
  if (count == 1)
    reduce_number<call::allreduce>(sent, received, type, how);
  else
    reduce_numbers(sent, received, count, type, how, call::allreduce);
  return MPI_SUCCESS;
}

}  // extern "C"

namespace {

/// Scan and Exscan, along a binomial tree: in a chain the last of 262,144 ranks would wait for all
/// others. Rank r's children are r + 1, r + 2, r + 4, ... up to its lowest bit. Each sends the
/// total of its subtree to its parent, which then sends it the total of all lower ranks. Operations
/// need not commute, and results do not depend on timing.
QUARRY_SLOW int scan(void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op,
                     MPI_Comm communicator, bool includes_own, char const* function) {
  rank_state& rank = self();
  membership* among = nullptr;
  if (int const error = check(rank, communicator, count, type, 0, function, among)) return error;
  if (is_intercommunicator(*among))
    return fail(rank, communicator, MPI_ERR_COMM, function, "communicator", communicator);
  if (!is_reducible(rank, op, type))
    return fail(rank, communicator, MPI_ERR_OP, function, "operation", op);
  collective const of{rank, *among, call::scan};
  auto const elements = static_cast<bytes>(count);
  element_span const span = span_of(rank, elements, type);
  std::uint32_t const children = tree_children(of.own, of.size);
  // Totals of the subtree without its later children, for each child and for this rank's parent;
  // then the result, and the total of all lower ranks.
  bytes const distance = is_basic(type) ? span.size : span.distance();
  own_scratch memory{rank, (children + 3) * distance};
  auto const total = [&](std::uint32_t child) { return memory.data() + child * distance; };
  char* const result = total(children + 1);
  char* const lower = total(children + 2);
  auto const add = [&](char const* before, char* sum) {
    reduce(rank, before - span.first, sum - span.first, elements, type, op);
  };
  void const* const own = sent == MPI_IN_PLACE ? received : sent;
  copy_elements(rank, total(0) - span.first, own, elements, type);
  copy_elements(rank, result - span.first, own, elements, type);
  for (std::uint32_t child = 0; child < children; ++child) {
    of.receive(total(child + 1), span.size, of.own + (1u << child));
    add(total(child), total(child + 1));
  }
  if (of.own != 0) {
    std::uint32_t const parent = of.own & (of.own - 1);
    of.send(total(children), span.size, parent);
    of.receive(lower, span.size, parent);
    add(lower, result);
    for (std::uint32_t child = 0; child < children; ++child) add(lower, total(child));
  }
  for (std::uint32_t child = children; child-- != 0;)
    of.send(total(child), span.size, of.own + (1u << child));
  if (includes_own || of.own != 0)
    copy_elements(rank, received, (includes_own ? result : lower) - span.first, elements, type);
  return of.result(communicator, function);
}

}  // namespace

extern "C" {

QUARRY_HD int MPI_Scan(void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op,
                       MPI_Comm communicator) {
  return scan(sent, received, count, type, op, communicator, true, "MPI_Scan");
}
QUARRY_HD int MPI_Exscan(void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op,
                         MPI_Comm communicator) {
  return scan(sent, received, count, type, op, communicator, false, "MPI_Exscan");
}

QUARRY_HD int MPI_Reduce_scatter(void const* sent, void* received, int const* counts,
                                 MPI_Datatype type, MPI_Op op, MPI_Comm communicator) {
  return run_scheduled(reduce_scatter_call(sent, received, counts, type, op), form::blocking,
                       communicator, nullptr, "MPI_Reduce_scatter");
}
QUARRY_HD int MPI_Reduce_scatter_block(void const* sent, void* received, int count,
                                       MPI_Datatype type, MPI_Op op, MPI_Comm communicator) {
  return run_scheduled(reduce_scatter_block_call(sent, received, count, type, op), form::blocking,
                       communicator, nullptr, "MPI_Reduce_scatter_block");
}

}  // extern "C"
