// SPDX-License-Identifier: Apache-2.0
#include "graph/demo.hpp"

namespace quarry::graph_demo {

bool has_cuda_device() { return false; }

void run_on_cuda(std::vector<edge> const&, reference const&, std::uint64_t, demo_callbacks const&) {
  throw bad_argument{"graph: this build has no CUDA"};
}

}  // namespace quarry::graph_demo
