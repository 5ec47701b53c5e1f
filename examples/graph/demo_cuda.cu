// SPDX-License-Identifier: Apache-2.0
#include "graph/demo_steps.hpp"

namespace quarry::graph_demo {

bool has_cuda_device() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

void run_on_cuda(std::vector<edge> const& edges, reference const& empty, std::uint64_t seed,
                 demo_callbacks const& callbacks) {
  run_steps(edges, empty, seed, callbacks);
}

}  // namespace quarry::graph_demo
