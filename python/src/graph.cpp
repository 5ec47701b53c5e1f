// SPDX-License-Identifier: Apache-2.0
// The graph demo of examples/graph, for the command `quarry graph`.
#include "module.hpp"

#ifdef QUARRY_PYTHON_GRAPH
#include "quarry/core/errors.hpp"

#include "graph/demo.hpp"
#include "graph/edge_list.hpp"
#include "graph/rmat.hpp"
#include "progress.hpp"
#include "resources.hpp"

#include <nanobind/stl/optional.h>
#include <optional>
#endif

namespace quarry::python {

#ifdef QUARRY_PYTHON_GRAPH
namespace {

using namespace nb::literals;

constexpr std::uint64_t max_edges = std::uint64_t{1} << 27;

std::vector<graph_demo::edge> load(std::optional<std::string> const& path, unsigned scale,
                                   std::uint64_t edges_per_vertex, std::uint64_t seed) {
  if (path) {
    try {
      auto edges = graph_demo::read_edge_list(*path).edges;
      if (edges.empty()) throw bad_argument{*path + ": the graph has no edges"};
      return edges;
    } catch (graph_demo::malformed_input const& failed) {
      throw bad_argument{failed.what()};
    } catch (std::filesystem::filesystem_error const& failed) {
      throw resource_failed{*path, "cannot read: " + failed.code().message()};
    }
  }
  if (scale < 1 || scale > 26 || edges_per_vertex < 1 || edges_per_vertex > max_edges >> scale)
    throw bad_argument{"graph: scale " + std::to_string(scale) + " with " +
                       std::to_string(edges_per_vertex) +
                       " edges per vertex: the scale may be 1 to 26, and the graph may have at "
                       "most " +
                       std::to_string(max_edges) + " edges"};
  return graph_demo::rmat(scale, edges_per_vertex << scale, seed);
}

nb::dict dict_of_step(graph_demo::step_result const& step) {
  nb::dict result;
  result["allocator"] = step.allocator;
  result["step"] = step.name;
  result["ms"] = step.ms;
  result["edges"] = step.edges;
  result["heap"] = step.stats ? nb::cast(*step.stats).attr("to_dict")() : nb::none();
  return result;
}

nb::dict graph(std::optional<std::string> const& path, unsigned scale,
               std::uint64_t edges_per_vertex, std::uint64_t seed, std::string const& backend_name,
               nb::object callback) {
  backend const kind = graph_demo::backend_for(backend_named("graph", backend_name));
  std::vector<graph_demo::step_result> steps;
  std::optional<std::string> wrong_answer;
  std::size_t edges = 0, distinct_edges = 0;
  std::uint64_t sources = 0;
  {
    released_gil const no_gil;
    progress_reporter progress{std::move(callback)};
    progress.report("reading the graph");
    auto const list = load(path, scale, edges_per_vertex, seed);
    progress.report("sorting the edges for the reference");
    graph_demo::reference const empty{list};
    edges = list.size();
    distinct_edges = empty.known().size();
    sources = empty.sources();
    try {
      graph_demo::run(list, empty, seed, kind,
                      {[&](std::string const& step) { progress.report(step.c_str()); },
                       [&](graph_demo::step_result const& step) { steps.push_back(step); }});
    } catch (graph_demo::wrong_answer const& wrong) {
      wrong_answer = wrong.what();
    }
  }
  nb::list done;
  for (auto const& step : steps) done.append(dict_of_step(step));
  nb::dict result;
  result["edges"] = edges;
  result["distinct_edges"] = distinct_edges;
  result["sources"] = sources;
  result["backend"] = kind == backend::cuda ? "cuda" : "cpu";
  result["steps"] = done;
  result["wrong_answer"] = nb::cast(wrong_answer);
  return result;
}

}  // namespace

void add_graph(nb::module_& core) {
  core.attr("has_graph") = true;
  core.def("graph", graph, "path"_a.none(), nb::kw_only(), "scale"_a, "edges_per_vertex"_a,
           "seed"_a, "backend"_a, "progress"_a = nb::none(),
           "Runs the graph demo on the edges of a file, or on a random graph without a path.");
}
#else
void add_graph(nb::module_& core) { core.attr("has_graph") = false; }
#endif

}  // namespace quarry::python
