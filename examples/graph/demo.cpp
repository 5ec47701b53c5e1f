// SPDX-License-Identifier: Apache-2.0
#include "graph/demo_steps.hpp"

namespace quarry::graph_demo {

backend backend_for(backend requested) {
  if (requested == backend::automatic) return has_cuda_device() ? backend::cuda : backend::cpu;
  if (requested == backend::cuda && !has_cuda_device())
    throw bad_argument{"graph: the backend cuda needs a GPU and a build with CUDA"};
  return requested;
}

void run(std::vector<edge> const& edges, reference const& empty, std::uint64_t seed, backend kind,
         demo_callbacks const& callbacks) {
  if (kind == backend::cuda) return run_on_cuda(edges, empty, seed, callbacks);
  run_steps(edges, empty, seed, callbacks);
}

}  // namespace quarry::graph_demo
