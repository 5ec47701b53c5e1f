// SPDX-License-Identifier: Apache-2.0
// The containers on every OpenCL device, for each size of work-group. The host makes them before a
// kernel and checks them after it, through a mapped heap.
#include "opencl/devices.hpp"
#include "quarry/opencl/csr.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <random>

namespace quarry::test {
namespace opencl_device_containers_test {

using namespace opencl_c;

constexpr char const* kernels = R"opencl(
__kernel void push(quarry_heap heap, quarry_ref at, uint each) {
  __global quarry_vector* const vector = (__global quarry_vector*)quarry_at(heap, at);
  uint const item = (uint)get_global_id(0);
  for (uint i = 0; i < each; ++i) {
    uint const index = quarry_vector_push(heap, vector, 1u);
    if (index != QUARRY_NONE)
      *(__global uint*)quarry_vector_at(heap, vector, index) = item * each + i;
  }
}
__kernel void push_group(quarry_heap heap, quarry_ref at, uint each, __local uint* scratch) {
  __global quarry_vector* const vector = (__global quarry_vector*)quarry_at(heap, at);
  uint const item = (uint)get_global_id(0);
  uint const first = quarry_vector_push_group(heap, vector, each, scratch);
  for (uint i = 0; i < each && first != QUARRY_NONE; ++i)
    *(__global uint*)quarry_vector_at(heap, vector, first + i) = item * each + i;
}
__kernel void add_up(quarry_heap heap, quarry_ref at, __global uint* sum) {
  __global quarry_vector* const vector = (__global quarry_vector*)quarry_at(heap, at);
  uint const size = quarry_load_relaxed(&vector->size);  // atomic, as in quarry_vector_at
  for (uint i = (uint)get_global_id(0); i < size; i += (uint)get_global_size(0))
    atomic_add((volatile __global uint*)sum, *(__global uint*)quarry_vector_at(heap, vector, i));
}
__kernel void grow_list(quarry_heap heap, quarry_ref at, __local uint* scratch) {
  __global quarry_array_list* const list = (__global quarry_array_list*)quarry_at(heap, at);
  uint index = 0u;
  uint const count = (uint)get_global_id(0) % 3u;
  __global uint* const part =
      (__global uint*)quarry_array_list_grow_local(heap, list, count, &index, scratch);
  for (uint i = 0; i < count && part != 0; ++i) part[i] = index + i;
}
__kernel void push_and_pop(quarry_heap heap, quarry_ref at, __global uint* popped, uint each) {
  __global quarry_queue* const queue = (__global quarry_queue*)quarry_at(heap, at);
  uint const item = (uint)get_global_id(0);
  for (uint i = 0; i < each; ++i) {
    uint value = 0u;
    quarry_queue_push(heap, queue, item * each + i + 1u);
    if (i % 2u == 1u && quarry_queue_pop(heap, queue, &value)) popped[item * each + i] = value;
  }
}
__kernel void insert(quarry_heap heap, quarry_ref at, uint keys, __global uint* added) {
  __global quarry_map* const map = (__global quarry_map*)quarry_at(heap, at);
  uint count = 0u;
  for (uint i = (uint)get_global_id(0); i < 2u * keys; i += (uint)get_global_size(0)) {
    bool is_new;
    uint const key = i % keys * 3u;
    if (quarry_map_ensure(heap, map, key, key + 1u, &is_new) != 0u && is_new) ++count;
  }
  atomic_add((volatile __global uint*)added, count);
}
__kernel void empty_map(quarry_heap heap, quarry_ref at) {
  quarry_map_empty(heap, (__global quarry_map*)quarry_at(heap, at), (uint)get_global_id(0),
                   (uint)get_global_size(0));
}
__kernel void insert_sorted(quarry_heap heap, quarry_ref at, uint keys) {
  __global quarry_ordered_map* const map = (__global quarry_ordered_map*)quarry_at(heap, at);
  for (uint i = (uint)get_global_id(0); i < 2u * keys; i += (uint)get_global_size(0)) {
    bool is_new;
    quarry_ordered_map_ensure(heap, map, i % keys * 7u, i, &is_new);
  }
}
__kernel void add_edges(quarry_heap heap, quarry_ref at, __global uint2 const* edges, uint count) {
  __global quarry_graph* const graph = (__global quarry_graph*)quarry_at(heap, at);
  quarry_graph_builder builder = quarry_graph_builder_empty();
  for (uint i = (uint)get_global_id(0); i < count; i += (uint)get_global_size(0))
    quarry_graph_add_edge(heap, graph, edges[i].x, edges[i].y, &builder);
  quarry_graph_finish(heap, &builder);
}
__kernel void clear_graph(quarry_heap heap, quarry_ref at) {
  quarry_graph_clear(heap, (__global quarry_graph*)quarry_at(heap, at), (uint)get_global_id(0),
                     (uint)get_global_size(0));
}
)opencl";

/// A container of zeros in the heap, made by the host.
template <class Container>
quarry_ref make(opencl::heap const& heap) {
  opencl::mapped_heap const mapped{heap};
  quarry_ref const at = quarry_malloc(mapped.get(), sizeof(Container));
  auto* const container = static_cast<Container*>(quarry_at(mapped.get(), at));
  *container = {};
  if constexpr (requires { container->element_bytes; }) container->element_bytes = 4;
  return at;
}
/// Calls `body(heap, container)` on the host, which returns a description of errors, and frees the
/// container. Then nothing may be allocated.
template <class Container, class Body>
std::string check(opencl::heap const& heap, quarry_ref at, Body const& body) {
  opencl::mapped_heap mapped{heap};
  auto* const container = static_cast<Container*>(quarry_at(mapped.get(), at));
  std::string problem = body(mapped.get(), container);
  if (!problem.empty()) return problem;
  if (!quarry_free(mapped.get(), at)) return "the container cannot be freed";
  mapped.unmap();
  if (auto const left = heap.usage().allocations_in_use; left != 0)
    return std::to_string(left) + " allocations are left";
  return heap.audit();
}

/// Local memory for the functions of a whole group.
cl::LocalSpaceArg scratch_for(std::size_t local) {
  return cl::Local(QUARRY_GROUP_WORDS(local) * 4);
}

std::string expect_each_once(std::vector<uint> values, uint count) {
  std::sort(values.begin(), values.end());
  if (values.size() != count) return std::to_string(values.size()) + " values";
  for (uint i = 0; i < count; ++i)
    if (values[i] != i) return "value " + std::to_string(i) + " is lost or there twice";
  return {};
}

/// Runs `body(fixture, local size)` on each device for each size of work-group.
void on_each_group_size(bytes size, std::function<std::string(fixture&, std::size_t)> const& body) {
  on_each_device([&](cl::Device const& device) -> std::string {
    fixture f{device, scaled(size), kernels};
    for (std::size_t const local : group_sizes(device)) {
      end_after(60);  // compilers compile kernels again for each size
      if (auto const problem = body(f, local); !problem.empty())
        return "groups of " + std::to_string(local) + ": " + problem;
    }
    return {};
  });
}

TEST(OpenclDeviceContainers, AVectorHasTheElementsThatWorkItemsAndTheHostPushed) {
  on_each_group_size(32_MiB, [](fixture& f, std::size_t local) -> std::string {
    std::size_t const groups = groups_for(2048, local);
    auto const count = static_cast<uint>(groups * local * 3);
    for (std::string const kernel : {"push", "push_group"}) {
      quarry_ref const at = make<quarry_vector>(f.heap);
      if (kernel == "push")
        f.run("push", groups, local, at, cl_uint{3});
      else
        f.run("push_group", groups, local, at, cl_uint{3}, scratch_for(local));
      {
        opencl::mapped_heap const mapped{f.heap};
        auto* const vector = static_cast<quarry_vector*>(quarry_at(mapped.get(), at));
        uint const index = quarry_vector_push(mapped.get(), vector, 1);
        if (index == QUARRY_NONE) return "the host cannot push";
        *static_cast<uint*>(quarry_vector_at(mapped.get(), vector, index)) = count;
      }
      cl_uint zero = 0;
      cl::Buffer const sum{f.context, CL_MEM_COPY_HOST_PTR, sizeof zero, &zero};
      f.run("add_up", groups, local, at, sum);
      if (f.read(sum, 1)[0] != static_cast<uint>(std::uint64_t{count} * (count + 1) / 2))
        return kernel + ": the kernel does not see all elements";
      auto const problem =
          check<quarry_vector>(f.heap, at, [&](quarry_heap heap, quarry_vector* vector) {
            std::vector<uint> values;
            for (uint i = 0; i < vector->size; ++i)
              values.push_back(*static_cast<uint*>(quarry_vector_at(heap, vector, i)));
            quarry_vector_clear(heap, vector);
            return expect_each_once(std::move(values), count + 1);
          });
      if (!problem.empty()) return kernel + ": " + problem;
    }
    return {};
  });
}

TEST(OpenclDeviceContainers, AnArrayListHasAPartForEachWorkItem) {
  on_each_group_size(8_MiB, [](fixture& f, std::size_t local) -> std::string {
    quarry_ref const at = make<quarry_array_list>(f.heap);
    std::size_t const groups = groups_for(2048, local);
    f.run("grow_list", groups, local, at, scratch_for(local));
    return check<quarry_array_list>(
        f.heap, at, [&](quarry_heap heap, quarry_array_list* list) -> std::string {
          uint wanted = 0;
          for (std::size_t item = 0; item < groups * local; ++item)
            wanted += static_cast<uint>(item % 3);
          if (list->size != wanted) return std::to_string(list->size) + " elements";
          for (uint i = 0; i < wanted; i += 97)
            if (*static_cast<uint*>(quarry_array_list_get(heap, list, i)) != i)
              return "element " + std::to_string(i) + " is wrong";
          quarry_array_list_clear(heap, list);
          return {};
        });
  });
}

TEST(OpenclDeviceContainers, AQueueLosesNoValue) {
  on_each_group_size(8_MiB, [](fixture& f, std::size_t local) -> std::string {
    quarry_ref const at = make<quarry_queue>(f.heap);
    std::size_t const groups = groups_for(2048, local);
    auto const count = static_cast<cl_uint>(groups * local * 8);
    cl::Buffer const popped{f.context, CL_MEM_READ_WRITE, count * 4u};
    f.queue.enqueueFillBuffer(popped, cl_uint{0}, 0, count * 4u);
    f.run("push_and_pop", groups, local, at, popped, cl_uint{8});
    auto values = f.read(popped, count);
    values.erase(std::remove(values.begin(), values.end(), 0u), values.end());
    return check<quarry_queue>(f.heap, at, [&](quarry_heap heap, quarry_queue* queue) {
      uint value = 0;
      while (quarry_queue_pop(heap, queue, &value)) values.push_back(value);
      quarry_queue_clear(heap, queue);
      for (uint& one : values) --one;
      return expect_each_once(values, count);
    });
  });
}

TEST(OpenclDeviceContainers, AMillionInsertionsOfHalfAMillionKeysAddEachKeyOnce) {
  auto const keys = scaled<cl_uint>(500'000);
  on_each_device([keys](cl::Device const& device) -> std::string {
    fixture f{device, scaled(64_MiB), kernels};
    quarry_ref const at = make<quarry_map>(f.heap);
    {
      opencl::mapped_heap const mapped{f.heap};
      auto* const map = static_cast<quarry_map*>(quarry_at(mapped.get(), at));
      if (!quarry_map_init(mapped.get(), map, std::bit_ceil(2 * keys)))
        return "no memory for the table";
    }
    cl_uint zero = 0;
    cl::Buffer const added{f.context, CL_MEM_COPY_HOST_PTR, sizeof zero, &zero};
    f.run("empty_map", groups_for(4096, 64), 64, at);
    f.run("insert", groups_for(16'384, 64), 64, at, keys, added);
    if (f.read(added, 1)[0] != keys) return std::to_string(f.read(added, 1)[0]) + " were new";
    return check<quarry_map>(f.heap, at, [keys](quarry_heap heap, quarry_map* map) -> std::string {
      for (uint i = 0; i < keys; ++i) {
        auto const found = quarry_map_find(heap, map, i * 3);
        if (found == 0 || *quarry_map_value(heap, found) != i * 3 + 1)
          return "key " + std::to_string(i * 3) + " is wrong";
      }
      quarry_map_clear(heap, map, 0, 1);
      return quarry_free(heap, map->table) ? "" : "the table cannot be freed";
    });
  });
}

TEST(OpenclDeviceContainers, AnOrderedMapIsSortedEvenIfAllWorkItemsAdd) {
  auto const keys = scaled<cl_uint>(20'000);
  on_each_group_size(8_MiB, [keys](fixture& f, std::size_t local) -> std::string {
    quarry_ref const at = make<quarry_ordered_map>(f.heap);
    f.run("insert_sorted", groups_for(2048, local), local, at, keys);
    return check<quarry_ordered_map>(
        f.heap, at, [keys](quarry_heap heap, quarry_ordered_map* map) -> std::string {
          uint next = 0;
          for (auto entry = map->first[0]; entry != 0;
               entry = quarry_ordered_map_next(heap, entry), ++next)
            if (quarry_skip_entry_at(heap, entry)->key != next * 7)
              return "key " + std::to_string(next * 7) + " is not in its place";
          quarry_ordered_map_clear(heap, map);
          return next == keys ? "" : std::to_string(next) + " keys";
        });
  });
}

TEST(OpenclDeviceContainers, AGraphEqualsTheGraphOfTheHost) {
  std::mt19937 random{1};
  auto const vertices = scaled(10'000u);
  std::vector<cl_uint2> edges(scaled(65'536));
  std::map<uint, std::vector<uint>> wanted;
  for (auto& edge : edges) {
    edge = {{static_cast<cl_uint>(random() % vertices * 7),
             static_cast<cl_uint>(random() % vertices * 7)}};
    wanted[edge.s[0]].push_back(edge.s[1]);
    wanted[edge.s[1]];
  }
  opencl::csr host;
  std::map<uint, uint> index;
  for (auto const& [id, targets] : wanted) {
    index[id] = static_cast<uint>(host.ids.size());
    host.ids.push_back(id);
  }
  host.offsets.push_back(0);
  for (auto& [id, targets] : wanted) {
    std::sort(targets.begin(), targets.end());
    for (uint const target : targets) host.targets.push_back(index[target]);
    host.offsets.push_back(host.targets.size());
  }
  on_each_group_size(16_MiB, [&](fixture& f, std::size_t local) -> std::string {
    cl::Buffer const input{f.context, CL_MEM_COPY_HOST_PTR, edges.size() * sizeof(cl_uint2),
                           edges.data()};
    quarry_ref const at = make<quarry_map>(f.heap);
    {
      opencl::mapped_heap const mapped{f.heap};
      auto* const graph = static_cast<quarry_map*>(quarry_at(mapped.get(), at));
      if (!quarry_map_init(mapped.get(), graph, std::bit_ceil(2 * vertices)))
        return "no memory for the table";
    }
    f.run("empty_map", groups_for(1024, 64), 64, at);
    f.run("add_edges", groups_for(2048, local), local, at, input,
          static_cast<cl_uint>(edges.size()));
    {
      opencl::mapped_heap const mapped{f.heap};
      auto* const graph = static_cast<quarry_map*>(quarry_at(mapped.get(), at));
      if (opencl::csr_of(mapped.get(), graph) != host) return "another graph than the host's";
    }
    f.run("clear_graph", groups_for(1024, 64), 64, at);
    return check<quarry_map>(f.heap, at, [](quarry_heap heap, quarry_map* graph) {
      return quarry_free(heap, graph->table) ? std::string{} : "the table cannot be freed";
    });
  });
}

}  // namespace opencl_device_containers_test
}  // namespace quarry::test
