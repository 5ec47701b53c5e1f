// SPDX-License-Identifier: Apache-2.0
#include "graph/demo_on.hpp"

namespace quarry::graph_demo {

bool has_cuda_device() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

void run_on_cuda(std::vector<edge> const& edges, reference const& empty, std::uint64_t seed,
                 observer const& watching) {
  run_on_this_backend(edges, empty, seed, watching);
}

}  // namespace quarry::graph_demo
