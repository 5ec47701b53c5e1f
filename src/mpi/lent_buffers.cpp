// SPDX-License-Identifier: Apache-2.0
#include "lent_buffers.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// What happens to the buffers that a call lends.
enum class lending : std::uint32_t {
  checks,    // they are compared with those of unfinished operations
  notes,     // they belong to a request from now on
  compares,  // what the call receives is compared with itself and with what it sends
};

/// The bytes of a buffer that an operation reads or writes. Those that it reads come first.
class lender {
 public:
  QUARRY_HD lender(rank_state& rank, lending how, MPI_Request handle = MPI_REQUEST_NULL)
      : rank_{rank}, how_{how}, handle_{handle} {}
  QUARRY_HD ~lender() {
    if (sent_.parts != nullptr) release(sent_.parts);
  }
  lender(lender const&) = delete;

  QUARRY_SLOW void add_elements(void const* data, bytes count, MPI_Datatype type, bool writes) {
    if (data == MPI_IN_PLACE) return;
    used_elements const used = elements_in(rank_, data, count, type);
    if (how_ == lending::checks) {
      (void)check_elements(rank_, used, writes);
    } else {
      add({used}, writes);
    }
  }

  /// Adds the parts for which `exists(index)` holds. Parts side by side are one. To note n parts
  /// that lie apart takes 24 n bytes; they are not noted if the heap has no memory.
  template <class Exists>
  QUARRY_HD void add_parts(part_buffer const& buffer, std::uint32_t parts, bool writes,
                           Exists const& exists) {
    if (buffer.is_in_place()) return;
    if (how_ == lending::checks) {
      for_each_part(buffer, parts, exists, [&](used_elements const& part) {
        return !check_elements(rank_, part, writes);
      });
      return;
    }
    used_buffer used;
    for_each_part(buffer, parts, exists, [&](used_elements const& part) {
      used.only = part;
      ++used.count;
      return true;
    });
    if (used.count > 1) {
      used.parts = static_cast<used_elements*>(allocate(used.count * sizeof(used_elements)));
      if (used.parts == nullptr) return;
      used.is_sorted = true;
      bytes next = 0;
      std::int64_t end = INT64_MIN;
      for_each_part(buffer, parts, exists, [&](used_elements const& part) {
        byte_span const span = span_of(rank_, part);
        used.is_sorted = used.is_sorted && span.begin >= end;
        end = span.end;
        used.parts[next++] = part;
        return true;
      });
    }
    add(used, writes);
  }

 private:
  /// Takes over the memory of the parts.
  QUARRY_SLOW void add(used_buffer const& used, bool writes) {
    if (how_ == lending::notes) {
      note_buffer(rank_, handle_, used, writes);
    } else if (!writes) {
      sent_ = used;
    } else {
      check_apart(rank_, sent_, used);
      check_parts_apart(rank_, used);
      if (used.parts != nullptr) release(used.parts);
    }
  }

  /// Calls `act` for the bytes of parts, until it returns false.
  template <class Exists, class Act>
  QUARRY_HD void for_each_part(part_buffer const& buffer, std::uint32_t parts, Exists const& exists,
                               Act const& act) const {
    used_elements range;
    for (std::uint32_t i = 0; i < parts; ++i) {
      if (!exists(i) || buffer.count_of(i) <= 0) continue;
      buffer_part const part = buffer.part_of(rank_, i);
      used_elements const next = elements_in(rank_, part.data, part.count, part.type);
      if (next.count == 0) continue;
      bool const are_dense = next.is_dense() && range.is_dense() && range.count != 0;
      if (are_dense && next.data == range.data + range.count) {
        range.count += next.count;
      } else if (are_dense && next.data + next.count == range.data) {
        range = {next.data, next.count + range.count, MPI_BYTE};
      } else {
        if (range.count != 0 && !act(range)) return;
        range = next;
      }
    }
    if (range.count != 0) (void)act(range);
  }

  rank_state& rank_;
  lending how_;
  MPI_Request handle_;
  used_buffer sent_;
};

QUARRY_SLOW void lend_to_neighbours(lender& to, collective_call const& call, neighbours const& near,
                                    used_parts const& used) {
  if (!near.is_known) return;
  auto const has_target = [&](int index) { return near.target(index) != MPI_PROC_NULL; };
  bool const sends_one = call.what == operation::neighbor_allgather ||
                         call.what == operation::neighbor_allgatherv;  // the same to all targets
  auto const sends = [&](std::uint32_t i) {
    if (!sends_one) return has_target(static_cast<int>(i));
    int target = 0;
    while (target < near.targets && !has_target(target)) ++target;
    return target < near.targets;
  };
  auto const receives = [&](std::uint32_t i) {
    return near.source(static_cast<int>(i)) != MPI_PROC_NULL;
  };
  to.add_parts(call.sent, used.sent, false, sends);
  to.add_parts(call.received, used.received, true, receives);
}

/// Operations that reduce have their count and type in `received`.
QUARRY_SLOW void lend_to_reduction(lender& to, collective_call const& call,
                                   collective_peers const& peers) {
  part_buffer const& result = call.received;
  bool const has_root = call.what == operation::reduce;
  bool const is_root = peers.is_root(call.root);
  bool const is_in_place = call.sent.is_in_place();
  auto const count_of = [&](std::uint32_t part) {
    int const count = result.count_of(part);
    return static_cast<bytes>(count < 0 ? 0 : count);  // the call is refused
  };
  bytes const own_count = count_of(peers.local.own);
  bytes count = own_count;  // of elements that the rank reduces
  if (call.what == operation::reduce_scatter) {
    count = 0;
    for (std::uint32_t i = 0; i < peers.local.size; ++i) count += count_of(i);
  } else if (call.what == operation::reduce_scatter_block) {
    count *= peers.local.size;
  }
  if (has_root && peers.has_two_groups && call.root < 0) {
    if (is_root) to.add_elements(result.data, count, result.type, true);
    return;
  }
  to.add_elements(call.sent.data, count, result.type, false);
  bool const has_no_result = call.what == operation::exscan && peers.local.own == 0;
  if (has_no_result) return;
  if (!has_root || (is_root && !peers.has_two_groups))
    to.add_elements(result.data, is_in_place ? count : own_count, result.type, true);
}

QUARRY_SLOW void lend(lender& to, collective_call const& call, collective_peers const& peers) {
  used_parts const used = parts_of(call, peers);
  auto const all = [](std::uint32_t) { return true; };
  if (reduces(call.what)) return lend_to_reduction(to, call, peers);
  if (is_among_neighbours(call.what)) return lend_to_neighbours(to, call, peers.near, used);
  if (call.what == operation::bcast)
    return to.add_parts(call.received, used.received, !peers.is_root(call.root), all);
  to.add_parts(call.sent, used.sent, false, all);
  to.add_parts(call.received, used.received, true, all);
}

/// A wrong call lends nothing: it is refused.
QUARRY_SLOW void lend(MPI_Comm communicator, collective_call const& call, lending how,
                      MPI_Request handle = MPI_REQUEST_NULL) {
  rank_state& rank = self();
  membership* const at = member(rank, communicator);
  if (at == nullptr || checks_of(rank) == nullptr) return;
  lender to{rank, how, handle};
  lend(to, call, peers_of(rank, *at, call.what));
}

}  // namespace

QUARRY_SLOW void check_lent(MPI_Comm communicator, collective_call const& call) {
  checks const* const own = checks_of(self());
  if (own != nullptr && !own->requests.is_empty()) lend(communicator, call, lending::checks);
}

QUARRY_SLOW void check_lent_apart(MPI_Comm communicator, collective_call const& call) {
  bool const has_one_part = call.what == operation::bcast || call.received.is_in_place();
  if (!has_one_part) lend(communicator, call, lending::compares);
}

QUARRY_SLOW void note_lent(MPI_Comm communicator, collective_call const& call, MPI_Request handle) {
  if (handle != MPI_REQUEST_NULL) lend(communicator, call, lending::notes, handle);
}

}  // namespace quarry::inline QUARRY_ABI::mpi
