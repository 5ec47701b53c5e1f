// SPDX-License-Identifier: Apache-2.0
// Kernels by hand for the work of bench/mpi's programs: what an engineer writes who knows the GPU
// and needs this work only. They measure what GPU MPI could reach. Each checks its results.
//
// Ranks are threads where the work is messages between ranks. Elsewhere all threads of the GPU
// share the work. A line's `way` names the fastest of the ways that were tried.
//
// usage: by_hand [PART...]    ping_pong, ring, barrier, neighbours, bcast, allreduce, alltoall,
//                             stencil, sample_sort, particles (all)
#include <cstring>

#include "collectives.cuh"
#include "measure.cuh"
#include "messages.cuh"
#include "programs.cuh"

int main(int argc, char** argv) {
  using namespace by_hand;
  std::vector<int> const ranks{1024, 4096, 16384, 65536, 262144};
  constexpr double limit = 16.0 * 1073741824.0;
  auto const is_wanted = [&](char const* part) {
    for (int i = 1; i < argc; ++i)
      if (std::strcmp(argv[i], part) == 0) return true;
    return argc == 1;
  };
  if (is_wanted("ping_pong"))
    for (int const bytes : {8, 64, 512, 4096, 32768, 262144, 1 << 20, 4 << 20, 16 << 20, 64 << 20})
      ping_pong(bytes);
  if (is_wanted("stencil")) stencil(ranks, 8192);
  if (is_wanted("sample_sort")) sort(ranks, 1 << 24);
  if (is_wanted("particles")) simulate(ranks, 64);
  for (int const each : ranks) {
    if (is_wanted("ring")) ring(each);
    if (is_wanted("barrier")) barrier(each);
    for (int const directions : {1, 2})
      if (is_wanted("neighbours")) neighbours(each, directions);
    if (is_wanted("bcast")) collectives(operation::bcast, "bcast", each, limit);
    if (is_wanted("allreduce")) collectives(operation::allreduce, "allreduce", each, limit);
    if (is_wanted("alltoall")) collectives(operation::alltoall, "alltoall", each, limit);
  }
  return 0;
}
