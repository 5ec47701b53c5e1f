// SPDX-License-Identifier: Apache-2.0
#include "checks.hpp"

#include "format.hpp"
#include "output.hpp"

#include <new>

namespace quarry::inline QUARRY_ABI::mpi {

QUARRY_SLOW checks* checks_of(rank_state& rank) {
  if (rank.checked == nullptr)
    if (void* const memory = allocate(sizeof(checks))) rank.checked = ::new (memory) checks{};
  return rank.checked;
}

QUARRY_HD report_line::report_line() { *this << "check: rank "; }
QUARRY_HD report_line& report_line::operator<<(char const* text) {
  for (; *text != 0 && length_ < most; ++text) text_[length_++] = *text;
  return *this;
}
QUARRY_HD report_line& report_line::operator<<(std::int64_t number) {
  char digits[24];
  text_buffer text{digits, sizeof(digits)};
  text.add_number(number);
  text.terminate();
  return *this << digits;
}
QUARRY_HD report_line& report_line::at(std::uint32_t place) { return *this << "@" << place << "@"; }

QUARRY_SLOW void report_line::write(rank_state& rank) {
  if (checks* const own = checks_of(rank)) ++own->reports;
  write_text(rank, report_stream, text_, length_);
}

namespace {

[[nodiscard]] QUARRY_HD std::uint64_t hash_of(char const* begin, char const* end) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (; begin != end; ++begin) hash = (hash ^ static_cast<unsigned char>(*begin)) * 0x100000001b3;
  return hash;
}

struct buffer_range {
  char const* begin = nullptr;
  char const* end = nullptr;
};
/// The bytes of a buffer, if they lie together: elements of other types may lie between those of a
/// derived type.
[[nodiscard]] QUARRY_SLOW buffer_range range_of(rank_state& rank, void const* data, int count,
                                                MPI_Datatype type) {
  if (count <= 0 || !is_type(rank, type) || !is_dense(rank, type) || data == MPI_BOTTOM) return {};
  auto const* const begin = static_cast<char const*>(data);
  return {begin, begin + static_cast<bytes>(count) * element_size(rank, type)};
}

[[nodiscard]] QUARRY_HD char const* name_of(made_object::kind what) {
  switch (what) {
    case made_object::kind::communicator:
      return "communicator";
    case made_object::kind::type:
      return "datatype";
    case made_object::kind::group:
      return "group";
    case made_object::kind::op:
      return "operation";
    default:
      return "info object";
  }
}

[[nodiscard]] QUARRY_SLOW open_request** find(checks& own, MPI_Request handle) {
  open_request** link = &own.requests;
  auto const number = static_cast<std::uint32_t>(handle - first_checked_request);
  while (*link != nullptr && (*link)->number != number) link = &(*link)->next;
  return link;
}

[[nodiscard]] QUARRY_HD bool is_checked(MPI_Request handle) {
  return handle >= first_checked_request &&
         handle - first_checked_request < static_cast<std::int32_t>(checked_requests);
}

}  // namespace

QUARRY_SLOW int note_made(int error, made_object::kind what, int handle) {
  bool const is_null = handle == 0;  // as all handles of no object are
  checks* const own = error != MPI_SUCCESS || is_null ? nullptr : checks_of(self());
  if (own == nullptr) return error;
  if (void* const memory = allocate(sizeof(made_object)))
    own->objects = ::new (memory) made_object{own->objects, what, handle, own_record().place};
  return error;
}

QUARRY_SLOW void note_freed(made_object::kind what, int handle) {
  checks* const own = checks_of(self());
  if (own == nullptr) return;
  made_object** link = &own->objects;
  while (*link != nullptr && ((*link)->what != what || (*link)->handle != handle))
    link = &(*link)->next;
  made_object* const freed = *link;
  if (freed == nullptr) return;
  *link = freed->next;
  release(freed);
}

QUARRY_SLOW void note_end_of(MPI_Comm handle) {
  rank_state& rank = self();
  membership const* const at = member(rank, handle);
  checks* const own = at == nullptr ? nullptr : checks_of(rank);
  if (own == nullptr) return;
  operation_count** link = &own->counts;
  while (*link != nullptr && (*link)->shared != at->shared) link = &(*link)->next;
  if (operation_count* const freed = *link) {
    *link = freed->next;
    release(freed);
  }
}

QUARRY_SLOW void check_buffer(void const* data, int count, MPI_Datatype type, bool writes) {
  rank_state& rank = self();
  checks* const own = checks_of(rank);
  buffer_range const asked = range_of(rank, data, count, type);
  if (own == nullptr || asked.begin == asked.end) return;
  for (open_request const* at = own->requests; at != nullptr; at = at->next) {
    bool const is_apart = at->begin == nullptr || asked.end <= at->begin || at->end <= asked.begin;
    if (is_apart || (!writes && at->receives == 0)) continue;
    report_line line;
    line << rank.rank << ": this call ";
    line << (writes ? "receives into " : "sends ") << "bytes that the unfinished "
         << (at->receives != 0 ? "receive" : "send") << " of ";
    line.at(at->place) << " uses: ";
    line.at(own_record().place).write(rank);
    return;
  }
}

QUARRY_SLOW int note_begun(int error, MPI_Request* handle, void const* data, int count,
                           MPI_Datatype type, bool receives) {
  rank_state& rank = self();
  checks* const own = error != MPI_SUCCESS ? nullptr : checks_of(rank);
  void* const memory = own == nullptr ? nullptr : allocate(sizeof(open_request));
  if (memory == nullptr) return error;
  buffer_range const used = range_of(rank, data, count, type);
  std::uint32_t const number = own->next_number++ % checked_requests;
  own->requests = ::new (memory) open_request{
      own->requests,      *handle,    number,   own_record().place,
      receives ? 1u : 0u, used.begin, used.end, receives ? 0 : hash_of(used.begin, used.end)};
  *handle = first_checked_request + static_cast<MPI_Request>(number);
  return error;
}

QUARRY_SLOW MPI_Request runtime_handle(rank_state& rank, MPI_Request handle) {
  checks* const own = is_checked(handle) ? checks_of(rank) : nullptr;
  if (own == nullptr) return handle;
  open_request const* const found = *find(*own, handle);
  return found != nullptr ? found->handle : handle;  // an unknown one is refused
}

QUARRY_SLOW void note_ended(rank_state& rank, MPI_Request* handle, MPI_Request now) {
  if (!is_checked(*handle)) {
    *handle = now;
    return;
  }
  checks* const own = checks_of(rank);
  if (now != MPI_REQUEST_NULL || own == nullptr) return;
  open_request** const link = find(*own, *handle);
  open_request* const ended = *link;
  *handle = MPI_REQUEST_NULL;
  if (ended == nullptr) return;
  if (ended->receives == 0 && hash_of(ended->begin, ended->end) != ended->hash) {
    report_line line;
    line << rank.rank << ": the buffer of the send of ";
    line.at(ended->place) << " changed before the send was complete: ";
    line.at(own_record().place).write(rank);
  }
  *link = ended->next;
  release(ended);
}

QUARRY_SLOW void note_released(rank_state& rank, MPI_Request* handle) {
  checks* const own = is_checked(*handle) ? checks_of(rank) : nullptr;
  if (own != nullptr) {
    open_request** const link = find(*own, *handle);
    if (open_request* const freed = *link) {
      *link = freed->next;
      release(freed);
    }
  }
  *handle = MPI_REQUEST_NULL;
}

QUARRY_SLOW void report_leftovers(rank_state& rank) {
  checks* const own = checks_of(rank);
  if (own == nullptr) return;
  for (open_request const* at = own->requests; at != nullptr; at = at->next) {
    report_line line;
    line << rank.rank << ": no call completes the " << (at->receives != 0 ? "receive" : "send")
         << " of ";
    line.at(at->place).write(rank);
  }
  for (made_object const* at = own->objects; at != nullptr; at = at->next) {
    report_line line;
    line << rank.rank << ": the " << name_of(at->what) << " of ";
    line.at(at->place) << " is not freed";
    line.write(rank);
  }
  progress(rank);
  for (message const* at = rank.unexpected_first; at != nullptr; at = at->later) {
    if (at->head.context() % 2 != 0) continue;  // of a collective operation
    report_line line;
    line << rank.rank << ": nobody has received a message of "
         << static_cast<std::int64_t>(at->size) << " bytes, tag "
         << static_cast<std::int64_t>(at->head.tag) << ", from rank "
         << static_cast<std::int64_t>(at->head.source) << " of communicator "
         << static_cast<std::int64_t>(at->head.context() / 2);
    line.write(rank);
  }
}

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
[[nodiscard]] QUARRY_SLOW operation_count* count_of(rank_state& rank, communicator* shared) {
  checks* const own = checks_of(rank);
  if (own == nullptr) return nullptr;
  operation_count* at = own->counts;
  while (at != nullptr && at->shared != shared) at = at->next;
  if (at != nullptr) return at;
  void* const memory = allocate(sizeof(operation_count));
  if (memory == nullptr) return nullptr;
  return own->counts = ::new (memory) operation_count{own->counts, shared, 0};
}

/// What differs; null if nothing does.
[[nodiscard]] QUARRY_HD char const* difference(checked_operation const& left,
                                               checked_operation const& right) {
  auto const differ = [](std::int64_t one, std::int64_t other) {
    return one != other && one != -1 && other != -1;
  };
  char const* one = left.name;
  char const* other = right.name;
  while (*one != 0 && *one == *other) ++one, ++other;
  return *one != *other                  ? "operations"
         : left.root != right.root       ? "roots"
         : differ(left.op, right.op)     ? "reductions"
         : differ(left.type, right.type) ? "datatypes"
         : differ(left.size, right.size) ? "sizes"
                                         : nullptr;
}

QUARRY_SLOW void report_difference(rank_state& rank, char const* what, checked_operation const& own,
                                   checked_operation const& other) {
  report_line line;
  line << rank.rank << ": " << what << " differ: " << own.name << " of ";
  line.at(own.place) << ", but rank " << other.rank << " calls " << other.name << " of ";
  line.at(other.place);
  line.write(rank);
  abort_program(MPI_ERR_OTHER);
}

}  // namespace

QUARRY_SLOW void check_collective(MPI_Comm handle, checked_operation call) {
  rank_state& rank = self();
  membership const* const at = member(rank, handle);
  if (at == nullptr || at->shared->local != nullptr) return;  // the operation itself reports it
  simt::atomic_ref<called_collectives*> const ring{at->shared->called};
  called_collectives* all = ring.load(simt::acquire);
  if (all == nullptr) {
    void* const memory = allocate(sizeof(called_collectives));
    if (memory == nullptr) return;
    auto* const made = ::new (memory) called_collectives{};
    if (ring.compare_exchange(all, made, simt::acq_rel)) {
      all = made;
    } else {
      release(made);
      all = ring.load(simt::acquire);  // another member's
    }
  }
  operation_count* const count = count_of(rank, at->shared);
  if (count == nullptr) return;
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

}  // namespace quarry::inline QUARRY_ABI::mpi
