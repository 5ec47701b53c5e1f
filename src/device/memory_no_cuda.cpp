// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"
#include "quarry/core/errors.hpp"

namespace quarry::inline QUARRY_ABI {

std::shared_ptr<heap_memory> make_cuda_memory(int, bytes, bytes) {
  throw resource_failed{
      "heap",
      "Quarry was built without CUDA; ask for backend::cpu, or build with -DQUARRY_CUDA=ON"};
}

bool has_cuda_device() { return false; }

}  // namespace quarry::inline QUARRY_ABI
