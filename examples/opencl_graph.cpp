// SPDX-License-Identifier: Apache-2.0
// Builds a graph's adjacency lists from its edges in an OpenCL kernel that allocates each node, and
// checks the result on the host.
// usage: opencl_graph EDGES      (a file with `source target` lines, plain or gzip)
#include "graph/edge_list.hpp"
#include "quarry/opencl/heap.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <exception>
#include <map>
#include <vector>

namespace {

constexpr char const* kernels = R"opencl(
__kernel void add_edges(quarry_heap heap, __global quarry_ref* table, uint mask,
                        __global uint2 const* edges, uint count) {
  for (uint i = get_global_id(0); i < count; i += get_global_size(0))
    quarry_graph_add_edge(heap, table, mask, edges[i].x, edges[i].y);  // the heap records failures
}
__kernel void remove_all(quarry_heap heap, __global quarry_ref* table, uint mask) {
  for (uint i = get_global_id(0); i <= mask; i += get_global_size(0))
    quarry_graph_remove_place(heap, table, i);
}
)opencl";

constexpr int no_device = 77;  // this program's exit status then

/// A GPU if there is one, else any device; an empty one if there is none.
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
      } catch (cl::Error const&) {  // this platform has none
      }
      if (!devices.empty()) return devices.front();
    }
  }
  return {};
}

using adjacency = std::map<std::uint32_t, std::vector<std::uint32_t>>;

adjacency sorted(adjacency lists) {
  for (auto& [id, list] : lists) std::sort(list.begin(), list.end());
  return lists;
}

/// What the kernel built: the nodes in the table and their links, read from a copy of the heap.
adjacency read_graph(std::vector<cl_uint> const& table, std::vector<cl_uint> const& words) {
  auto const word = [&](cl_uint reference, std::size_t index) {
    return words[reference * std::size_t{4} + index];
  };
  adjacency graph;
  for (cl_uint const node : table) {
    if (node == 0) continue;
    auto& targets = graph[word(node, 0)];
    for (cl_uint link = word(node, 1); link != 0; link = word(link, 0))
      targets.push_back(word(word(link, 1), 0));
  }
  return graph;
}

int run(char const* file) {
  auto const edges = quarry::graph_demo::read_edge_list(file).edges;
  adjacency wanted;
  std::vector<cl_uint2> pairs;
  for (auto const& edge : edges) {
    wanted[edge.source].push_back(edge.target);
    wanted[edge.target];
    pairs.push_back({{edge.source, edge.target}});
  }
  auto const count = static_cast<cl_uint>(pairs.size());
  cl_uint const places = std::bit_ceil(std::max(count, 2u));  // nodes are fewer than edges here

  cl::Device const device = choose_device();
  if (device() == nullptr) {
    std::fputs("opencl_graph: no OpenCL device was found (Debian: install pocl-opencl-icd)\n",
               stderr);
    return no_device;
  }
  cl::Context const context{device};
  cl::CommandQueue const queue{context, device, CL_QUEUE_PROFILING_ENABLE};
  quarry::opencl::heap heap{context, device, queue, {.size = 4'000'000 + pairs.size() * 48}};
  cl::Program const program = quarry::opencl::build(context, device, kernels);

  cl::Buffer const table{context, CL_MEM_READ_WRITE, places * sizeof(cl_uint)};
  cl::Buffer const input{context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                         pairs.size() * sizeof(cl_uint2), pairs.data()};
  cl::Kernel add{program, "add_edges"}, remove{program, "remove_all"};
  for (cl::Kernel* const kernel : {&add, &remove}) {
    kernel->setArg(0, heap.buffer());
    kernel->setArg(1, table);
    kernel->setArg(2, places - 1);
  }
  add.setArg(3, input);
  add.setArg(4, count);
  queue.enqueueFillBuffer(table, cl_uint{0}, 0, places * sizeof(cl_uint));

  cl::Event added;
  queue.enqueueNDRangeKernel(add, cl::NullRange, 16384, 64, nullptr, &added);
  queue.finish();

  std::vector<cl_uint> nodes(places), words(heap.size() / 4);
  queue.enqueueReadBuffer(table, CL_TRUE, 0, nodes.size() * 4, nodes.data());
  queue.enqueueReadBuffer(heap.buffer(), CL_TRUE, 0, words.size() * 4, words.data());
  bool const is_right = sorted(read_graph(nodes, words)) == sorted(wanted) && heap.audit().empty();

  auto const usage = heap.usage();
  queue.enqueueNDRangeKernel(remove, cl::NullRange, 16384, 64);
  queue.finish();
  bool const is_empty = heap.usage().allocations == 0 && heap.audit().empty();
  auto const faults = heap.faults();
  if (!faults.first.empty()) std::puts(faults.first.c_str());
  auto const nanoseconds = added.getProfilingInfo<CL_PROFILING_COMMAND_END>() -
                           added.getProfilingInfo<CL_PROFILING_COMMAND_START>();
  std::printf("%s: %u edges of %zu vertices in %.2f ms; %llu allocations; %s; %s\n",
              device.getInfo<CL_DEVICE_NAME>().c_str(), count, wanted.size(),
              static_cast<double>(nanoseconds) * 1e-6,
              static_cast<unsigned long long>(usage.allocations),
              is_right ? "equal to the host's graph" : "WRONG",
              is_empty ? "all memory came back" : "MEMORY IS LOST");
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
