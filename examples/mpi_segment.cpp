// SPDX-License-Identifier: Apache-2.0
// The ranks of a node share a table: rank 0 fills it, and all ranks read it.
#include "quarry/host/mpi_segment.hpp"

#include <cstdio>

using namespace quarry::literals;

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  int status = 0;
  {
    quarry::mpi_segment shared{MPI_COMM_WORLD, "quarry_example_mpi_segment", 16_MiB};
    auto* table = static_cast<double*>(shared.resource().allocate("table", 1000 * sizeof(double)));
    if (shared.node().rank() == 0) {
      for (int i = 0; i < 1000; ++i) table[i] = i;
    }
    shared.node().wait_for_all();
    status = table[999] == 999 ? 0 : 1;
    std::printf("rank %d of %d on this node: %g\n", shared.node().rank(), shared.node().size(),
                table[999]);
    shared.node().wait_for_all();
  }
  MPI_Finalize();
  return status;
}
