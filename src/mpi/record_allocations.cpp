// SPDX-License-Identifier: Apache-2.0
// What programs call that quarry-mpicc compiled with --record-allocations or --meet-at-safe, for
// tests of its analysis.
#include "meeting.hpp"

#include <cstdio>
#include <cstdlib>
#include <mutex>

/// Appends «rank site size» to the file that QUARRY_MPI_ALLOCATIONS names.
extern "C" void quarry_mpi_record_allocation(std::uint32_t site, std::uint64_t size) {
  static std::mutex lock;
  static std::FILE* const file = [] {
    char const* const path = std::getenv("QUARRY_MPI_ALLOCATIONS");
    return path == nullptr ? nullptr : std::fopen(path, "w");
  }();
  std::lock_guard const guard{lock};
  if (file == nullptr) return;
  std::fprintf(file, "%u %u %llu\n", quarry::mpi::own_rank(), site,
               static_cast<unsigned long long>(size));
  std::fflush(file);
}

/// Waits until all ranks have called this. Ranks that wait in another call never meet these.
extern "C" void quarry_mpi_meet_before_allocation() {
  using namespace quarry::mpi;
  meeting::barrier(call::memory);
}
