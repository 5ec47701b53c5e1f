// SPDX-License-Identifier: Apache-2.0
#include "checks.hpp"

#include "format.hpp"
#include "output.hpp"

#include <new>

namespace quarry::inline QUARRY_ABI::mpi {

QUARRY_SLOW checks* checks_of(rank_state& rank) {
  if (rank.checked == nullptr) {
    void* const memory = allocate(sizeof(checks));
    rank.checked = memory == nullptr ? &no_checks : ::new (memory) checks{};
  }
  return rank.checked == &no_checks ? nullptr : rank.checked;
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

QUARRY_SLOW report_line& report_line::name(MPI_Datatype basic) {
  char text[MPI_MAX_OBJECT_NAME] = "several types";
  int length = 0;
  if (basic != MPI_DATATYPE_NULL) (void)MPI_Type_get_name(basic, text, &length);
  return *this << text;
}

QUARRY_SLOW void report_line::write(rank_state& rank) {
  if (checks* const own = checks_of(rank)) ++own->reports;
  write_text(rank, report_stream, text_, length_);
}

namespace {

/// Calls `act` for each part of a buffer, until it returns false.
template <class Act>
QUARRY_HD void for_each_part(used_buffer const& of, Act const& act) {
  if (of.parts == nullptr) {
    (void)act(of.only);
    return;
  }
  for (bytes i = 0; i < of.count && act(of.parts[i]); ++i) {
  }
}

[[nodiscard]] QUARRY_HD std::uint64_t hash_of(rank_state& rank, used_buffer const& of) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for_each_part(of, [&](used_elements const& part) {
    hash = hash_of(rank, part, hash);
    return true;
  });
  return hash;
}

[[nodiscard]] QUARRY_HD used_elements elements_in(rank_state& rank, checked_buffer const& of) {
  return of.count <= 0 ? used_elements{}
                       : elements_in(rank, of.data, static_cast<bytes>(of.count), of.type);
}

/// O(log n) for n parts that are sorted, else O(n).
[[nodiscard]] QUARRY_SLOW bool has_byte_of(rank_state& rank, used_buffer const& used,
                                           used_elements const& asked) {
  if (used.parts == nullptr) return have_common_byte(rank, used.only, asked);
  bytes first = 0;
  byte_span const span = span_of(rank, asked);
  if (used.is_sorted) {  // parts before `first` end before the bytes
    bytes end = used.count;
    while (first < end) {
      bytes const middle = first + (end - first) / 2;
      if (span_of(rank, used.parts[middle]).end <= span.begin)
        first = middle + 1;
      else
        end = middle;
    }
  }
  for (bytes i = first; i < used.count; ++i) {
    if (have_common_byte(rank, used.parts[i], asked)) return true;
    if (used.is_sorted && span_of(rank, used.parts[i]).begin >= span.end) return false;
  }
  return false;
}

[[nodiscard]] QUARRY_HD char const* name_of(begun_operation what) {
  return what == begun_operation::send          ? "send"
         : what == begun_operation::receive     ? "receive"
         : what == begun_operation::exchange    ? "exchange"
         : what == begun_operation::generalized ? "generalized request"
                                                : "collective operation";
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

[[nodiscard]] QUARRY_HD bool is_checked(MPI_Request handle) {
  return handle >= first_checked_request &&
         handle - first_checked_request < static_cast<std::int32_t>(checked_requests);
}
[[nodiscard]] QUARRY_HD std::uint32_t number_of(MPI_Request handle) {
  return static_cast<std::uint32_t>(handle - first_checked_request);
}

}  // namespace

QUARRY_SLOW int note_made(int error, made_object::kind what, int handle) {
  // no object has the handle 0, and nobody need free the empty group
  bool const is_none =
      handle == 0 || (what == made_object::kind::group && handle == MPI_GROUP_EMPTY);
  checks* const own = error != MPI_SUCCESS || is_none ? nullptr : checks_of(self());
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

QUARRY_SLOW bool check_elements(rank_state& rank, used_elements const& asked, bool writes) {
  checks const* const own = asked.count == 0 ? nullptr : checks_of(rank);
  if (own == nullptr) return false;
  byte_span const span = span_of(rank, asked);
  auto const has_byte = [&](open_request const& each) {
    return has_byte_of(rank, each.used, asked);
  };
  open_request const* found = own->requests.first_touching(span, true, has_byte);
  if (found == nullptr && writes) found = own->requests.first_touching(span, false, has_byte);
  if (found == nullptr) return false;
  report_line line;
  line << rank.rank << ": this call ";
  line << (writes ? "receives into " : "sends ") << "bytes that the unfinished "
       << name_of(found->what) << " of ";
  line.at(found->place) << " uses: ";
  line.at(own_record().place).write(rank);
  return true;
}

QUARRY_SLOW void check_buffer(checked_buffer const& used, bool writes) {
  rank_state& rank = self();
  (void)check_elements(rank, elements_in(rank, used), writes);
}

namespace {

/// From the first byte of all parts to behind the last one.
[[nodiscard]] QUARRY_SLOW byte_span span_of(rank_state& rank, used_buffer const& of) {
  byte_span all{INT64_MAX, INT64_MIN};
  for_each_part(of, [&](used_elements const& part) {
    byte_span const span = part.count == 0 ? byte_span{INT64_MAX, INT64_MIN} : span_of(rank, part);
    if (span.begin < all.begin) all.begin = span.begin;
    if (span.end > all.end) all.end = span.end;
    return true;
  });
  return all;
}

}  // namespace

QUARRY_SLOW void check_apart(rank_state& rank, used_buffer const& sent,
                             used_buffer const& received) {
  byte_span const from = span_of(rank, sent);
  byte_span const to = span_of(rank, received);
  if (from.begin >= to.end || to.begin >= from.end) return;
  bool const searches_sent = sent.parts == nullptr || sent.is_sorted;
  used_buffer const& searched = searches_sent ? sent : received;
  bool is_found = false;
  for_each_part(searches_sent ? received : sent, [&](used_elements const& part) {
    is_found = part.count != 0 && has_byte_of(rank, searched, part);
    return !is_found;
  });
  if (!is_found) return;
  report_line line;
  line << rank.rank << ": this call receives into bytes that it sends: ";
  line.at(own_record().place).write(rank);
}

QUARRY_SLOW void check_parts_apart(rank_state& rank, used_buffer const& received) {
  if (received.parts == nullptr || received.is_sorted) return;
  if (!have_common_byte(rank, received.parts, received.count)) return;
  report_line line;
  line << rank.rank << ": this call receives into the same bytes twice: ";
  line.at(own_record().place).write(rank);
}

QUARRY_SLOW void check_apart(checked_buffer const& sent, checked_buffer const& received) {
  rank_state& rank = self();
  check_apart(rank, {elements_in(rank, sent)}, {elements_in(rank, received)});
}

namespace {

/// Frees what an entry keeps of its buffer.
QUARRY_SLOW void release_buffer(rank_state& rank, used_buffer const& used) {
  for_each_part(used, [&](used_elements const& part) {
    release_type(rank, part.type);
    return true;
  });
  if (used.parts != nullptr) release(used.parts);
}

/// What a new entry has in common with others of its request.
struct entry_facts {
  MPI_Request handle;  // the runtime's
  std::uint32_t number;
  begun_operation what;
  bool is_further;
  bool is_persistent;
  bool is_active;
};

/// Adds an entry for a buffer that the request uses; false if the heap has no memory. The entry
/// keeps the types, which the program may free.
QUARRY_SLOW bool add_entry(rank_state& rank, checks& own, entry_facts const& of,
                           used_buffer const& used, bool writes) {
  for_each_part(used, [&](used_elements const& part) {
    retain_type(rank, part.type);
    return true;
  });
  void* const memory = allocate(sizeof(open_request));
  if (memory == nullptr) {
    release_buffer(rank, used);
    return false;
  }
  std::uint32_t const place = own_record().place;
  std::uint64_t const hash = writes ? 0 : hash_of(rank, used);
  auto* const made = ::new (memory)
      open_request{of.handle,           of.number, place,  place,         of.what,         used,
                   span_of(rank, used), hash,      writes, of.is_further, of.is_persistent};
  own.requests.add(*made);
  own.requests.set_active(*made, of.is_active);
  return true;
}

/// The next number that no open request has: a program may keep a persistent request for longer
/// than the numbers take to wrap.
[[nodiscard]] QUARRY_SLOW std::uint32_t new_number(checks& own) {
  std::uint32_t number = own.next_number++ % checked_requests;
  while (own.requests.first_of(number) != nullptr) number = own.next_number++ % checked_requests;
  return number;
}

/// Gives the program a request in place of the runtime's; false if there is none, or no memory.
QUARRY_SLOW bool begin_request(int error, MPI_Request* handle, begun_operation what,
                               checked_buffer const& buffer, bool writes, form how) {
  rank_state& rank = self();
  checks* const own = error != MPI_SUCCESS ? nullptr : checks_of(rank);
  if (own == nullptr) return false;
  std::uint32_t const number = new_number(*own);
  bool const is_persistent = how == form::persistent;
  if (!add_entry(rank, *own, {*handle, number, what, false, is_persistent, !is_persistent},
                 {elements_in(rank, buffer)}, writes))
    return false;
  *handle = first_checked_request + static_cast<MPI_Request>(number);
  return true;
}

/// A send's buffer must be as it was when the send began.
QUARRY_SLOW void check_hash(rank_state& rank, open_request const& ended) {
  if (ended.writes || hash_of(rank, ended.used) == ended.hash) return;
  report_line line;
  line << rank.rank << ": the buffer of the " << name_of(ended.what) << " of ";
  line.at(ended.place) << " changed before the " << name_of(ended.what) << " was complete: ";
  line.at(own_record().place).write(rank);
}

/// Removes the entries of the request.
QUARRY_SLOW void forget_request(rank_state& rank, checks& own, MPI_Request handle) {
  while (open_request* const freed = own.requests.first_of(number_of(handle))) {
    own.requests.remove(*freed);
    release_buffer(rank, freed->used);
    release(freed);
  }
}

}  // namespace

QUARRY_SLOW int note_begun(int error, MPI_Request* handle, begun_operation what,
                           checked_buffer const& buffer) {
  (void)begin_request(error, handle, what, buffer, what != begun_operation::send,
                      form::nonblocking);
  return error;
}

QUARRY_SLOW int note_both(int error, MPI_Request* handle, begun_operation what,
                          checked_buffer const& read, checked_buffer const& written) {
  rank_state& rank = self();
  if (begin_request(error, handle, what, written, true, form::nonblocking))
    note_buffer(rank, *handle, {elements_in(rank, read)}, false);
  return error;
}

QUARRY_SLOW int note_persistent(int error, MPI_Request* handle, begun_operation what,
                                checked_buffer const& buffer) {
  (void)begin_request(error, handle, what, buffer, what != begun_operation::send, form::persistent);
  return error;
}

QUARRY_SLOW void note_buffer(rank_state& rank, MPI_Request handle, used_buffer const& used,
                             bool writes) {
  bool const is_empty = used.parts == nullptr && used.only.count == 0;
  checks* const own = !is_checked(handle) || is_empty ? nullptr : checks_of(rank);
  open_request const* const first =
      own == nullptr ? nullptr : own->requests.first_of(number_of(handle));
  if (first == nullptr) {
    if (used.parts != nullptr) release(used.parts);
    return;
  }
  (void)add_entry(
      rank, *own,
      {first->handle, first->number, first->what, true, first->is_persistent, first->is_active},
      used, writes);
}

namespace {

/// Calls `act` for each entry of the request, if that is persistent.
template <class Act>
QUARRY_HD void for_persistent(checks* own, MPI_Request handle, Act const& act) {
  open_request* at =
      own == nullptr || !is_checked(handle) ? nullptr : own->requests.first_of(number_of(handle));
  for (; at != nullptr && at->is_persistent; at = open_requests::next_of(*at)) act(*at);
}

[[nodiscard]] QUARRY_HD bool has_begun(rank_state& rank, open_request const& of) {
  request const* const made = request_of(rank, of.handle);
  return made != nullptr && made->is_active != 0;
}

}  // namespace

QUARRY_SLOW void check_start(rank_state& rank, MPI_Request handle) {
  for_persistent(checks_of(rank), handle, [&](open_request const& asked) {
    if (asked.is_active) return;
    for_each_part(asked.used, [&](used_elements const& part) {
      return !check_elements(rank, part, asked.writes);
    });
  });
}

QUARRY_SLOW void note_started(rank_state& rank, MPI_Request handle) {
  checks* const own = checks_of(rank);
  for_persistent(own, handle, [&](open_request& begun) {
    if (begun.is_active || !has_begun(rank, begun)) return;
    own->requests.set_active(begun, true);
    begun.place = own_record().place;
    if (!begun.writes) begun.hash = hash_of(rank, begun.used);
  });
}

QUARRY_SLOW std::uint32_t place_of(checks& own, MPI_Request handle) {
  open_request* at = handle == MPI_REQUEST_NULL ? nullptr : own.requests.first();
  while (at != nullptr && at->handle != handle) at = open_requests::next(*at);
  return at == nullptr ? own_record().place : at->place;
}

QUARRY_SLOW MPI_Request runtime_handle(rank_state& rank, MPI_Request handle) {
  checks* const own = is_checked(handle) ? checks_of(rank) : nullptr;
  if (own == nullptr) return handle;
  open_request const* const found = own->requests.first_of(number_of(handle));
  return found != nullptr ? found->handle : handle;  // an unknown one is refused
}

QUARRY_SLOW void note_ended(rank_state& rank, MPI_Request* handle, MPI_Request now) {
  if (!is_checked(*handle)) {
    *handle = now;
    return;
  }
  checks* const own = checks_of(rank);
  if (own == nullptr) return;
  if (now != MPI_REQUEST_NULL) {
    for_persistent(own, *handle, [&](open_request& kept) {
      if (!kept.is_active || has_begun(rank, kept)) return;
      check_hash(rank, kept);
      own->requests.set_active(kept, false);
      kept.place = kept.made_at;
    });
    return;
  }
  note_done(rank, *handle);
  forget_request(rank, *own, *handle);
  *handle = MPI_REQUEST_NULL;
}

QUARRY_SLOW void note_done(rank_state& rank, MPI_Request handle) {
  checks* const own = is_checked(handle) ? checks_of(rank) : nullptr;
  open_request* at = own == nullptr ? nullptr : own->requests.first_of(number_of(handle));
  for (; at != nullptr; at = open_requests::next_of(*at)) {
    if (!at->is_active) continue;
    check_hash(rank, *at);
    own->requests.set_active(*at, false);
  }
}

QUARRY_SLOW void note_released(rank_state& rank, MPI_Request* handle) {
  checks* const own = is_checked(*handle) ? checks_of(rank) : nullptr;
  if (own != nullptr) forget_request(rank, *own, *handle);
  *handle = MPI_REQUEST_NULL;
}

namespace {

/// Reports the info objects, or all others.
QUARRY_SLOW void report_objects(rank_state& rank, checks const& own, bool infos) {
  for (made_object const* at = own.objects; at != nullptr; at = at->next) {
    if ((at->what == made_object::kind::info) != infos) continue;
    report_line line;
    line << rank.rank << ": the " << name_of(at->what) << " of ";
    line.at(at->place) << " is not freed";
    line.write(rank);
  }
}

}  // namespace

QUARRY_SLOW void report_end(rank_state& rank) {
  if (rank.is_initialized != 0 && rank.stage == life::running) {
    report_line line;
    line << rank.rank << ": the program has ended without MPI_Finalize";
    line.write(rank);
  }
  if (checks* const own = checks_of(rank)) report_objects(rank, *own, true);
}

QUARRY_SLOW void report_leftovers(rank_state& rank) {
  checks* const own = checks_of(rank);
  if (own == nullptr) return;
  for (open_request* at = own->requests.first(); at != nullptr; at = open_requests::next(*at)) {
    if (at->is_further) continue;
    report_line line;
    line << rank.rank << ": no call "
         << (at->is_active || !at->is_persistent ? "completes the "
                                                 : "frees the persistent request of the ")
         << name_of(at->what) << " of ";
    line.at(at->place).write(rank);
  }
  report_objects(rank, *own, false);
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

}  // namespace quarry::inline QUARRY_ABI::mpi
