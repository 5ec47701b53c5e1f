// SPDX-License-Identifier: Apache-2.0
// A graph of 16 M edges over 1 M nodes, built by kernels from edges whose ids they do not know
// before, equals the host's.
//
// Only GPUs with at least 16 GiB run it. QUARRY_OPENCL_EDGES sets the number of edges. Then each
// device with 64 bytes for each edge runs it.
#include "opencl/devices.hpp"
#include "quarry/opencl/csr.hpp"

#include <algorithm>
#include <bit>
#include <random>

namespace quarry::test {
namespace opencl_large_graph_test {

using namespace opencl_c;

constexpr char const* kernels = R"opencl(
// Allocates a graph; `buckets`: of its table. `result`: its reference, and then the wrong calls.
__kernel void make_graph(quarry_heap heap, uint buckets, __global uint* result) {
  quarry_ref const at = quarry_malloc(heap, sizeof(quarry_graph));
  if (at == 0u || !quarry_map_init(heap, (__global quarry_graph*)quarry_at(heap, at), buckets))
    result[1] = 1u;
  result[0] = at;
}
__kernel void empty_table(quarry_heap heap, quarry_ref at) {
  quarry_map_empty(heap, (__global quarry_graph*)quarry_at(heap, at), (uint)get_global_id(0),
                   (uint)get_global_size(0));
}
__kernel void add_edges(quarry_heap heap, quarry_ref at, __global uint2 const* edges, uint count,
                        __global uint* result) {
  __global quarry_graph* const graph = (__global quarry_graph*)quarry_at(heap, at);
  quarry_graph_builder builder = quarry_graph_builder_empty();
  for (uint i = (uint)get_global_id(0); i < count; i += (uint)get_global_size(0))
    if (!quarry_graph_add_edge(heap, graph, edges[i].x, edges[i].y, &builder))
      atomic_add((volatile __global uint*)(result + 1), 1u);
  quarry_graph_finish(heap, &builder);
}
__kernel void clear_nodes(quarry_heap heap, quarry_ref at) {
  quarry_graph_clear(heap, (__global quarry_graph*)quarry_at(heap, at), (uint)get_global_id(0),
                     (uint)get_global_size(0));
}
__kernel void free_graph(quarry_heap heap, quarry_ref at, __global uint* result) {
  quarry_ref const table = ((__global quarry_graph*)quarry_at(heap, at))->table;
  if (!quarry_free(heap, table) || !quarry_free(heap, at)) result[1] = 1u;
}
)opencl";

constexpr std::size_t full_edges = 1 << 24;

char const* wanted_edges() { return std::getenv("QUARRY_OPENCL_EDGES"); }
std::size_t edge_count() {
  auto const* const text = wanted_edges();
  auto const count = text == nullptr ? full_edges : static_cast<std::size_t>(std::atoll(text));
  return std::clamp<std::size_t>(scaled(count), 16, full_edges);
}

/// A link takes 16 bytes, and so does a sixteenth of a node; work-items keep some spare ones.
bytes heap_size() { return std::max<bytes>(edge_count() * 32, 16_MiB); }

bool is_suitable(cl::Device const& device) {
  bool const is_gpu = (device.getInfo<CL_DEVICE_TYPE>() & CL_DEVICE_TYPE_GPU) != 0;
  bytes const memory = device.getInfo<CL_DEVICE_GLOBAL_MEM_SIZE>();
  return (wanted_edges() != nullptr || (is_gpu && memory >= 16_GiB)) && memory >= 2 * heap_size() &&
         device.getInfo<CL_DEVICE_MAX_MEM_ALLOC_SIZE>() >= heap_size();
}

/// Edges between nodes with ids all over the 32-bit numbers, and the same graph made by the host.
struct host_graph {
  std::vector<cl_uint2> edges;
  opencl::csr rows;
};
host_graph make_host_graph(std::size_t edge_count, std::size_t nodes) {
  std::vector<uint> ids(nodes);
  for (std::size_t i = 0; i < nodes; ++i) ids[i] = static_cast<uint>(i) * 0x9e3779b1u;  // distinct
  std::sort(ids.begin(), ids.end());
  std::mt19937 random{1};
  std::vector<std::pair<uint, uint>> ends(edge_count);  // as indices into `ids`
  std::vector<uint> index(nodes);                       // 1 for a node with an edge
  for (auto& [source, target] : ends) {
    source = static_cast<uint>(random() % nodes);
    target = static_cast<uint>(random() % nodes);
    index[source] = index[target] = 1;
  }
  host_graph result;
  for (std::size_t i = 0; i < nodes; ++i) {
    if (index[i] == 0) continue;
    index[i] = static_cast<uint>(result.rows.ids.size());
    result.rows.ids.push_back(ids[i]);
  }
  for (auto const& [source, target] : ends) result.edges.push_back({{ids[source], ids[target]}});
  std::sort(ends.begin(), ends.end());
  result.rows.offsets.assign(result.rows.ids.size() + 1, 0);
  for (auto const& [source, target] : ends) {
    ++result.rows.offsets[index[source] + 1];
    result.rows.targets.push_back(index[target]);
  }
  for (std::size_t v = 0; v < result.rows.ids.size(); ++v)
    result.rows.offsets[v + 1] += result.rows.offsets[v];
  return result;
}

TEST(OpenclLargeGraph, AGraphOf16MillionEdgesEqualsTheHosts) {
  auto const build_and_compare = [](cl::Device const& device) -> std::string {
    auto const count = edge_count();
    auto const nodes = count / 16;
    auto const host = make_host_graph(count, nodes);
    fixture f{device, heap_size(), kernels};
    auto const run = [&f](char const* name, std::size_t groups, std::size_t local,
                          auto const&... arguments) {
      end_after(60);  // PoCL compiles each kernel before it runs it
      f.run(name, groups, local, arguments...);
    };
    cl::Buffer const input{f.context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                           count * sizeof(cl_uint2), const_cast<cl_uint2*>(host.edges.data())};
    cl_uint zeros[2] = {0, 0};
    cl::Buffer const result{f.context, CL_MEM_COPY_HOST_PTR, sizeof zeros, zeros};
    run("make_graph", 1, 1, static_cast<cl_uint>(std::bit_ceil(2 * nodes)), result);
    auto const made = f.read(result, 2);
    if (made[1] != 0) return "no memory for the graph's table";
    quarry_ref const at = made[0];
    std::size_t const groups = std::min(groups_for(65'536, 64), count / 256 + 1);
    run("empty_table", groups, 64, at);
    run("add_edges", groups, 64, at, input, static_cast<cl_uint>(count), result);
    if (auto const failed = f.read(result, 2)[1]; failed != 0) {
      auto const usage = f.heap.usage();
      return std::to_string(failed) + " edges were refused; " + f.heap.faults().first + "; of " +
             std::to_string(usage.usable) + " bytes " + std::to_string(usage.reserved) +
             " are in spans, " + std::to_string(usage.allocated) + " of them allocated";
    }
    end_after(60);  // for the host, which follows each link
    {
      opencl::mapped_heap const mapped{f.heap};
      auto* const graph = static_cast<quarry_map*>(quarry_at(mapped.get(), at));
      auto const built = opencl::csr_of(mapped.get(), graph);
      if (built.ids != host.rows.ids) return std::to_string(built.ids.size()) + " nodes, or others";
      if (built != host.rows) return std::to_string(built.targets.size()) + " edges, or others";
    }
    run("clear_nodes", groups, 64, at);
    run("free_graph", 1, 1, at, result);
    if (f.read(result, 2)[1] != 0) return "the graph cannot be freed; " + f.heap.faults().first;
    if (auto const left = f.heap.usage().allocations_in_use; left != 0)
      return std::to_string(left) + " allocations are left";
    return f.heap.audit();
  };
  on_each_device(build_and_compare, is_suitable,
                 "no GPU with 16 GiB (QUARRY_OPENCL_EDGES: fewer edges, on any device)");
}

}  // namespace opencl_large_graph_test
}  // namespace quarry::test
