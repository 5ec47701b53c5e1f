// SPDX-License-Identifier: Apache-2.0
// The graph demo, for programs that print it: kernels build a graph in a heap and change it in
// batches, and a reference on the host checks every answer.
#pragma once

#include "graph/edge.hpp"
#include "graph/reference.hpp"
#include "quarry/heap.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace quarry::graph_demo {

/// What a step of the demo did.
struct step_result {
  std::string allocator;            ///< `quarry`, or the platform's malloc: `libc` or `cuda`
  std::string name;                 ///< of the step
  double ms;                        ///< the time of the step's kernels
  std::uint64_t edges;              ///< that the step handled
  std::optional<heap_stats> stats;  ///< the heap after the step; the platform's malloc has none
};

/// Called while the demo runs. If a function throws, the demo ends.
struct demo_callbacks {
  std::function<void(std::string const& step)> begin_step;
  std::function<void(step_result const&)> end_step;
};

/// The backend on which `run` runs: automatic means a GPU if the build has CUDA and there is a GPU.
/// Throws `bad_argument` if `requested` is cuda and there is no GPU.
[[nodiscard]] backend backend_for(backend requested);

/// Builds the graph of `edges`, and changes it, on Quarry's heap, then on the platform's malloc.
/// `empty` is a new reference for `edges`. `seed` chooses which edges change. `kind` is a result of
/// `backend_for`. Throws `wrong_answer` at the first wrong answer or damage of the heap, and
/// `out_of_memory` and `resource_failed`.
void run(std::vector<edge> const& edges, reference const& empty, std::uint64_t seed, backend kind,
         demo_callbacks const& callbacks);

/// The copy of the demo that nvcc compiles; in a build without CUDA there is none.
bool has_cuda_device();
void run_on_cuda(std::vector<edge> const& edges, reference const& empty, std::uint64_t seed,
                 demo_callbacks const& callbacks);

}  // namespace quarry::graph_demo
