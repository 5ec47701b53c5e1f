// SPDX-License-Identifier: Apache-2.0
// What do malloc and free cost in OpenCL kernels? (Seed: KMA, figures 4 to 7.)
//
//   opencl/pair       one work-item, 10,000 pairs of malloc and free                    ns a pair
//   opencl/pairs      work-items x 100 pairs; sizes: none 8 B, low 8/16 B, high 4..64 B     ms
//   opencl/allocate   work-items x 10 allocations of 4 or 8 B that stay                     ms
//   opencl/graph      65,536 edges over 10,000 nodes, allocated one by one                  ms
//                     on GPUs also 16,777,216 edges over 1,048,576 nodes
// With `allocator` «quarry group», the work-items of a group allocate together; with
// «quarry reserve», each keeps slots that it claimed ahead.
//
// usage: opencl_heap_bench [DEVICE]      (a part of the device's name; default: all devices)
//
// `allocator` ring is the seed's baseline: one counter, which never frees. Times are those of
// events on the device, after a warm-up that also compiles the kernel. State: after a reset.
#include "opencl_session.hpp"

#include <bit>
#include <random>

namespace {

using quarry::bytes;

constexpr char const* kernels = R"opencl(
#ifdef USE_RING
typedef __global uint* ring;
#define HEAP ring
static inline uint ring_malloc(ring heap, uint bytes) {
  uint const units = bytes == 0u ? 1u : (bytes + 15u) / 16u;
  return atomic_add((volatile __global uint*)heap, units) + 1u;
}
static inline bool ring_free(ring heap, uint reference) { return heap != 0 && reference != 0u; }
#define MALLOC ring_malloc
#define FREE ring_free
#define AT(heap, reference) ((__global void*)((__global uint4*)(heap) + (reference)))
#else
#define HEAP quarry_heap
#define MALLOC quarry_malloc
#define FREE quarry_free
#define AT quarry_at
#endif

static inline uint size_of(uint kind, uint seed) {
  if (kind == 0u) return 8u;
  if (kind == 1u) return 8u + (seed >> 8) % 2u * 8u;
  return 4u << (seed >> 8) % 5u;
}

__kernel void pair(HEAP heap, uint size, uint count, __global uint* failures) {
  for (uint i = 0; i < count; ++i) {
    uint const reference = MALLOC(heap, size);
    if (reference == 0u || !FREE(heap, reference))
      atomic_add((volatile __global uint*)failures, 1u);
  }
}
__kernel void pairs(HEAP heap, uint kind, uint count, __global uint* failures) {
  uint random = (uint)get_global_id(0) * 2654435761u;
  for (uint i = 0; i < count; ++i) {
    random = random * 1664525u + 1013904223u;
    uint const reference = MALLOC(heap, size_of(kind, random));
    if (reference == 0u) {
      atomic_add((volatile __global uint*)failures, 1u);
      continue;
    }
    __global uint* const word = (__global uint*)AT(heap, reference);
    *word = random;
    if (*(volatile __global uint*)word != random) atomic_add((volatile __global uint*)failures, 1u);
    FREE(heap, reference);
  }
}
__kernel void allocate(HEAP heap, uint kind, uint count, __global uint* failures) {
  for (uint i = 0; i < count; ++i) {
    uint const reference = MALLOC(heap, 4u + i % 2u * 4u);
    if (reference == 0u) atomic_add((volatile __global uint*)failures, 1u);
    else *(__global uint*)AT(heap, reference) = i;
  }
}

#ifndef USE_RING
__kernel void allocate_group(HEAP heap, uint kind, uint count, __global uint* failures,
                             __local uint* scratch) {
  for (uint i = 0; i < count; ++i) {
    uint const reference = quarry_malloc_group(heap, 4u + i % 2u * 4u, scratch);
    if (reference == 0u) atomic_add((volatile __global uint*)failures, 1u);
    else *(__global uint*)AT(heap, reference) = i;
  }
}
__kernel void allocate_reserve(HEAP heap, uint kind, uint count, __global uint* failures) {
  quarry_reserve reserve = quarry_reserve_empty();
  for (uint i = 0; i < count; ++i) {
    uint const reference = quarry_reserve_malloc(heap, &reserve, 4u + i % 2u * 4u);
    if (reference == 0u) atomic_add((volatile __global uint*)failures, 1u);
    else *(__global uint*)AT(heap, reference) = i;
  }
  quarry_reserve_return(heap, &reserve);
}
// By the containers, which keep a reserve for each work-item.
__kernel void graph_reserve(HEAP heap, __global uint* table, uint mask,
                            __global uint2 const* edges, uint count, __global uint* failures) {
  __global quarry_graph* const built = (__global quarry_graph*)table;
  quarry_graph_builder builder = quarry_graph_builder_empty();
  for (uint i = get_global_id(0); i < count; i += get_global_size(0))
    if (!quarry_graph_add_edge(heap, built, edges[i].x, edges[i].y, &builder))
      atomic_add((volatile __global uint*)failures, 1u);
  quarry_graph_finish(heap, &builder);
}
__kernel void make_graph(HEAP heap, __global uint* table, uint places) {
  __global quarry_graph* const made = (__global quarry_graph*)table;
  quarry_map_init(heap, made, places);
}
__kernel void empty_graph(HEAP heap, __global uint* table) {
  quarry_map_empty(heap, (__global quarry_graph*)table, (uint)get_global_id(0),
                   (uint)get_global_size(0));
}
#endif

typedef struct node { uint id; uint links; } node;
typedef struct link { uint next; uint target; } link;

static inline uint ensure(HEAP heap, __global uint* table, uint mask, uint id, uint* spare) {
  uint place = (id * 0x9e3779b1u) ^ (id >> 15u);
  for (uint step = 0u; step <= mask; ++step, ++place) {
    __global uint* const entry = table + (place & mask);
    uint found = quarry_load_acquire(entry);
    if (found == 0u) {
      if (*spare == 0u) *spare = MALLOC(heap, sizeof(node));
      if (*spare == 0u) return 0u;
      ((__global node*)AT(heap, *spare))->id = id;
      ((__global node*)AT(heap, *spare))->links = 0u;
      found = quarry_cas_acq_rel(entry, 0u, *spare);
      if (found == 0u) {
        found = *spare;
        *spare = 0u;
        return found;
      }
    }
    if (((__global node*)AT(heap, found))->id == id) {
#ifndef USE_RING  // the ring keeps its spare node for the next edge, as in the seed
      if (*spare != 0u) FREE(heap, *spare);
      *spare = 0u;
#endif
      return found;
    }
  }
  return 0u;
}
__kernel void graph(HEAP heap, __global uint* table, uint mask, __global uint2 const* edges,
                    uint count, __global uint* failures) {
  uint spare = 0u;
  for (uint i = get_global_id(0); i < count; i += get_global_size(0)) {
    uint const source = ensure(heap, table, mask, edges[i].x, &spare);
    uint const target = ensure(heap, table, mask, edges[i].y, &spare);
    uint const fresh = MALLOC(heap, sizeof(link));
    if (source == 0u || target == 0u || fresh == 0u) {
      atomic_add((volatile __global uint*)failures, 1u);
      continue;
    }
    ((__global link*)AT(heap, fresh))->target = target;
    __global uint* const links = &((__global node*)AT(heap, source))->links;
    uint first = quarry_load_relaxed(links);
    for (;;) {
      ((__global link*)AT(heap, fresh))->next = first;
      uint const found = quarry_cas_acq_rel(links, first, fresh);
      if (found == first) break;
      first = found;
    }
  }
  if (spare != 0u) FREE(heap, spare);
}
)opencl";

constexpr int rounds = 11;
constexpr std::size_t local_size = 64;

struct session : bench::opencl_session {
  cl::Buffer ring{context, CL_MEM_READ_WRITE, heap_size};
  cl::Buffer failures{context, CL_MEM_READ_WRITE, 4};
  cl::Program with_heap = quarry::opencl::build(context, device, kernels);
  cl::Program with_ring = quarry::opencl::build(context, device, kernels, "-DUSE_RING");

  session(cl::Device const& chosen, bytes size) : opencl_session{chosen, size} {}

  void reset() {
    heap.reset();
    zero(ring, 1);
    zero(failures, 1);
  }

  /// Runs the kernel after `prepare`, each time from a reset, and prints the spread of its times.
  template <class Prepare>
  void measure(std::string const& record, std::string const& kernel_name, bool uses_ring,
               bench::parameters params, std::size_t items, std::size_t local, double scale,
               char const* unit, Prepare const& prepare) {
    bool const is_group = kernel_name.ends_with("_group");
    bool const is_reserve = kernel_name.ends_with("_reserve");
    params
        .add("allocator", uses_ring    ? "ring"
                          : is_group   ? "quarry group"
                          : is_reserve ? "quarry reserve"
                                       : "quarry")
        .add("device", name)
        .add("items", items);
    cl::Kernel kernel{uses_ring ? with_ring : with_heap, kernel_name.c_str()};
    if (uses_ring) {
      kernel.setArg(0, ring);
    } else {
      kernel.setArg(0, heap.buffer());
    }
    std::vector<double> values;
    for (int round = -1; round < rounds; ++round) {
      reset();
      prepare(kernel);
      double const value = ms(kernel, items, local) * scale;
      if (cl_uint const count = read(failures, 1)[0]; count != 0)
        return bench::record_failure(record, params, std::to_string(count) + " calls failed", unit);
      if (round >= 0) values.push_back(value);
    }
    bench::record_spread(record, params, values, unit);
  }
};

/// Measures graphs of random edges over nodes whose ids the device does not know before.
void measure_graphs(session& on, bool uses_ring, std::size_t edge_count, cl_uint nodes,
                    bench::parameters const& params, std::initializer_list<std::size_t> items) {
  std::mt19937 random{1};
  std::vector<cl_uint2> edges(edge_count);
  auto const id = [&] { return static_cast<cl_uint>(random() % nodes * 7); };
  for (auto& edge : edges) edge = {{id(), id()}};
  cl::Buffer const input{on.context, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                         edges.size() * sizeof(cl_uint2), edges.data()};
  cl_uint const places = std::bit_ceil(2 * nodes);
  cl::Buffer const table{on.context, CL_MEM_READ_WRITE, places * std::size_t{4}};
  auto const set_arguments = [&](cl::Kernel& kernel) {
    kernel.setArg(1, table);
    kernel.setArg(2, places - 1);
    kernel.setArg(3, input);
    kernel.setArg(4, static_cast<cl_uint>(edges.size()));
    kernel.setArg(5, on.failures);
  };
  for (std::size_t const count : items) {
    if (!uses_ring)
      on.measure("opencl/graph", "graph_reserve", uses_ring, params, count, local_size, 1, "ms",
                 [&](cl::Kernel& kernel) {
                   cl::Kernel make{on.with_heap, "make_graph"};
                   make.setArg(0, on.heap.buffer());
                   make.setArg(1, table);
                   make.setArg(2, places);
                   on.queue.enqueueNDRangeKernel(make, cl::NullRange, 1, 1);
                   cl::Kernel empty{on.with_heap, "empty_graph"};
                   empty.setArg(0, on.heap.buffer());
                   empty.setArg(1, table);
                   on.queue.enqueueNDRangeKernel(empty, cl::NullRange, 4096, local_size);
                   set_arguments(kernel);
                 });
    on.measure("opencl/graph", "graph", uses_ring, params, count, local_size, 1, "ms",
               [&](cl::Kernel& kernel) {
                 on.zero(table, places);
                 set_arguments(kernel);
               });
  }
}

void measure_all(session& on) {
  auto const plain = [&](cl_uint first, cl_uint count) {
    return [&on, first, count](cl::Kernel& kernel) {
      kernel.setArg(1, first);
      kernel.setArg(2, count);
      kernel.setArg(3, on.failures);
    };
  };
  for (bool const uses_ring : {false, true}) {
    for (cl_uint const size : {4u, 64u, 1024u})
      on.measure("opencl/pair", "pair", uses_ring, bench::parameters{}.add("size", size), 1, 1,
                 1e6 / 10'000, "ns", plain(size, 10'000));
    for (std::size_t const items : {384, 1536, 4608, 16'384, 65'536, 262'144, 1'048'576}) {
      if (!on.is_gpu() && items > 65'536) continue;
      char const* const kinds[] = {"none", "low", "high"};
      for (cl_uint kind = 0; kind < 3 && !uses_ring; ++kind)
        on.measure("opencl/pairs", "pairs", uses_ring,
                   bench::parameters{}.add("variance", kinds[kind]), items, local_size, 1, "ms",
                   plain(kind, 100));
      if (items > 65'536) continue;
      on.measure("opencl/allocate", "allocate", uses_ring, {}, items, local_size, 1, "ms",
                 plain(0, 10));
      if (!uses_ring)
        on.measure("opencl/allocate", "allocate_group", uses_ring, {}, items, local_size, 1, "ms",
                   [&](cl::Kernel& kernel) {
                     plain(0, 10)(kernel);
                     kernel.setArg(4, cl::Local(QUARRY_GROUP_WORDS(local_size) * 4));
                   });
      if (!uses_ring)
        on.measure("opencl/allocate", "allocate_reserve", uses_ring, {}, items, local_size, 1, "ms",
                   plain(0, 10));
    }
    measure_graphs(on, uses_ring, 65'536, 10'000, {}, {64, 384, 1536, 4608});
  }
}

/// 16 times as many edges as nodes, in a heap that holds them.
void measure_large_graphs(session& on) {
  constexpr std::size_t edges = 1 << 24;
  constexpr cl_uint nodes = 1 << 20;
  auto const params = bench::parameters{}.add("edges", edges).add("nodes", nodes);
  for (bool const uses_ring : {false, true})
    measure_graphs(on, uses_ring, edges, nodes, params, {16'384, 65'536});
}

}  // namespace

int main(int argc, char** argv) {
  return bench::for_each_opencl_device(argc, argv, [](cl::Device const& device) {
    session on{device, bytes{256} << 20};
    measure_all(on);
    if (!on.is_gpu()) return;
    session large{device, bytes{1} << 30};
    measure_large_graphs(large);
  });
}
