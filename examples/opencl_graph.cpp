// SPDX-License-Identifier: Apache-2.0
// Builds a graph's adjacency lists from its edges in an OpenCL kernel that allocates each node, and
// checks the result on the host.
// usage: opencl_graph EDGES      (a file with `source target` lines, plain or gzip)
#include "graph/edge_list.hpp"
#include "quarry/opencl/csr.hpp"
#include "quarry/opencl/heap.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <exception>
#include <map>
#include <stdexcept>
#include <vector>

namespace {

using namespace quarry::opencl_c;

constexpr char const* kernels = R"opencl(
__kernel void make_empty(quarry_heap heap, quarry_ref graph) {
  quarry_map_empty(heap, (__global quarry_graph*)quarry_at(heap, graph), get_global_id(0),
                   get_global_size(0));
}
__kernel void add_edges(quarry_heap heap, quarry_ref graph, __global uint2 const* edges,
                        uint count) {
  __global quarry_graph* const built = (__global quarry_graph*)quarry_at(heap, graph);
  quarry_graph_builder builder = quarry_graph_builder_empty();
  for (uint i = get_global_id(0); i < count; i += get_global_size(0))  // the heap records failures
    quarry_graph_add_edge(heap, built, edges[i].x, edges[i].y, &builder);
  quarry_graph_finish(heap, &builder);
}
__kernel void clear(quarry_heap heap, quarry_ref graph) {
  quarry_graph_clear(heap, (__global quarry_graph*)quarry_at(heap, graph), get_global_id(0),
                     get_global_size(0));
}
)opencl";

constexpr int no_device = 77;  // the exit status if there is no device

/// Returns a GPU if there is one, else a device of any type, or an empty device if there is none.
cl::Device choose_device() {
  std::vector<cl::Platform> platforms;
  try {
    cl::Platform::get(&platforms);
  } catch (cl::Error const&) {  // the loader found no platform
  }
  for (cl_ulong const type : {cl_ulong{CL_DEVICE_TYPE_GPU}, cl_ulong{CL_DEVICE_TYPE_ALL}}) {
    for (auto const& platform : platforms) {
      std::vector<cl::Device> devices;
      try {
        platform.getDevices(type, &devices);
      } catch (cl::Error const&) {  // this platform has no device of the type
      }
      if (!devices.empty()) return devices.front();
    }
  }
  return {};
}

using quarry::graph_demo::edge;

/// The graph that the kernel should build.
quarry::opencl::csr graph_of(std::vector<edge> const& edges) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> lists;
  for (auto const& [source, target] : edges) {
    lists[source].push_back(target);
    lists[target];
  }
  quarry::opencl::csr graph;
  for (auto const& [id, targets] : lists) graph.ids.push_back(id);
  auto const index = [&](std::uint32_t id) {
    auto const found = std::lower_bound(graph.ids.begin(), graph.ids.end(), id);
    return static_cast<std::uint32_t>(found - graph.ids.begin());
  };
  graph.offsets.push_back(0);
  for (auto& [id, targets] : lists) {
    std::sort(targets.begin(), targets.end());
    for (auto const target : targets) graph.targets.push_back(index(target));
    graph.offsets.push_back(graph.targets.size());
  }
  return graph;
}

int run(char const* file) {
  auto const edges = quarry::graph_demo::read_edge_list(file).edges;
  auto const expected = graph_of(edges);
  std::vector<cl_uint2> pairs;
  for (auto const& [source, target] : edges) pairs.push_back({{source, target}});
  auto const count = static_cast<cl_uint>(pairs.size());
  // The number of vertices is not known yet. This table suffices for as many vertices as edges.
  cl_uint const buckets = std::bit_ceil(std::max(4 * count, 2u));

  cl::Device const device = choose_device();
  if (device() == nullptr) {
    std::fputs("opencl_graph: no OpenCL device was found (Debian: install pocl-opencl-icd)\n",
               stderr);
    return no_device;
  }
  cl::Context const context{device};
  cl::CommandQueue const queue{context, device, CL_QUEUE_PROFILING_ENABLE};
  quarry::opencl::heap heap{context, device, queue, {.bytes = 8'000'000 + pairs.size() * 96}};
  cl::Program const program = quarry::opencl::build(context, device, kernels);

  // The host allocates the graph. Kernels get its reference as an argument.
  cl_uint graph = 0;
  {
    quarry::opencl::mapped_heap const mapped{heap};
    graph = quarry_malloc(mapped.get(), sizeof(quarry_graph));
    auto* const allocated = static_cast<quarry_graph*>(quarry_at(mapped.get(), graph));
    if (graph == 0 || !quarry_map_init(mapped.get(), allocated, buckets))
      throw std::runtime_error{"the heap has no memory for the table"};
  }
  cl::Buffer const input{context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                         pairs.size() * sizeof(cl_uint2), pairs.data()};
  constexpr std::size_t items = 16'384, group = 64;
  auto const enqueue = [&](cl::Kernel& kernel, cl::Event* event = nullptr) {
    kernel.setArg(0, heap.buffer());
    kernel.setArg(1, graph);
    queue.enqueueNDRangeKernel(kernel, cl::NullRange, items, group, nullptr, event);
  };
  cl::Kernel make_empty{program, "make_empty"}, add{program, "add_edges"}, clear{program, "clear"};
  add.setArg(2, input);
  add.setArg(3, count);
  cl::Event added;
  enqueue(make_empty);
  enqueue(add, &added);
  queue.finish();

  bool is_right = false;
  {
    quarry::opencl::mapped_heap const mapped{heap};
    auto* const built = static_cast<quarry_graph*>(quarry_at(mapped.get(), graph));
    is_right = quarry::opencl::csr_of(mapped.get(), built) == expected;
  }
  auto const allocations = heap.usage().allocations_in_use;
  enqueue(clear);
  queue.finish();
  {
    quarry::opencl::mapped_heap const mapped{heap};
    auto const* const built = static_cast<quarry_graph*>(quarry_at(mapped.get(), graph));
    quarry_free(mapped.get(), built->table);
    quarry_free(mapped.get(), graph);
  }
  bool const is_empty = heap.usage().allocations_in_use == 0 && heap.audit().empty();
  if (auto const faults = heap.faults(); !faults.first.empty()) std::puts(faults.first.c_str());
  auto const nanoseconds = added.getProfilingInfo<CL_PROFILING_COMMAND_END>() -
                           added.getProfilingInfo<CL_PROFILING_COMMAND_START>();
  std::printf("%s: %u edges of %zu vertices in %.2f ms; %llu allocations; %s; %s\n",
              device.getInfo<CL_DEVICE_NAME>().c_str(), count, expected.ids.size(),
              static_cast<double>(nanoseconds) * 1e-6, static_cast<unsigned long long>(allocations),
              is_right ? "equal to the host's graph" : "WRONG",
              is_empty ? "all memory was freed" : "MEMORY IS LOST");
  return is_right && is_empty ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: opencl_graph EDGES\n", stderr);
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (cl::Error const& error) {
    std::fprintf(stderr, "opencl_graph: %s returned %d\n", error.what(), error.err());
  } catch (std::exception const& error) {
    std::fprintf(stderr, "opencl_graph: %s\n", error.what());
  }
  return 2;
}
