// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include <stdexcept>

namespace quarry::inline QUARRY_ABI {

std::shared_ptr<heap_memory> make_cuda_memory(int, bytes, bytes) {
  throw std::runtime_error{
      "quarry was built without CUDA; ask for machine::cpu, or build with -DQUARRY_CUDA=ON"};
}

bool has_cuda_device() { return false; }

}  // namespace quarry::inline QUARRY_ABI
