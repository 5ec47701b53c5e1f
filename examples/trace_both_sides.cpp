// SPDX-License-Identifier: Apache-2.0
// One trace of both sides of the launch: the arrays that the host takes from a pool, and the nodes
// that kernels take from a heap. Runs on the GPU if nvcc compiles it, else on the CPU. Usage:
//   trace_both_sides [FILE]
#include "quarry/heap_trace.hpp"
#include "quarry/host.hpp"
#include "quarry/trace.hpp"
#ifdef __CUDACC__
#include "quarry/simt/launch.cuh"
#endif

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

using namespace quarry::literals;
namespace simt = quarry::simt;
namespace trace = quarry::trace;

namespace {

constexpr std::uint32_t lanes = 256;
constexpr int steps = 4;

#ifdef __CUDACC__
using memory = quarry::device_resource;
#else
using memory = quarry::host_resource;
#endif

/// Runs a kernel and waits for it.
struct launcher {
  template <class Kernel>
  void operator()(simt::grid grid, Kernel const& kernel) const {
#ifdef __CUDACC__
    simt::launch_cuda(grid, kernel);
    simt::check_cuda(cudaDeviceSynchronize(), "kernel");
#else
    simt::launch_threads(grid, 8, kernel);
#endif
  }
};

/// Each lane adds a node to its list.
struct insert_node {
  struct node {
    node* next;
  };
  quarry::recorded_heap_ref heap;
  node** lists;
  bool is_first;  // the lists are new
  QUARRY_HD void operator()() const {
    std::uint64_t const lane = simt::this_place().rank();
    if (is_first) lists[lane] = nullptr;
    auto* const made = static_cast<node*>(heap.malloc(sizeof(node) + lane % 48));
    if (made == nullptr) return;
    made->next = lists[lane];
    lists[lane] = made;
  }
};
/// Each lane frees its list.
struct free_nodes {
  quarry::recorded_heap_ref heap;
  insert_node::node** lists;
  QUARRY_HD void operator()() const {
    std::uint64_t const lane = simt::this_place().rank();
    while (insert_node::node* const first = lists[lane]) {
      lists[lane] = first->next;
      heap.free(first);
    }
  }
};

void record(std::string const& path) {
  auto const recorder = std::make_shared<trace::recorder>(path);
  quarry::heap heap{{.bytes = 16_MiB, .segment_bytes = 256_KiB}};
  quarry::heap_trace nodes{launcher{}, heap, recorder, "nodes"};
  trace::recorded_resource<quarry::pool<memory>> arrays{
      recorder, "arrays", trace::recorded_role::allocator, std::in_place, memory{}};
  quarry::bytes const list_bytes = lanes * sizeof(insert_node::node*);
  auto** const lists = static_cast<insert_node::node**>(arrays.allocate(list_bytes, 256));
  launcher const launch;

  for (int step = 0; step < steps; ++step) {
    recorder->phase("step " + std::to_string(step));
    void* const array = arrays.allocate(1_MiB, 256);
    launch({lanes / 64, 64}, insert_node{nodes.ref(), lists, step == 0});
    arrays.deallocate(array, 1_MiB, 256);
    nodes.drain("insert_node");  // the kernel's events go between those of the host
  }
  launch({lanes / 64, 64}, free_nodes{nodes.ref(), lists});
  arrays.deallocate(lists, list_bytes, 256);
  nodes.drain("free_nodes");
  std::printf("%llu events of kernels lost, %llu late; the clocks differ by at most %llu ns\n",
              static_cast<unsigned long long>(nodes.lost()),
              static_cast<unsigned long long>(nodes.late()),
              static_cast<unsigned long long>(nodes.clock_error_ns()));
  recorder->close();  // throws if the disk is full
}

/// Prints the events of each allocator. Returns whether all are there.
bool print_counts(std::string const& path) {
  auto const reader = trace::open_trace(path);
  std::vector<trace::event> events(1000);
  std::map<std::string, std::size_t> counts;
  while (std::size_t const part = reader->read(events)) {
    for (std::size_t i = 0; i < part; ++i)
      ++counts[reader->names().allocators.name(events[i].allocator)];
  }
  for (auto const& [name, count] : counts)
    std::printf("%s: %zu events\n", name.empty() ? "(phases)" : name.c_str(), count);
  return counts["arrays"] == 2 * steps + 2 && counts["nodes"] == 2 * lanes * steps;
}

}  // namespace

int main(int argc, char** argv) {
  std::string const path = argc > 1 ? argv[1] : "trace_both_sides.trace";
  record(path);
  return print_counts(path) ? 0 : 1;
}
