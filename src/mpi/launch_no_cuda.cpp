// SPDX-License-Identifier: Apache-2.0
#include "launcher.hpp"

#include "quarry/core/errors.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

bool has_gpu() { return false; }

int run_on_gpu(launch_options const&, int, char**) {
  throw bad_argument{
      "--device gpu: this program was compiled for the CPU only, because quarry-mpicc was built "
      "without CUDA"};
}

}  // namespace quarry::inline QUARRY_ABI::mpi
