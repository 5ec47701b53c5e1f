// SPDX-License-Identifier: Apache-2.0
#include "memory.hpp"

#include "platform/no_cuda.hpp"

namespace quarry::inline QUARRY_ABI::detail {

std::shared_ptr<heap_memory> make_cuda_memory(int, std::vector<int> const&, bytes, bytes) {
  refuse_without_cuda("heap");
}
bool has_cuda_device() { return false; }

}  // namespace quarry::inline QUARRY_ABI::detail
