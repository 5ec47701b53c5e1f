// SPDX-License-Identifier: Apache-2.0
// What happens when an MPI function fails.
#include "format.hpp"
#include "handles.hpp"

#include <new>

namespace quarry::inline QUARRY_ABI::mpi {

/// An error handler that the program made.
struct error_handler {
  MPI_Comm_errhandler_function* function;
  std::uint32_t references;  // of the program's handles and of communicators
  std::uint32_t handles;     // that the program has not freed; 0: the handle is invalid
};

inline constexpr MPI_Errhandler first_handler = 0x100;

namespace {

[[nodiscard]] QUARRY_HD error_handler* handler_of(rank_state& rank, MPI_Errhandler handle) {
  auto const index = static_cast<std::uint32_t>(handle - first_handler);
  return handle >= first_handler && index < rank.handlers.capacity ? rank.handlers.entries[index]
                                                                   : nullptr;
}

[[nodiscard]] QUARRY_HD bool is_handler(rank_state& rank, MPI_Errhandler handle) {
  if (handle == MPI_ERRORS_ARE_FATAL || handle == MPI_ERRORS_RETURN || handle == MPI_ERRORS_ABORT)
    return true;
  error_handler const* const made = handler_of(rank, handle);
  return made != nullptr && made->handles != 0;
}

/// Calls the program's function. On the GPU, a function with variable arguments takes a pointer to
/// them.
QUARRY_SLOW void call_handler(error_handler const& made, MPI_Comm communicator, int code) {
#ifdef __CUDACC__
  reinterpret_cast<void (*)(MPI_Comm*, int*, void*)>(made.function)(&communicator, &code, nullptr);
#else
  made.function(&communicator, &code);
#endif
}

}  // namespace

QUARRY_SLOW void retain_handler(rank_state& rank, MPI_Errhandler handle) {
  if (error_handler* const made = handler_of(rank, handle)) ++made->references;
}

QUARRY_SLOW void release_handler(rank_state& rank, MPI_Errhandler handle) {
  error_handler* const made = handler_of(rank, handle);
  if (made == nullptr || --made->references != 0) return;
  release(made);
  free_entry(rank.handlers, handle - first_handler);
}

QUARRY_HD MPI_Errhandler handler_for(rank_state& rank, MPI_Comm handle) {
  membership const* const at = member(rank, handle);
  return at != nullptr ? at->handler : member(rank, MPI_COMM_WORLD)->handler;
}

QUARRY_SLOW severity severity_of(rank_state& rank, MPI_Errhandler handler) {
  if (handler == MPI_ERRORS_RETURN) return severity::returns;
  return handler_of(rank, handler) != nullptr ? severity::calls : severity::ends;
}

QUARRY_SLOW bool begin_abort(std::int32_t code) {
  world& all = the_world();
  std::uint32_t first = 0;
  if (!simt::atomic_ref<std::uint32_t>{all.aborted}.compare_exchange(first, 1, simt::acq_rel))
    return false;
  all.abort_code = code != 0 && code % 256 == 0 ? 1 : code;  // a status has 8 bits
  all.first_failure.place = own_record().place;
#ifdef QUARRY_MPI_PROCESSES
  for (std::uint32_t i = 0; i < the_processes().count; ++i)
    if (i != the_processes().own)
      quarry_mpi_put(&the_processes().words->aborted,
                     std::uint64_t{1} << 32 | static_cast<std::uint32_t>(all.abort_code), i);
#endif
  return true;
}

[[noreturn]] QUARRY_SLOW void abort_program(std::int32_t code) {
  (void)begin_abort(code);
  end_rank(code);
}

QUARRY_SLOW int fail(rank_state& rank, MPI_Comm handle, int code, char const* function,
                     char const* what, std::int64_t value) {
  if (member(rank, handle) == nullptr) handle = MPI_COMM_WORLD;
  return fail_with(rank, member(rank, handle)->handler, handle, code, function, what, value);
}

QUARRY_SLOW int fail_with(rank_state& rank, MPI_Errhandler handler, MPI_Comm handle, int code,
                          char const* function, char const* what, std::int64_t value) {
  if (handler == MPI_ERRORS_RETURN) return code;
  if (error_handler const* const made = handler_of(rank, handler)) {
    call_handler(*made, handle, code);
    return code;
  }
  if (begin_abort(code)) {
    failure& first = the_world().first_failure;
    text_buffer text{first.text, failure::text_bytes};
    text.add("rank ");
    text.add_number(rank.rank);
    text.add(": ");
    text.add(function);
    text.add(": ");
    text.add(error_text(rank, code));
    text.add(" (");
    if (code == MPI_ERR_COMM && value == MPI_COMM_NULL) {  // 0 is the world in other reports
      text.add("MPI_COMM_NULL");
    } else {
      text.add(what);
      text.add(" ");
      text.add_number(value);
    }
    text.add(")");
    first.length = static_cast<std::uint32_t>(text.length());
  }
  end_rank(code);
}

}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Comm_create_errhandler(MPI_Comm_errhandler_function* function,
                                         MPI_Errhandler* handle) {
  rank_state& rank = self();
  std::int32_t const index = free_handle(rank.handlers);
  void* const memory = index < 0 ? nullptr : allocate(sizeof(error_handler));
  if (memory == nullptr)
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_NO_MEM, "MPI_Comm_create_errhandler", "size",
                sizeof(error_handler));
  rank.handlers.entries[index] = ::new (memory) error_handler{function, 1, 1};
  *handle = first_handler + index;
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Comm_set_errhandler(MPI_Comm communicator, MPI_Errhandler handle) {
  rank_state& rank = self();
  membership* const at = member(rank, communicator);
  if (at == nullptr)
    return fail(rank, communicator, MPI_ERR_COMM, "MPI_Comm_set_errhandler", "communicator",
                communicator);
  if (!is_handler(rank, handle))
    return fail(rank, communicator, MPI_ERR_ARG, "MPI_Comm_set_errhandler", "error handler",
                handle);
  retain_handler(rank, handle);
  release_handler(rank, at->handler);
  at->handler = handle;
  return MPI_SUCCESS;
}
QUARRY_HD int MPI_Errhandler_create(MPI_Comm_errhandler_function* function,
                                    MPI_Errhandler* handle) {
  return MPI_Comm_create_errhandler(function, handle);
}
QUARRY_HD int MPI_Errhandler_get(MPI_Comm communicator, MPI_Errhandler* handle) {
  return MPI_Comm_get_errhandler(communicator, handle);
}
QUARRY_HD int MPI_Errhandler_set(MPI_Comm communicator, MPI_Errhandler handle) {
  return MPI_Comm_set_errhandler(communicator, handle);
}

/// The program frees the handle that it gets with MPI_Errhandler_free.
QUARRY_HD int MPI_Comm_get_errhandler(MPI_Comm communicator, MPI_Errhandler* handle) {
  rank_state& rank = self();
  membership const* const at = member(rank, communicator);
  if (at == nullptr)
    return fail(rank, communicator, MPI_ERR_COMM, "MPI_Comm_get_errhandler", "communicator",
                communicator);
  *handle = at->handler;
  if (error_handler* const made = handler_of(rank, *handle)) {
    ++made->references;
    ++made->handles;
  }
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Errhandler_free(MPI_Errhandler* handle) {
  rank_state& rank = self();
  if (!is_handler(rank, *handle))
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_ARG, "MPI_Errhandler_free", "error handler", *handle);
  if (error_handler* const made = handler_of(rank, *handle)) {
    --made->handles;
    release_handler(rank, *handle);
  }
  *handle = MPI_ERRHANDLER_NULL;
  return MPI_SUCCESS;
}

/// Does what the program's own check of an error would do: calls the communicator's handler.
QUARRY_HD int MPI_Comm_call_errhandler(MPI_Comm communicator, int code) {
  rank_state& rank = self();
  membership const* const at = member(rank, communicator);
  if (at == nullptr)
    return fail(rank, communicator, MPI_ERR_COMM, "MPI_Comm_call_errhandler", "communicator",
                communicator);
  (void)fail_with(rank, at->handler, communicator, code, "MPI_Comm_call_errhandler", "code", code);
  return MPI_SUCCESS;
}

}  // extern "C"
