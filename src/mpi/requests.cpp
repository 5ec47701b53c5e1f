// SPDX-License-Identifier: Apache-2.0
#include "requests.hpp"

#include "fast_path.hpp"
#include "handles.hpp"
#include "operation_pair.hpp"
#include "point_to_point.hpp"
#include "schedule.hpp"

#include <new>

namespace quarry::inline QUARRY_ABI::mpi {

QUARRY_SLOW request* new_request(rank_state& rank, MPI_Request* handle) {
  if (request* const spare = take_spare_request(rank, handle)) {
    *spare = {};
    spare->handle = *handle;
    return spare;
  }
  std::int32_t index = -1;
  void* memory = nullptr;
  memory = wait_for_memory(rank, reason_of(call::memory), [&] {
    if (index < 0) index = free_handle(rank.requests);
    return index < 0 ? nullptr : allocate(sizeof(request) + sizeof(message));
  });
  auto* const made = ::new (memory) request{};
  rank.requests.entries[index] = made;
  *handle = made->handle = index + 1;
  return made;
}

QUARRY_SLOW void delete_request(rank_state& rank, request* done) {
  switch (done->what) {
    case request::kind::receive:
    case request::kind::cancelled:
      release_type(rank, done->type);
      break;
    case request::kind::pair:
      delete_pair(rank, *done);
      break;
    case request::kind::generalized:
      (void)end_generalized(*done);
      break;
    case request::kind::collective:
      delete_schedule(rank, &schedule_of(*done));
      break;
    default:
      break;
  }
  if (done->freed == request::handle_kind::communicator) release_handler(rank, done->handler);
  done->is_persistent = 0;  // what the fast path does not set
  done->is_active = 1;
  if (rank.spare_requests < most_spare_requests) return make_spare(rank, done);
  free_entry(rank.requests, done->handle - 1);
  release(done);
}

QUARRY_SLOW void finish_freed(rank_state& rank, request& done) {
  if (done.freed == request::handle_kind::request) return delete_request(rank, &done);
  if (done.error != MPI_SUCCESS || done.is_persistent != 0) return;  // the handler is needed
  release_handler(rank, done.handler);
  done.freed = request::handle_kind::none;
}

QUARRY_SLOW void keep_handler(rank_state& rank, MPI_Comm freed, MPI_Errhandler handler) {
  for (std::uint32_t i = 0; i < rank.requests.capacity; ++i) {
    request* const asked = rank.requests.entries[i];
    if (asked == nullptr || asked->what == request::kind::none ||
        asked->what == request::kind::send || asked->communicator != freed ||
        asked->freed != request::handle_kind::none ||
        (asked->is_done != 0 && asked->error == MPI_SUCCESS && asked->is_persistent == 0))
      continue;
    asked->freed = request::handle_kind::communicator;
    asked->communicator = MPI_COMM_NULL;
    asked->handler = handler;
    retain_handler(rank, handler);
  }
}

QUARRY_SLOW bool is_complete(rank_state&, request& asked) {
  if (asked.what == request::kind::pair) return is_pair_complete(asked);
  if (asked.what == request::kind::generalized) return is_generalized_complete(asked);
  return is_message_complete(asked);
}

QUARRY_SLOW bool is_message_complete(request& asked) {
  if (asked.is_done == 0 && asked.sent != nullptr && is_received(*asked.sent)) {
    bool const is_back = asked.sent->is_taken == message::taken_back;
    finish_send(*asked.sent);
    asked.sent = nullptr;
    asked.is_done = is_back ? request::done_by_cancel : 1;
  }
  return asked.is_done != 0;
}

QUARRY_SLOW void delete_freed(rank_state& rank) {
  request** link = &rank.freed_requests;
  while (*link != nullptr) {
    request* const freed = *link;
    if (!is_complete(rank, *freed)) {
      link = &freed->next;
      continue;
    }
    *link = freed->next;
    delete_request(rank, freed);  // may call the program, which may change the list
    link = &rank.freed_requests;
  }
}

QUARRY_SLOW void set_status(MPI_Status* status, request const& done) {
  if (status == MPI_STATUS_IGNORE) return;
  set_status(status, done.source, done.tag, done.size);
  status->is_cancelled = done.is_done == request::done_by_cancel;
}

namespace {

/// What a rank that waits for the request tells the launcher.
[[nodiscard]] QUARRY_HD wait_reason reason_of(request const& asked) {
  return asked.what == request::kind::collective
             ? mpi::reason_of(schedule_of(asked))
             : mpi::reason_of(call::wait, asked.source, asked.tag, asked.context);
}

QUARRY_HD MPI_Status* status_of(MPI_Status* statuses, int index) {
  return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : &statuses[index];
}

/// What is left of a request that is done and freed. If there is an error, it keeps the error
/// handler until `release_handler`.
struct outcome {
  int error;
  MPI_Comm communicator;
  std::int64_t count;
  MPI_Errhandler handler;
};

/// Frees a request that is done, and sets its handle to MPI_REQUEST_NULL. A persistent request
/// becomes inactive.
QUARRY_SLOW outcome take(rank_state& rank, MPI_Request* handle, MPI_Status* status) {
  request* const done = request_of(rank, *handle);
  set_status(status, *done);
  outcome result{done->error, done->communicator, static_cast<std::int64_t>(done->count),
                 MPI_ERRHANDLER_NULL};
  if (done->what == request::kind::generalized) {
    int const error = end_generalized(*done);
    if (result.error == MPI_SUCCESS) result.error = error;
  }
  if (result.error != MPI_SUCCESS) {
    result.handler = done->freed == request::handle_kind::communicator
                         ? done->handler
                         : handler_for(rank, done->communicator);
    retain_handler(rank, result.handler);
  }
  if (done->is_persistent != 0) {
    done->is_active = 0;
    return result;
  }
  if (done != &complete_send) delete_request(rank, done);
  *handle = MPI_REQUEST_NULL;
  return result;
}

/// The operations that one call completes. If any of them failed, the statuses have their errors
/// and the call returns MPI_ERR_IN_STATUS.
class completions {
 public:
  QUARRY_HD completions(rank_state& rank, int count, MPI_Request const* handles) : rank_{rank} {
    for (int i = 0; i < count; ++i) {
      request* const asked = pending_request(rank, handles[i]);
      if (asked != nullptr && is_complete(rank, *asked) && asked->error != MPI_SUCCESS)
        has_error_ = true;
    }
  }
  /// `index` is that of the request.
  QUARRY_HD void add(int index, MPI_Request* handle, MPI_Status* status) {
    int error = MPI_SUCCESS;
    if (pending_request(rank_, *handle) == nullptr) {
      set_empty(status);
    } else {
      outcome const done = take(rank_, handle, status);
      error = done.error;
      if (error != MPI_SUCCESS) add_error(index, done);
    }
    if (has_error_ && status != MPI_STATUS_IGNORE) status->MPI_ERROR = error;
  }
  [[nodiscard]] QUARRY_HD int result(char const* function) const {
    if (worst_.error == MPI_SUCCESS) return MPI_SUCCESS;
    // a message that ends the program names the error itself
    bool const ends = severity_of(rank_, worst_.handler) == severity::ends;
    int const error =
        fail_with(rank_, worst_.handler, worst_.communicator,
                  ends ? worst_.error : MPI_ERR_IN_STATUS, function, "request", index_);
    release_handler(rank_, worst_.handler);
    return error;
  }

 private:
  /// Keeps the first of the errors whose handlers are the most severe.
  QUARRY_HD void add_error(int index, outcome const& failed) {
    bool const is_worse = worst_.error == MPI_SUCCESS ||
                          severity_of(rank_, failed.handler) > severity_of(rank_, worst_.handler);
    release_handler(rank_, is_worse ? worst_.handler : failed.handler);
    if (!is_worse) return;
    worst_ = failed;
    index_ = index;
  }

  rank_state& rank_;
  bool has_error_ = false;
  outcome worst_{MPI_SUCCESS, MPI_COMM_NULL, 0, MPI_ERRHANDLER_NULL};
  int index_ = 0;
};

/// Returns an error unless all handles are MPI_REQUEST_NULL or belong to requests.
QUARRY_SLOW int check_all(rank_state& rank, int count, MPI_Request const* handles,
                          char const* function) {
  if (count < 0) return fail(rank, MPI_COMM_WORLD, MPI_ERR_COUNT, function, "count", count);
  for (int i = 0; i < count; ++i) {
    if (handles[i] != MPI_REQUEST_NULL && request_of(rank, handles[i]) == nullptr)
      return fail(rank, MPI_COMM_WORLD, MPI_ERR_REQUEST, function, "request", handles[i]);
  }
  return MPI_SUCCESS;
}

/// Completes operations that are all done.
QUARRY_SLOW int take_all(rank_state& rank, int count, MPI_Request* handles, MPI_Status* statuses,
                         char const* function) {
  completions done{rank, count, handles};
  for (int i = 0; i < count; ++i) done.add(i, &handles[i], status_of(statuses, i));
  return done.result(function);
}

QUARRY_HD void wait_for_one(rank_state& rank, request& asked) {
  if (asked.what == request::kind::receive) return wait_for_receive(rank, reason_of(asked), asked);
  if (asked.what == request::kind::pair && asked.is_done == 0) {
    operation_pair& begun = operation_pair::of(asked);
    if (begun.received.exists != 0) wait_for_receive(rank, reason_of(asked), begun.receive);
    if (is_complete(rank, asked)) return;
  }
  wait_until(rank, reason_of(asked), [&] { return is_complete(rank, asked); });
}

QUARRY_SLOW int wait_all(int count, MPI_Request* handles, MPI_Status* statuses) {
  rank_state& rank = self();
  if (int const error = check_all(rank, count, handles, "MPI_Waitall")) return error;
  for (int i = 0; i < count; ++i) {
    request* const asked = pending_request(rank, handles[i]);
    if (asked == nullptr || is_complete(rank, *asked)) continue;
    wait_for_one(rank, *asked);
  }
  return take_all(rank, count, handles, statuses, "MPI_Waitall");
}

QUARRY_SLOW int wait_for(MPI_Request* handle, MPI_Status* status) {
  rank_state& rank = self();
  if (*handle == MPI_REQUEST_NULL) {
    set_empty(status);
    return MPI_SUCCESS;
  }
  request* const asked = request_of(rank, *handle);
  if (asked == nullptr)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_REQUEST, "MPI_Wait", "request", *handle);
  if (asked->is_active == 0) {
    set_empty(status);
    return MPI_SUCCESS;
  }
  wait_for_one(rank, *asked);
  return finish(rank, handle, status, "MPI_Wait");
}

/// Completes sends in slots, and receives of plain types and at most `Most` bytes, if they are done
/// soon. Returns false otherwise; then some of them may be done, and none is freed.
template <std::uint32_t Most>
[[nodiscard]] QUARRY_FAST bool wait_all_soon(rank_state& rank, int count, MPI_Request* handles,
                                             MPI_Status* statuses) {
  if (count < 0) return false;
  own_mail_reader mails = reader_of(rank);
  std::uint32_t const most_looks = looks_for_message(rank);
  std::uint32_t looks = 0;
  std::uint32_t receives = 0;
  QUARRY_NO_UNROLL
  for (int i = 0; i < count; ++i) {
    if (handles[i] == sent_request || handles[i] == MPI_REQUEST_NULL) continue;
    request* const asked = request_of(rank, handles[i]);
    if (asked == nullptr || asked->what != request::kind::receive) return false;
    QUARRY_NO_UNROLL
    while (asked->is_done == 0 && looks < most_looks) {
      own_mail_reader::arrival arrived;
      if (++looks == 2) return_slots(mails);
      if (!mails.look(arrived, mails.taken(), is_crowded())) {
        let_other_rank_run();
        continue;
      }
      fast_receive const result = receive_posted<Most>(rank, mails, arrived);
      if (result == fast_receive::refused) return false;
      if (result == fast_receive::none && !set_aside<Most>(rank, mails, arrived)) return false;
    }
    if (asked->is_done == 0 || asked->error != MPI_SUCCESS || !is_plain(asked->type)) return false;
    ++receives;
  }
  note_long_wait(rank, looks);
  if (rank.spare_requests + receives > most_spare_requests) return false;
  QUARRY_NO_UNROLL
  for (int i = 0; i < count; ++i) {
    MPI_Status* const status = status_of(statuses, i);
    if (handles[i] == MPI_REQUEST_NULL) {
      set_empty(status);
    } else if (handles[i] == sent_request) {
      set_status(status, MPI_ANY_SOURCE, MPI_ANY_TAG, 0);
    } else {
      request* const done = request_of(rank, handles[i]);
      set_status(status, done->source, done->tag, done->size);
      make_spare(rank, done);
    }
    handles[i] = MPI_REQUEST_NULL;
  }
  return true;
}

/// Completes what the path for brief messages has not completed.
QUARRY_SLOW int wait_all_longer(int count, MPI_Request* handles, MPI_Status* statuses) {
  return wait_all_soon<most_inline>(self(), count, handles, statuses)
             ? MPI_SUCCESS
             : wait_all(count, handles, statuses);
}

/// Looks for a request that is done, and waits for one if `waits`. Returns its index; -1 if there
/// is none. `has_active`: whether there are requests.
QUARRY_SLOW int find_done(rank_state& rank, int count, MPI_Request const* handles, bool waits,
                          bool& has_active) {
  int found = -1;
  auto const look = [&] {
    has_active = false;
    for (int i = 0; i < count && found < 0; ++i) {
      request* const asked = pending_request(rank, handles[i]);
      if (asked == nullptr) continue;
      has_active = true;
      if (is_complete(rank, *asked)) found = i;
    }
    return found >= 0 || !has_active;
  };
  if (waits) {
    wait_until(rank, mpi::reason_of(call::wait), look);
  } else {
    look_around(rank);
    (void)look();
  }
  return found;
}

/// MPI_Waitany and MPI_Testany.
QUARRY_SLOW int complete_any(int count, MPI_Request* handles, int* index, int* flag,
                             MPI_Status* status, bool waits, char const* function) {
  rank_state& rank = self();
  if (int const error = check_all(rank, count, handles, function)) return error;
  bool has_active = false;
  int const found = find_done(rank, count, handles, waits, has_active);
  *index = found < 0 ? MPI_UNDEFINED : found;
  *flag = found >= 0 || !has_active ? 1 : 0;
  if (found >= 0) return finish(rank, &handles[found], status, function);
  if (has_active) return end_look(rank, MPI_COMM_WORLD, function);
  set_empty(status);
  return MPI_SUCCESS;
}

/// MPI_Waitsome and MPI_Testsome: completes all operations that are done.
QUARRY_SLOW int complete_some(int count, MPI_Request* handles, int* done_count, int* indices,
                              MPI_Status* statuses, bool waits, char const* function) {
  rank_state& rank = self();
  if (int const error = check_all(rank, count, handles, function)) return error;
  bool has_active = false;
  int const first = find_done(rank, count, handles, waits, has_active);
  *done_count = has_active ? 0 : MPI_UNDEFINED;
  if (!has_active) return MPI_SUCCESS;
  if (first < 0) return end_look(rank, MPI_COMM_WORLD, function);
  completions done{rank, count, handles};
  for (int i = first; i < count; ++i) {
    request* const asked = pending_request(rank, handles[i]);
    if (asked == nullptr || !is_complete(rank, *asked)) continue;
    done.add(i, &handles[i], status_of(statuses, *done_count));
    indices[(*done_count)++] = i;
  }
  return done.result(function);
}

}  // namespace

QUARRY_SLOW int finish(rank_state& rank, MPI_Request* handle, MPI_Status* status,
                       char const* function) {
  outcome const done = take(rank, handle, status);
  if (done.error == MPI_SUCCESS) return MPI_SUCCESS;
  (void)fail_with(rank, done.handler, done.communicator, done.error, function, "count", done.count);
  release_handler(rank, done.handler);
  return done.error;
}

}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Wait(MPI_Request* handle, MPI_Status* status) {
  return wait_all_soon<most_brief>(self(), 1, handle, status) ? MPI_SUCCESS
                                                              : wait_for(handle, status);
}

QUARRY_HD int MPI_Waitall(int count, MPI_Request* handles, MPI_Status* statuses) {
  return wait_all_soon<most_brief>(self(), count, handles, statuses)
             ? MPI_SUCCESS
             : wait_all_longer(count, handles, statuses);
}

QUARRY_HD int MPI_Test(MPI_Request* handle, int* flag, MPI_Status* status) {
  rank_state& rank = self();
  *flag = 1;
  if (*handle == MPI_REQUEST_NULL) {
    set_empty(status);
    return MPI_SUCCESS;
  }
  request* const asked = request_of(rank, *handle);
  if (asked == nullptr)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_REQUEST, "MPI_Test", "request", *handle);
  if (asked->is_active == 0) {
    set_empty(status);
    return MPI_SUCCESS;
  }
  look_around(rank);
  if (is_complete(rank, *asked)) return finish(rank, handle, status, "MPI_Test");
  *flag = 0;
  return end_look(rank, MPI_COMM_WORLD, "MPI_Test");
}

QUARRY_HD int MPI_Testall(int count, MPI_Request* handles, int* flag, MPI_Status* statuses) {
  rank_state& rank = self();
  if (int const error = check_all(rank, count, handles, "MPI_Testall")) return error;
  look_around(rank);
  *flag = 1;
  for (int i = 0; i < count; ++i) {
    request* const asked = pending_request(rank, handles[i]);
    if (asked != nullptr && !is_complete(rank, *asked)) *flag = 0;
  }
  if (*flag != 0) return take_all(rank, count, handles, statuses, "MPI_Testall");
  return end_look(rank, MPI_COMM_WORLD, "MPI_Testall");
}

QUARRY_HD int MPI_Waitany(int count, MPI_Request* handles, int* index, MPI_Status* status) {
  int flag = 0;
  return complete_any(count, handles, index, &flag, status, true, "MPI_Waitany");
}

QUARRY_HD int MPI_Testany(int count, MPI_Request* handles, int* index, int* flag,
                          MPI_Status* status) {
  return complete_any(count, handles, index, flag, status, false, "MPI_Testany");
}

QUARRY_HD int MPI_Waitsome(int count, MPI_Request* handles, int* done_count, int* indices,
                           MPI_Status* statuses) {
  return complete_some(count, handles, done_count, indices, statuses, true, "MPI_Waitsome");
}

QUARRY_HD int MPI_Testsome(int count, MPI_Request* handles, int* done_count, int* indices,
                           MPI_Status* statuses) {
  return complete_some(count, handles, done_count, indices, statuses, false, "MPI_Testsome");
}

QUARRY_HD int MPI_Request_free(MPI_Request* handle) {
  rank_state& rank = self();
  request* const asked = request_of(rank, *handle);
  if (asked == nullptr)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_REQUEST, "MPI_Request_free", "request", *handle);
  *handle = MPI_REQUEST_NULL;
  delete_freed(rank);
  if (asked == &complete_send) return MPI_SUCCESS;
  if (asked->freed == request::handle_kind::communicator) release_handler(rank, asked->handler);
  asked->freed = request::handle_kind::request;
  if (asked->is_active == 0 || is_complete(rank, *asked)) {
    delete_request(rank, asked);
  } else if (asked->what != request::kind::receive && asked->what != request::kind::collective) {
    asked->next = rank.freed_requests;
    rank.freed_requests = asked;
  }  // else: its last message deletes it
  return MPI_SUCCESS;
}

}  // extern "C"
