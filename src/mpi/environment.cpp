// SPDX-License-Identifier: Apache-2.0
#include "attributes.hpp"
#include "collectives.hpp"
#include "format.hpp"
#include "rank.hpp"

#include "quarry/core/version.h"
#include "quarry/simt/clock.hpp"

using namespace quarry::mpi;

extern "C" {

QUARRY_HD int MPI_Init(int*, char***) {
  self().is_initialized = 1;
  return MPI_SUCCESS;
}
/// A rank is one thread, and a program has no way to start others. So every level holds, and
/// programs that need the highest one run.
QUARRY_HD int MPI_Init_thread(int* argc, char*** argv, int, int* provided) {
  *provided = MPI_THREAD_MULTIPLE;
  return MPI_Init(argc, argv);
}
QUARRY_HD int MPI_Query_thread(int* provided) {
  *provided = MPI_THREAD_MULTIPLE;
  return MPI_SUCCESS;
}
QUARRY_HD int MPI_Is_thread_main(int* flag) {
  *flag = 1;
  return MPI_SUCCESS;
}
QUARRY_HD int MPI_Initialized(int* flag) {
  *flag = self().is_initialized != 0;
  return MPI_SUCCESS;
}
QUARRY_HD int MPI_Finalize() {
  rank_state& rank = self();
  if (int const error = delete_attributes(rank, attribute::owner::communicator, MPI_COMM_SELF))
    return fail(rank, MPI_COMM_SELF, error, "MPI_Finalize", "communicator", MPI_COMM_SELF);
  barrier(rank, rank.member_of[0], call::finalize);
  simt::atomic_ref<life>{rank.stage}.store(life::finalized, simt::relaxed);
  return MPI_SUCCESS;
}
QUARRY_HD int MPI_Finalized(int* flag) {
  *flag = self().stage == life::finalized;
  return MPI_SUCCESS;
}
QUARRY_HD int MPI_Abort(MPI_Comm, int code) {
  if (begin_abort(code)) {
    failure& first = the_world().first_failure;
    text_buffer text{first.text, failure::text_bytes};
    text.add("rank ");
    text.add_number(self().rank);
    text.add(" called MPI_Abort with code ");
    text.add_number(code);
    first.length = static_cast<std::uint32_t>(text.length());
  }
  end_rank(code);
}
QUARRY_HD double MPI_Wtime() {
  return static_cast<double>(simt::clock_ns() - the_world().start_ns) * 1e-9;
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
QUARRY_HD int MPI_Get_library_version(char* result, int* length) {
  text_buffer text{result, MPI_MAX_LIBRARY_VERSION_STRING};
  text.add("Quarry ");
  text.add_number(QUARRY_VERSION_MAJOR);
  text.add(".");
  text.add_number(QUARRY_VERSION_MINOR);
  text.add(".");
  text.add_number(QUARRY_VERSION_PATCH);
  text.terminate();
  *length = static_cast<int>(text.length());
  return MPI_SUCCESS;
}

QUARRY_HD int MPI_Alloc_mem(MPI_Aint size, MPI_Info, void* address) {
  char const* const name = "MPI_Alloc_mem";
  rank_state& rank = self();
  if (size < 0) return fail(rank, MPI_COMM_WORLD, MPI_ERR_ARG, name, "size", size);
  void* const memory = allocate(static_cast<bytes>(size) + (size == 0 ? 1 : 0));
  if (memory == nullptr) return fail(rank, MPI_COMM_WORLD, MPI_ERR_NO_MEM, name, "size", size);
  *static_cast<void**>(address) = memory;
  return MPI_SUCCESS;
}
QUARRY_HD int MPI_Free_mem(void* memory) {
  if (memory != nullptr) release(memory);
  return MPI_SUCCESS;
}

/// There is no profiler to control.
#ifdef __CUDACC__
QUARRY_HD int MPI_Pcontrol(int, void*) { return MPI_SUCCESS; }  // as c_variadic.hpp says
#else
int MPI_Pcontrol(int, ...) { return MPI_SUCCESS; }
#endif

}  // extern "C"
