// SPDX-License-Identifier: Apache-2.0
// Collective operations as messages along binomial trees, in a context of their own.
#include "collectives.hpp"

#include "meeting.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// A collective operation that this rank takes part in. Messages of one operation have its number
/// as tag, so that they do not match receives of the next operation.
struct collective {
  rank_state& rank;
  channel through;
  std::int32_t tag;
  call which;
  std::uint32_t own;
  std::uint32_t size;

  QUARRY_HD collective(rank_state& caller, membership& at, call name)
      : rank{caller},
        through{&at, at.context + 1},
        tag{static_cast<std::int32_t>(at.collectives++ & 0x7fffffff)},
        which{name},
        own{at.rank},
        size{at.size} {}

  QUARRY_HD void send(void const* data, bytes length, std::uint32_t to) const {
    send_bytes(rank, through, data, length, static_cast<std::int32_t>(to), tag, which);
  }
  QUARRY_HD void receive(void* data, bytes length, std::uint32_t from) const {
    receive_bytes(rank, through, data, length, static_cast<std::int32_t>(from), tag, which);
  }
};

/// Whether the members are all ranks of the world, so that they can meet without messages.
[[nodiscard]] QUARRY_HD bool meets(membership const& among) {
  return among.shared == &the_world().all;
}

/// Memory for a collective's intermediate results, of the heap. Waits if the heap has no memory.
class scratch {
 public:
  QUARRY_HD scratch(rank_state& rank, bytes size) {
    if (size == 0) return;
    memory_ = static_cast<char*>(allocate(size));
    if (memory_ == nullptr)
      wait_until(rank, reason_of(call::memory), [&] {
        memory_ = static_cast<char*>(allocate(size));
        return memory_ != nullptr;
      });
  }
  QUARRY_HD ~scratch() {
    if (memory_ != nullptr) release(memory_);
  }
  scratch(scratch const&) = delete;
  [[nodiscard]] QUARRY_HD char* data() const { return memory_; }

 private:
  char* memory_ = nullptr;
};

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

/// Reduces `partial` of all ranks to rank 0, in the order of ranks: the result does not depend on
/// timing, and operations need not commute.
QUARRY_SLOW void reduce_to_first(collective const& of, char* partial, bytes count,
                                 MPI_Datatype type, MPI_Op op) {
  bytes const length = count * static_cast<bytes>(element_extent(of.rank, type));
  scratch const other{of.rank, length};
  for (std::uint32_t bit = 1; bit < of.size; bit <<= 1) {
    if ((of.own & bit) != 0) {
      of.send(partial, length, of.own - bit);
      return;
    }
    if (of.own + bit >= of.size) continue;
    of.receive(other.data(), length, of.own + bit);
    // the own part is of lower ranks
    reduce(of.rank, partial, other.data(), count, type, op);
    copy_bytes(partial, other.data(), length);
  }
}

QUARRY_HD char* at(void* base, std::int64_t elements, std::int64_t extent) {
  return static_cast<char*>(base) + elements * extent;
}
QUARRY_HD char const* at(void const* base, std::int64_t elements, std::int64_t extent) {
  return static_cast<char const*>(base) + elements * extent;
}

/// Copies elements between buffers of one rank.
QUARRY_SLOW void copy_elements(rank_state& rank, void const* from, bytes count, MPI_Datatype type,
                               void* to, MPI_Datatype to_type) {
  bytes const length = count * element_size(rank, type);
  if (is_dense(rank, type))
    return unpack(rank, to, to_type, static_cast<char const*>(from), length);
  scratch const packed{rank, length};
  pack(rank, packed.data(), from, count, type);
  unpack(rank, to, to_type, packed.data(), length);
}

/// Checks what all collectives share.
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

/// Sends elements of any type in a collective; like MPI_Send in the collective's context.
QUARRY_SLOW void send_elements(collective const& of, void const* data, bytes count,
                               MPI_Datatype type, std::uint32_t to) {
  send(of.rank, of.through, data, count, type, static_cast<std::int32_t>(to), of.tag,
       mode::standard, of.which);
}
QUARRY_HD request wanted_elements(collective const& of, void* data, bytes count, MPI_Datatype type,
                                  std::uint32_t from) {
  request wanted;
  wanted.what = request::kind::receive;
  wanted.data = data;
  wanted.count = count;
  wanted.type = type;
  wanted.source = static_cast<std::int32_t>(from);
  wanted.tag = of.tag;
  wanted.context = of.through.context;
  return wanted;
}
QUARRY_SLOW void receive_elements(collective const& of, void* data, bytes count, MPI_Datatype type,
                                  std::uint32_t from) {
  request wanted = wanted_elements(of, data, count, type, from);
  receive(of.rank, wanted, of.which);
}

}  // namespace

QUARRY_SLOW void broadcast_bytes(rank_state& rank, membership& among, void* data, bytes size,
                                 std::uint32_t root, call which) {
  if (meets(among) && size <= meeting::part_bytes)
    return meeting::broadcast(rank, data, size, root, which);
  broadcast(collective{rank, among, which}, data, size, root);
}

QUARRY_SLOW void barrier(rank_state& rank, membership& among, call which) {
  if (meets(among)) return meeting::barrier(rank, which);
  collective const of{rank, among, which};
  char token = 0;
  for (std::uint32_t bit = 1; bit < of.size; bit <<= 1) {
    of.send(&token, 0, (of.own + bit) % of.size);
    of.receive(&token, 0, (of.own + of.size - bit) % of.size);
  }
}

}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Barrier(MPI_Comm communicator) {
  rank_state& rank = self();
  membership* among = nullptr;
  if (int const error = check(rank, communicator, 0, MPI_BYTE, 0, "MPI_Barrier", among))
    return error;
  barrier(rank, *among, call::barrier);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm communicator) {
  rank_state& rank = self();
  membership* among = nullptr;
  if (int const error = check(rank, communicator, count, type, root, "MPI_Bcast", among))
    return error;
  bytes const size = static_cast<bytes>(count) * element_size(rank, type);
  if (meets(*among) && is_dense(rank, type) && size <= meeting::part_bytes) {
    meeting::broadcast(rank, data, size, static_cast<std::uint32_t>(root), call::bcast);
    return MPI_SUCCESS;
  }
  collective const of{rank, *among, call::bcast};
  if (is_dense(rank, type)) {
    broadcast(of, data, size, static_cast<std::uint32_t>(root));
    return MPI_SUCCESS;
  }
  scratch const packed{rank, size};
  if (of.own == static_cast<std::uint32_t>(root))
    pack(rank, packed.data(), data, static_cast<bytes>(count), type);
  broadcast(of, packed.data(), size, static_cast<std::uint32_t>(root));
  if (of.own != static_cast<std::uint32_t>(root)) unpack(rank, data, type, packed.data(), size);
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Reduce(void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op,
                         int root, MPI_Comm communicator) {
  rank_state& rank = self();
  membership* among = nullptr;
  if (int const error = check(rank, communicator, count, type, root, "MPI_Reduce", among))
    return error;
  if (!is_reducible(rank, op, type))
    return fail(rank, communicator, MPI_ERR_OP, "MPI_Reduce", "operation", op);
  collective const of{rank, *among, call::reduce};
  bytes const length = static_cast<bytes>(count) * static_cast<bytes>(element_extent(rank, type));
  scratch const partial{rank, length};
  copy_bytes(partial.data(), sent == MPI_IN_PLACE ? received : sent, length);
  reduce_to_first(of, partial.data(), static_cast<bytes>(count), type, op);
  auto const target = static_cast<std::uint32_t>(root);
  if (target == 0) {
    if (of.own == 0) copy_bytes(received, partial.data(), length);
  } else if (of.own == 0) {
    of.send(partial.data(), length, target);
  } else if (of.own == target) {
    of.receive(received, length, 0);
  }
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Allreduce(void const* sent, void* received, int count, MPI_Datatype type,
                            MPI_Op op, MPI_Comm communicator) {
  rank_state& rank = self();
  membership* among = nullptr;
  if (int const error = check(rank, communicator, count, type, 0, "MPI_Allreduce", among))
    return error;
  if (!is_reducible(rank, op, type))
    return fail(rank, communicator, MPI_ERR_OP, "MPI_Allreduce", "operation", op);
  collective const of{rank, *among, call::allreduce};
  bytes const length = static_cast<bytes>(count) * static_cast<bytes>(element_extent(rank, type));
  if (sent != MPI_IN_PLACE) copy_bytes(received, sent, length);
  if (meets(*among) && length <= meeting::part_bytes) {
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

}  // extern "C"

namespace {

/// Scan and Exscan: each rank receives the reduction of all lower ranks from its predecessor.
QUARRY_SLOW int scan(void const* sent, void* received, int count, MPI_Datatype type, MPI_Op op,
                     MPI_Comm communicator, bool includes_own, char const* function) {
  rank_state& rank = self();
  membership* among = nullptr;
  if (int const error = check(rank, communicator, count, type, 0, function, among)) return error;
  if (!is_reducible(rank, op, type))
    return fail(rank, communicator, MPI_ERR_OP, function, "operation", op);
  collective const of{rank, *among, call::scan};
  auto const elements = static_cast<bytes>(count);
  bytes const length = elements * static_cast<bytes>(element_extent(rank, type));
  scratch const lower{rank, length};
  scratch const total{rank, length};
  copy_bytes(total.data(), sent == MPI_IN_PLACE ? received : sent, length);
  if (of.own != 0) {
    of.receive(lower.data(), length, of.own - 1);
    reduce(rank, lower.data(), total.data(), elements, type, op);
  }
  if (of.own + 1 < of.size) of.send(total.data(), length, of.own + 1);
  if (includes_own) {
    copy_bytes(received, total.data(), length);
  } else if (of.own != 0) {
    copy_bytes(received, lower.data(), length);
  }
  return MPI_SUCCESS;
}

/// Counts and places of each rank's part: the same for all, or from arrays.
struct parts {
  int const* counts;
  int const* displacements;
  int count;

  [[nodiscard]] QUARRY_HD bytes count_of(std::uint32_t rank) const {
    return static_cast<bytes>(counts == nullptr ? count : counts[rank]);
  }
  [[nodiscard]] QUARRY_HD std::int64_t place_of(std::uint32_t rank) const {
    return displacements == nullptr ? static_cast<std::int64_t>(rank) * count : displacements[rank];
  }
};

QUARRY_SLOW int gather(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                       parts const& into, MPI_Datatype received_type, int root,
                       MPI_Comm communicator, char const* function) {
  rank_state& rank = self();
  membership* among = nullptr;
  bool const is_root = member(rank, communicator) != nullptr &&
                       member(rank, communicator)->rank == static_cast<std::uint32_t>(root);
  bool const is_in_place = sent == MPI_IN_PLACE;
  if (int const error = check(rank, communicator, is_in_place ? 0 : sent_count,
                              is_in_place ? MPI_BYTE : sent_type, root, function, among))
    return error;
  collective const of{rank, *among, call::gather};
  if (!is_root) {
    send_elements(of, sent, static_cast<bytes>(sent_count), sent_type,
                  static_cast<std::uint32_t>(root));
    return MPI_SUCCESS;
  }
  std::int64_t const extent = element_extent(rank, received_type);
  for (std::uint32_t from = 0; from < of.size; ++from) {
    char* const place = at(received, into.place_of(from), extent);
    if (from != of.own) {
      receive_elements(of, place, into.count_of(from), received_type, from);
    } else if (!is_in_place) {
      copy_elements(rank, sent, static_cast<bytes>(sent_count), sent_type, place, received_type);
    }
  }
  return MPI_SUCCESS;
}

QUARRY_SLOW int scatter(void const* sent, parts const& from, MPI_Datatype sent_type, void* received,
                        int received_count, MPI_Datatype received_type, int root,
                        MPI_Comm communicator, char const* function) {
  rank_state& rank = self();
  membership* among = nullptr;
  bool const is_in_place = received == MPI_IN_PLACE;
  if (int const error = check(rank, communicator, is_in_place ? 0 : received_count,
                              is_in_place ? MPI_BYTE : received_type, root, function, among))
    return error;
  collective const of{rank, *among, call::scatter};
  if (of.own != static_cast<std::uint32_t>(root)) {
    receive_elements(of, received, static_cast<bytes>(received_count), received_type,
                     static_cast<std::uint32_t>(root));
    return MPI_SUCCESS;
  }
  std::int64_t const extent = element_extent(rank, sent_type);
  for (std::uint32_t to = 0; to < of.size; ++to) {
    char const* const place = at(sent, from.place_of(to), extent);
    if (to != of.own) {
      send_elements(of, place, from.count_of(to), sent_type, to);
    } else if (!is_in_place) {
      copy_elements(rank, place, from.count_of(to), sent_type, received, received_type);
    }
  }
  return MPI_SUCCESS;
}

/// Each rank sends its part around a ring; after size - 1 steps every rank has all parts.
QUARRY_SLOW int allgather(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                          parts const& into, MPI_Datatype received_type, MPI_Comm communicator,
                          char const* function) {
  rank_state& rank = self();
  membership* among = nullptr;
  if (int const error = check(rank, communicator, 0, received_type, 0, function, among))
    return error;
  collective const of{rank, *among, call::allgather};
  std::int64_t const extent = element_extent(rank, received_type);
  if (sent != MPI_IN_PLACE)
    copy_elements(rank, sent, static_cast<bytes>(sent_count), sent_type,
                  at(received, into.place_of(of.own), extent), received_type);
  std::uint32_t const to = (of.own + 1) % of.size;
  std::uint32_t const from = (of.own + of.size - 1) % of.size;
  for (std::uint32_t step = 0; step + 1 < of.size; ++step) {
    std::uint32_t const outgoing = (of.own + of.size - step) % of.size;
    std::uint32_t const incoming = (of.own + of.size - step - 1) % of.size;
    request wanted = wanted_elements(of, at(received, into.place_of(incoming), extent),
                                     into.count_of(incoming), received_type, from);
    begin_receive(rank, wanted);
    send_elements(of, at(received, into.place_of(outgoing), extent), into.count_of(outgoing),
                  received_type, to);
    wait_until(rank, reason_of(of.which, wanted.source, wanted.tag, wanted.context),
               [&] { return wanted.is_done != 0; });
  }
  return MPI_SUCCESS;
}

/// In step k each rank exchanges with the ranks at distance k.
QUARRY_SLOW int alltoall(void const* sent, parts const& outgoing, MPI_Datatype sent_type,
                         void* received, parts const& incoming, MPI_Datatype received_type,
                         MPI_Comm communicator, char const* function) {
  rank_state& rank = self();
  membership* among = nullptr;
  if (int const error = check(rank, communicator, 0, received_type, 0, function, among))
    return error;
  collective const of{rank, *among, call::alltoall};
  std::int64_t const received_extent = element_extent(rank, received_type);
  bool const is_in_place = sent == MPI_IN_PLACE;
  bytes copied = 0;
  if (is_in_place) {
    for (std::uint32_t i = 0; i < of.size; ++i)
      copied += incoming.count_of(i) * element_size(rank, received_type);
  }
  scratch const copy{rank, copied};
  bytes offset = 0;
  if (is_in_place) {
    for (std::uint32_t i = 0; i < of.size; ++i) {
      pack(rank, copy.data() + offset, at(received, incoming.place_of(i), received_extent),
           incoming.count_of(i), received_type);
      offset += incoming.count_of(i) * element_size(rank, received_type);
    }
  }
  std::int64_t const sent_extent = is_in_place ? 0 : element_extent(rank, sent_type);
  for (std::uint32_t step = 0; step < of.size; ++step) {
    std::uint32_t const to = (of.own + step) % of.size;
    std::uint32_t const from = (of.own + of.size - step) % of.size;
    char* const target = at(received, incoming.place_of(from), received_extent);
    if (step == 0) {
      if (!is_in_place)
        copy_elements(rank, at(sent, outgoing.place_of(to), sent_extent), outgoing.count_of(to),
                      sent_type, target, received_type);
      continue;
    }
    request wanted = wanted_elements(of, target, incoming.count_of(from), received_type, from);
    begin_receive(rank, wanted);
    if (is_in_place) {
      bytes place = 0;
      for (std::uint32_t i = 0; i < to; ++i)
        place += incoming.count_of(i) * element_size(rank, received_type);
      send_elements(of, copy.data() + place,
                    incoming.count_of(to) * element_size(rank, received_type), MPI_BYTE, to);
    } else {
      send_elements(of, at(sent, outgoing.place_of(to), sent_extent), outgoing.count_of(to),
                    sent_type, to);
    }
    wait_until(rank, reason_of(of.which, wanted.source, wanted.tag, wanted.context),
               [&] { return wanted.is_done != 0; });
  }
  return MPI_SUCCESS;
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
QUARRY_HD int MPI_Gather(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                         int received_count, MPI_Datatype received_type, int root,
                         MPI_Comm communicator) {
  return gather(sent, sent_count, sent_type, received, {nullptr, nullptr, received_count},
                received_type, root, communicator, "MPI_Gather");
}
QUARRY_HD int MPI_Gatherv(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                          int const* received_counts, int const* displacements,
                          MPI_Datatype received_type, int root, MPI_Comm communicator) {
  return gather(sent, sent_count, sent_type, received, {received_counts, displacements, 0},
                received_type, root, communicator, "MPI_Gatherv");
}
QUARRY_HD int MPI_Scatter(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                          int received_count, MPI_Datatype received_type, int root,
                          MPI_Comm communicator) {
  return scatter(sent, {nullptr, nullptr, sent_count}, sent_type, received, received_count,
                 received_type, root, communicator, "MPI_Scatter");
}
QUARRY_HD int MPI_Scatterv(void const* sent, int const* sent_counts, int const* displacements,
                           MPI_Datatype sent_type, void* received, int received_count,
                           MPI_Datatype received_type, int root, MPI_Comm communicator) {
  return scatter(sent, {sent_counts, displacements, 0}, sent_type, received, received_count,
                 received_type, root, communicator, "MPI_Scatterv");
}
QUARRY_HD int MPI_Allgather(void const* sent, int sent_count, MPI_Datatype sent_type,
                            void* received, int received_count, MPI_Datatype received_type,
                            MPI_Comm communicator) {
  return allgather(sent, sent_count, sent_type, received, {nullptr, nullptr, received_count},
                   received_type, communicator, "MPI_Allgather");
}
QUARRY_HD int MPI_Allgatherv(void const* sent, int sent_count, MPI_Datatype sent_type,
                             void* received, int const* received_counts, int const* displacements,
                             MPI_Datatype received_type, MPI_Comm communicator) {
  return allgather(sent, sent_count, sent_type, received, {received_counts, displacements, 0},
                   received_type, communicator, "MPI_Allgatherv");
}
QUARRY_HD int MPI_Alltoall(void const* sent, int sent_count, MPI_Datatype sent_type, void* received,
                           int received_count, MPI_Datatype received_type, MPI_Comm communicator) {
  return alltoall(sent, {nullptr, nullptr, sent_count}, sent_type, received,
                  {nullptr, nullptr, received_count}, received_type, communicator, "MPI_Alltoall");
}
QUARRY_HD int MPI_Alltoallv(void const* sent, int const* sent_counts, int const* sent_displacements,
                            MPI_Datatype sent_type, void* received, int const* received_counts,
                            int const* received_displacements, MPI_Datatype received_type,
                            MPI_Comm communicator) {
  return alltoall(sent, {sent_counts, sent_displacements, 0}, sent_type, received,
                  {received_counts, received_displacements, 0}, received_type, communicator,
                  "MPI_Alltoallv");
}

}  // extern "C"
