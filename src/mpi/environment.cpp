// SPDX-License-Identifier: Apache-2.0
#include "collectives.hpp"
#include "format.hpp"
#include "output.hpp"
#include "rank.hpp"

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

/// The time since some moment, in nanoseconds.
QUARRY_HD std::uint64_t clock_ns() {
#ifdef __CUDA_ARCH__
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
#else
  return host_clock_ns();
#endif
}

}  // namespace

QUARRY_HD char const* error_text(int code) {
  switch (code) {
    case MPI_SUCCESS:
      return "no error";
    case MPI_ERR_BUFFER:
      return "invalid buffer";
    case MPI_ERR_COUNT:
      return "invalid count";
    case MPI_ERR_TYPE:
      return "invalid datatype";
    case MPI_ERR_TAG:
      return "invalid tag";
    case MPI_ERR_COMM:
      return "invalid communicator";
    case MPI_ERR_RANK:
      return "there is no such rank in the communicator";
    case MPI_ERR_REQUEST:
      return "invalid request";
    case MPI_ERR_ROOT:
      return "there is no such root in the communicator";
    case MPI_ERR_GROUP:
      return "invalid group";
    case MPI_ERR_OP:
      return "the operation does not exist or does not accept the datatype";
    case MPI_ERR_ARG:
      return "invalid argument";
    case MPI_ERR_TRUNCATE:
      return "the message is longer than the buffer";
    case MPI_ERR_IN_STATUS:
      return "the statuses have the errors";
    case MPI_ERR_NO_MEM:
      return "the heap has no memory; run with a larger --heap";
    default:
      return "unknown error";
  }
}

[[noreturn]] QUARRY_SLOW void abort_program(std::int32_t code) {
  world& all = the_world();
  std::uint32_t first = 0;
  if (simt::atomic_ref<std::uint32_t>{all.aborted}.compare_exchange(first, 1, simt::acq_rel))
    all.abort_code = code;
  end_rank(code);
}

QUARRY_SLOW int fail(rank_state& rank, MPI_Comm handle, int code, char const* function,
                     char const* what, std::int64_t value) {
  membership const* at = member(rank, handle);
  if (at == nullptr) at = &rank.member_of[0];
  if (at->handler == MPI_ERRORS_RETURN) return code;
  char line[200];
  text_buffer text{line, sizeof(line)};
  text.add("quarry-mpirun: rank ");
  text.add_number(rank.rank);
  text.add(": ");
  text.add(function);
  text.add(": ");
  text.add(error_text(code));
  text.add(" (");
  text.add(what);
  text.add(" ");
  text.add_number(value);
  text.add("), place ");
  text.add_number(own_record().place);
  text.add("\n");
  write_text(rank, 2, line, text.length());
  abort_program(code);
}

}  // namespace quarry::inline QUARRY_ABI::mpi

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Init(int*, char***) {
  self().is_initialized = 1;
  return MPI_SUCCESS;
}
QUARRY_HD int MPI_Init_thread(int* argc, char*** argv, int, int* provided) {
  *provided = MPI_THREAD_FUNNELED;
  return MPI_Init(argc, argv);
}
QUARRY_HD int MPI_Initialized(int* flag) {
  *flag = self().is_initialized != 0;
  return MPI_SUCCESS;
}
QUARRY_HD int MPI_Finalize() {
  rank_state& rank = self();
  barrier(rank, rank.member_of[0], call::finalize);
  rank.stage = life::finalized;
  return MPI_SUCCESS;
}
QUARRY_HD int MPI_Finalized(int* flag) {
  *flag = self().stage == life::finalized;
  return MPI_SUCCESS;
}
QUARRY_HD int MPI_Abort(MPI_Comm, int code) {
  rank_state& rank = self();
  char line[80];
  text_buffer text{line, sizeof(line)};
  text.add("quarry-mpirun: rank ");
  text.add_number(rank.rank);
  text.add(" called MPI_Abort with code ");
  text.add_number(code);
  text.add("\n");
  write_text(rank, 2, line, text.length());
  abort_program(code);
}
QUARRY_HD double MPI_Wtime() {
  return static_cast<double>(clock_ns() - the_world().start_ns) * 1e-9;
}
QUARRY_HD double MPI_Wtick() { return 1e-9; }
QUARRY_HD int MPI_Get_processor_name(char* name, int* length) {
  text_buffer text{name, MPI_MAX_PROCESSOR_NAME};
  text.add(the_world().is_gpu != 0 ? "gpu" : "cpu");
  text.terminate();
  *length = static_cast<int>(text.length());
  return MPI_SUCCESS;
}
QUARRY_HD int MPI_Get_version(int* version, int* subversion) {
  *version = MPI_VERSION;
  *subversion = MPI_SUBVERSION;
  return MPI_SUCCESS;
}
QUARRY_HD int MPI_Error_class(int code, int* error_class) {
  *error_class = code;
  return MPI_SUCCESS;
}
QUARRY_HD int MPI_Error_string(int code, char* result, int* length) {
  text_buffer text{result, MPI_MAX_ERROR_STRING};
  text.add(error_text(code));
  text.terminate();
  *length = static_cast<int>(text.length());
  return MPI_SUCCESS;
}
QUARRY_HD int MPI_Type_size(MPI_Datatype type, int* size) {
  rank_state& rank = self();
  if (!is_type(rank, type))
    return fail(rank, MPI_COMM_WORLD, MPI_ERR_TYPE, "MPI_Type_size", "datatype", type);
  *size = static_cast<int>(element_size(rank, type));
  return MPI_SUCCESS;
}

}  // extern "C"
