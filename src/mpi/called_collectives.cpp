// SPDX-License-Identifier: Apache-2.0
// Collective operations of checked programs: what the members of a communicator have called.
#include "checks.hpp"
#include "shared_once.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// What the first member has called, in a ring of the communicator.
struct called_collective {
  /// 2 * n: the words are those of operation n; 2 * n - 1: a rank writes them. Atomic.
  std::uint64_t state;
  std::uint64_t words[sizeof(checked_operation) / 8];  // atomic
};
struct called_collectives {
  static constexpr std::uint32_t places = 64;
  called_collective calls[places];
};

namespace {

QUARRY_HD void store_words(called_collective& place, checked_operation const& call) {
  std::uint64_t words[sizeof(call) / 8];
  std::memcpy(words, &call, sizeof(call));
  for (std::uint32_t i = 0; i < sizeof(call) / 8; ++i)
    simt::atomic_ref<std::uint64_t>{place.words[i]}.store(words[i], simt::release);  // (R)
}
[[nodiscard]] QUARRY_HD checked_operation load_words(called_collective& place) {
  std::uint64_t words[sizeof(checked_operation) / 8];
  for (std::uint32_t i = 0; i < sizeof(checked_operation) / 8; ++i)
    words[i] = simt::atomic_ref<std::uint64_t>{place.words[i]}.load(simt::acquire);  // (A)
  checked_operation call;
  std::memcpy(&call, words, sizeof(call));
  return call;
}

/// The rank's count of the communicator's operations; null if the heap has no memory.
[[nodiscard]] QUARRY_SLOW operation_count* count_of(checks& own, communicator* shared) {
  operation_count* at = own.counts;
  while (at != nullptr && at->shared != shared) at = at->next;
  if (at != nullptr) return at;
  void* const memory = allocate(sizeof(operation_count));
  if (memory == nullptr) return nullptr;
  return own.counts = ::new (memory) operation_count{own.counts, shared, 0};
}

/// What differs; null if nothing does.
[[nodiscard]] QUARRY_HD char const* difference(checked_operation const& left,
                                               checked_operation const& right) {
  auto const differ = [](std::int64_t one, std::int64_t other) {
    return one != other && one != -1 && other != -1;
  };
  char const* one = left.name.text();
  char const* other = right.name.text();
  while (*one != 0 && *one == *other) ++one, ++other;
  return *one != *other                  ? "operations"
         : left.root != right.root       ? "roots"
         : differ(left.op, right.op)     ? "reductions"
         : differ(left.size, right.size) ? "sizes"
         : differ(left.type, right.type) ? "datatypes"
                                         : nullptr;
}

QUARRY_SLOW void report_difference(rank_state& rank, char const* what, checked_operation const& own,
                                   checked_operation const& other) {
  report_line line;
  line << rank.rank << ": " << what << " differ: " << own.name.text() << " of ";
  line.at(own.place) << ", but rank " << other.rank << " calls " << other.name.text() << " of ";
  line.at(other.place);
  line.write(rank);
  abort_program(MPI_ERR_OTHER);
}

}  // namespace

QUARRY_SLOW void check_collective(MPI_Comm handle, checked_operation call) {
  rank_state& rank = self();
  membership const* const at = member(rank, handle);
  if (at == nullptr) return;  // the operation itself reports it
  communicator* const group = compared_group(*at);
  if (group != at->shared && (call.root == MPI_ROOT || call.root == MPI_PROC_NULL))
    call.root = call.type = call.size = -1;  // only the root's own buffer counts
  checks* const own = checks_of(rank);
  if (own == nullptr || own->compares_nothing != 0) return;
  called_collectives* const all = shared_once(group->called);
  operation_count* const count = all == nullptr ? nullptr : count_of(*own, group);
  if (count == nullptr) {
    own->compares_nothing = 1;
    return;
  }
  std::uint64_t const number = ++count->value;
  call.place = own_record().place;
  call.rank = rank.rank;
  // The first member writes its call (W); the others compare theirs. A rank compares nothing if it
  // comes so late that the place has a later operation, or so early that another rank still writes
  // an earlier one. A reader that sees a word of a later operation (A, R) also sees that the state
  // has changed, since the writer changed it before.
  called_collective& place = all->calls[number % called_collectives::places];
  simt::atomic_ref<std::uint64_t> const state{place.state};
  std::uint64_t seen = state.load(simt::acquire);
  while (seen < 2 * number - 1) {
    if (seen % 2 != 0) return;
    if (!state.compare_exchange(seen, 2 * number - 1, simt::acq_rel)) continue;
    store_words(place, call);
    state.store(2 * number, simt::release);  // (W)
    return;
  }
  poll_until(rank, reason_of(mpi::call::memory), [&] {
    seen = state.load(simt::acquire);  // synchronizes with (W)
    return seen != 2 * number - 1;
  });
  if (seen != 2 * number) return;
  checked_operation const first = load_words(place);
  if (state.load(simt::acquire) != 2 * number) return;
  if (char const* const what = difference(call, first)) report_difference(rank, what, call, first);
}

QUARRY_SLOW void forget_operations(communicator const* freed) {
  checks* const own = checks_of(self());
  if (own == nullptr) return;
  operation_count** link = &own->counts;
  while (*link != nullptr && (*link)->shared != freed) link = &(*link)->next;
  if (operation_count* const found = *link) {
    *link = found->next;
    release(found);
  }
}

}  // namespace quarry::inline QUARRY_ABI::mpi
