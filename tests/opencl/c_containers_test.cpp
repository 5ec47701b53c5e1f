// SPDX-License-Identifier: Apache-2.0
// The containers of C hosts, on every OpenCL device of the machine.
#include "quarry/opencl/c_containers.h"

#include "opencl/c_fixture.hpp"
#include "quarry/opencl/csr.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace quarry::test {
namespace opencl_c_containers_test {

constexpr char const* kernels = R"opencl(
__kernel void fill(quarry_heap heap, __global quarry_vector* vector, __global quarry_map* map,
                   __global quarry_queue* queue) {
  uint const item = (uint)get_global_id(0);
  uint const index = quarry_vector_push(heap, vector, 1u);
  if (index != QUARRY_NONE) *(__global uint*)quarry_vector_at(heap, vector, index) = item;
  bool is_new;
  quarry_ref const entry = quarry_map_ensure(heap, map, item / 2u, 7u, &is_new);
  if (entry != 0u && is_new) quarry_queue_push(heap, queue, item / 2u);
}
__kernel void look(quarry_heap heap, __global quarry_vector* vector, __global quarry_map* map,
                   __global quarry_queue* queue, __global uint* seen) {
  uint value = 0u;
  seen[0] = *(__global uint*)quarry_vector_at(heap, vector, vector->size - 1u);
  seen[1] = *quarry_map_value(heap, quarry_map_find(heap, map, 5000u));
  seen[2] = quarry_queue_pop(heap, queue, &value) ? value : 0u;
}
)opencl";

/// A mapped heap.
struct mapped_fixture : c_fixture {
  void* base = nullptr;
  explicit mapped_fixture(cl::Device const& on) : c_fixture{on} { map(); }
  void map() { QUARRY_EXPECT_OK(all, quarry_opencl_heap_map(heap, &base)); }
  void unmap() { QUARRY_EXPECT_OK(all, quarry_opencl_heap_unmap(heap)); }

  /// Whether the heap is empty, sound and without faults.
  std::string finish() {
    unmap();
    QUARRY_EXPECT_OK(all, quarry_opencl_heap_audit(heap));
    QUARRY_EXPECT(all, usage().allocations_in_use == 0);
    return all.problem();
  }
};

/// Random numbers of 32 bits.
struct numbers {
  std::mt19937 engine;
  explicit numbers(unsigned seed) : engine{seed} {}
  std::uint32_t operator()() { return static_cast<std::uint32_t>(engine()); }
};

std::vector<std::uint32_t> up_to(std::uint32_t count) {
  std::vector<std::uint32_t> all(count);
  std::iota(all.begin(), all.end(), 0u);
  return all;
}
std::vector<std::uint32_t> sorted(std::vector<std::uint32_t> values) {
  std::sort(values.begin(), values.end());
  return values;
}

template <class T>
cl::Buffer buffer_of(cl::Context const& context, T& value) {
  return {context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof value, &value};
}

TEST(OpenclCContainers, TheHostReadsWhatKernelsAddedAndKernelsWhatTheHostAdded) {
  on_each_device([](cl::Device const& device) -> std::string {
    mapped_fixture f{device};
    constexpr std::uint32_t items = 256;
    quarry_opencl_vector vector{};
    vector.element_bytes = 4;
    quarry_opencl_queue queue{};
    quarry_opencl_map map;
    QUARRY_EXPECT_OK(f.all, quarry_opencl_map_init(f.heap, &map, 200));
    f.unmap();
    cl::Buffer const vectors = buffer_of(f.context, vector), maps = buffer_of(f.context, map),
                     queues = buffer_of(f.context, queue);
    f.run(kernels, "fill", items, vectors, maps, queues);
    f.queue.enqueueReadBuffer(vectors, CL_TRUE, 0, sizeof vector, &vector);
    f.queue.enqueueReadBuffer(maps, CL_TRUE, 0, sizeof map, &map);
    f.queue.enqueueReadBuffer(queues, CL_TRUE, 0, sizeof queue, &queue);

    f.map();
    QUARRY_EXPECT(f.all, vector.size == items && vector.lost == 0 && map.size == items / 2);
    std::vector<std::uint32_t> elements(items), keys(items), values(items), popped(items);
    QUARRY_EXPECT_OK(f.all, quarry_opencl_vector_read(f.heap, &vector, 0, items, elements.data()));
    QUARRY_EXPECT(f.all, sorted(elements) == up_to(items));
    std::uint64_t count = 0;
    QUARRY_EXPECT_OK(
        f.all, quarry_opencl_map_read(f.heap, &map, keys.data(), values.data(), items, &count));
    QUARRY_EXPECT(f.all, count == items / 2);
    keys.resize(count);
    QUARRY_EXPECT(f.all, sorted(keys) == up_to(items / 2));
    QUARRY_EXPECT(f.all, std::count(values.begin(), values.end(), 7u) == items / 2);
    QUARRY_EXPECT_OK(f.all, quarry_opencl_queue_pop(f.heap, &queue, popped.data(), items, &count));
    popped.resize(count);
    QUARRY_EXPECT(f.all, sorted(popped) == up_to(items / 2));

    std::uint32_t index = 0;
    void* element = nullptr;
    QUARRY_EXPECT_OK(f.all, quarry_opencl_vector_push(f.heap, &vector, 1, &index));
    QUARRY_EXPECT_OK(f.all, quarry_opencl_vector_at(f.heap, &vector, index, &element));
    if (!f.all.problem().empty()) return f.all.problem();
    *static_cast<std::uint32_t*>(element) = 11;
    QUARRY_EXPECT_OK(f.all, quarry_opencl_map_set(f.heap, &map, 5000, 12));
    QUARRY_EXPECT_OK(f.all, quarry_opencl_queue_push(f.heap, &queue, 13));
    f.unmap();
    f.queue.enqueueWriteBuffer(vectors, CL_TRUE, 0, sizeof vector, &vector);
    f.queue.enqueueWriteBuffer(maps, CL_TRUE, 0, sizeof map, &map);
    f.queue.enqueueWriteBuffer(queues, CL_TRUE, 0, sizeof queue, &queue);
    std::array<std::uint32_t, 3> seen{};
    cl::Buffer const results = buffer_of(f.context, seen);
    f.run(kernels, "look", 1, vectors, maps, queues, results);
    f.queue.enqueueReadBuffer(results, CL_TRUE, 0, sizeof seen, seen.data());
    f.queue.enqueueReadBuffer(queues, CL_TRUE, 0, sizeof queue, &queue);
    QUARRY_EXPECT(f.all, (seen == std::array<std::uint32_t, 3>{11, 12, 13}));

    f.map();
    QUARRY_EXPECT_OK(f.all, quarry_opencl_vector_clear(f.heap, &vector));
    QUARRY_EXPECT_OK(f.all, quarry_opencl_map_destroy(f.heap, &map));
    QUARRY_EXPECT_OK(f.all, quarry_opencl_queue_clear(f.heap, &queue));
    return f.finish();
  });
}

TEST(OpenclCContainers, MapsEqualAModelForManySeeds) {
  on_each_device([](cl::Device const& device) -> std::string {
    for (unsigned seed = 1; seed <= scaled(20u) + 1; ++seed) {
      mapped_fixture f{device};
      numbers random{seed};
      std::map<std::uint32_t, std::uint32_t> model, ordered_model;
      quarry_opencl_map map;
      quarry_opencl_ordered_map ordered{};
      QUARRY_EXPECT_OK(f.all, quarry_opencl_map_init(f.heap, &map, 1 + random() % 100));
      for (int step = 0; step < 500; ++step) {
        std::uint32_t const key = random() % 100, value = random();
        if (random() % 3 == 0) {
          auto const status = quarry_opencl_map_erase(f.heap, &map, key);
          QUARRY_EXPECT(f.all, status == (model.erase(key) == 1 ? QUARRY_OK : QUARRY_NOT_IN_USE));
        } else {
          QUARRY_EXPECT_OK(f.all, quarry_opencl_map_set(f.heap, &map, key, value));
          QUARRY_EXPECT_OK(f.all, quarry_opencl_ordered_map_set(f.heap, &ordered, key, value));
          model[key] = ordered_model[key] = value;
        }
      }
      for (std::uint32_t key = 0; key < 100; ++key) {
        std::uint32_t *value = nullptr, *ordered_value = nullptr;
        QUARRY_EXPECT_OK(f.all, quarry_opencl_map_find(f.heap, &map, key, &value));
        QUARRY_EXPECT_OK(f.all,
                         quarry_opencl_ordered_map_find(f.heap, &ordered, key, &ordered_value));
        QUARRY_EXPECT(f.all, (value != nullptr) == (model.count(key) == 1));
        QUARRY_EXPECT(f.all, value == nullptr || *value == model[key]);
        QUARRY_EXPECT(f.all, (ordered_value != nullptr) == (ordered_model.count(key) == 1));
        QUARRY_EXPECT(f.all, ordered_value == nullptr || *ordered_value == ordered_model[key]);
      }
      std::vector<std::uint32_t> keys(100), values(100);
      std::uint64_t count = 0;
      QUARRY_EXPECT_OK(
          f.all, quarry_opencl_map_read(f.heap, &map, keys.data(), values.data(), 100, &count));
      QUARRY_EXPECT(f.all, count == model.size() && map.size == model.size());
      for (std::uint64_t i = 0; i < count; ++i)
        QUARRY_EXPECT(f.all, model.count(keys[i]) == 1 && model[keys[i]] == values[i]);
      std::uint32_t const first = random() % 100;
      auto expected = ordered_model.lower_bound(first);
      QUARRY_EXPECT_OK(f.all, quarry_opencl_ordered_map_read(f.heap, &ordered, first, keys.data(),
                                                             values.data(), 100, &count));
      for (std::uint64_t i = 0; i < count; ++i, ++expected)
        QUARRY_EXPECT(f.all, expected != ordered_model.end() && expected->first == keys[i] &&
                                 expected->second == values[i]);
      QUARRY_EXPECT(f.all, expected == ordered_model.end());
      QUARRY_EXPECT_OK(f.all, quarry_opencl_map_destroy(f.heap, &map));
      QUARRY_EXPECT_OK(f.all, quarry_opencl_ordered_map_clear(f.heap, &ordered));
      if (auto const problem = f.finish(); !problem.empty())
        return "seed " + std::to_string(seed) + ": " + problem;
    }
    return "";
  });
}

TEST(OpenclCContainers, VectorsAndArrayListsReturnEachRangeOfTheirElements) {
  on_each_device([](cl::Device const& device) -> std::string {
    mapped_fixture f{device};
    numbers random{1};
    quarry_opencl_vector vector{};
    quarry_opencl_array_list list{};
    vector.element_bytes = list.element_bytes = 12;
    std::vector<std::array<std::uint32_t, 3>> model, read;
    while (model.size() < 2000) {
      std::uint32_t const count = 1 + random() % 50;
      std::uint32_t index = 0, chunk_index = 0;
      void *element = nullptr, *chunk = nullptr;
      QUARRY_EXPECT_OK(f.all, quarry_opencl_vector_push(f.heap, &vector, count, &index));
      QUARRY_EXPECT_OK(f.all,
                       quarry_opencl_array_list_grow(f.heap, &list, count, &chunk_index, &chunk));
      QUARRY_EXPECT(f.all, index == model.size() && chunk_index == model.size());
      for (std::uint32_t i = 0; i < count && f.all.problem().empty(); ++i) {
        model.push_back({index + i, random(), random()});
        QUARRY_EXPECT_OK(f.all, quarry_opencl_vector_at(f.heap, &vector, index + i, &element));
        std::memcpy(element, &model.back(), 12);
        std::memcpy(static_cast<char*>(chunk) + i * 12, &model.back(), 12);
      }
      if (!f.all.problem().empty()) return f.all.problem();
    }
    auto const size = static_cast<std::uint32_t>(model.size());
    for (int round = 0; round < 200; ++round) {
      std::uint32_t const first = random() % (size + 1), count = random() % (size - first + 1);
      read.assign(count, {});
      QUARRY_EXPECT_OK(f.all,
                       quarry_opencl_vector_read(f.heap, &vector, first, count, read.data()));
      QUARRY_EXPECT(f.all, std::equal(read.begin(), read.end(), model.begin() + first));
      read.assign(count, {});
      QUARRY_EXPECT_OK(f.all,
                       quarry_opencl_array_list_read(f.heap, &list, first, count, read.data()));
      QUARRY_EXPECT(f.all, std::equal(read.begin(), read.end(), model.begin() + first));
    }
    for (auto& element : model) element[1] = random();
    QUARRY_EXPECT_OK(f.all, quarry_opencl_vector_write(f.heap, &vector, 0, size - 1, model.data()));
    read.assign(size - 1, {});
    QUARRY_EXPECT_OK(f.all, quarry_opencl_vector_read(f.heap, &vector, 0, size - 1, read.data()));
    QUARRY_EXPECT(f.all, std::equal(read.begin(), read.end(), model.begin()));
    QUARRY_EXPECT_OK(f.all, quarry_opencl_vector_clear(f.heap, &vector));
    QUARRY_EXPECT_OK(f.all, quarry_opencl_array_list_clear(f.heap, &list));
    QUARRY_EXPECT(f.all, vector.size == 0 && list.size == 0);
    return f.finish();
  });
}

TEST(OpenclCContainers, AGraphIsReadAsRowsAndDestroyed) {
  on_each_device([](cl::Device const& device) -> std::string {
    mapped_fixture f{device};
    quarry_opencl_graph graph;
    quarry_opencl_csr rows;
    QUARRY_EXPECT_OK(f.all, quarry_opencl_map_init(f.heap, &graph, 64));
    auto* const heap = static_cast<opencl_c::quarry_heap>(f.base);
    auto* const kernels_graph = reinterpret_cast<opencl_c::quarry_graph*>(&graph);
    auto builder = opencl_c::quarry_graph_builder_empty();
    numbers random{1};
    for (int edge = 0; edge < 200; ++edge)
      QUARRY_EXPECT(f.all, opencl_c::quarry_graph_add_edge(heap, kernels_graph, random() % 50,
                                                           random() % 50, &builder));
    opencl_c::quarry_graph_finish(heap, &builder);
    auto const expected = opencl::csr_of(heap, kernels_graph);
    QUARRY_EXPECT_OK(f.all, quarry_opencl_graph_get_csr(f.heap, &graph, &rows));
    QUARRY_EXPECT(f.all, rows.vertices == expected.ids.size() && rows.edges == 200);
    if (!f.all.problem().empty()) return f.all.problem();
    QUARRY_EXPECT(f.all, std::equal(expected.ids.begin(), expected.ids.end(), rows.ids));
    QUARRY_EXPECT(f.all,
                  std::equal(expected.offsets.begin(), expected.offsets.end(), rows.offsets));
    QUARRY_EXPECT(f.all,
                  std::equal(expected.targets.begin(), expected.targets.end(), rows.targets));
    quarry_opencl_csr_free(&rows);
    quarry_opencl_csr_free(&rows);
    QUARRY_EXPECT_OK(f.all, quarry_opencl_graph_destroy(f.heap, &graph));
    QUARRY_EXPECT_OK(f.all, quarry_opencl_graph_get_csr(f.heap, &graph, &rows));  // no table
    QUARRY_EXPECT(f.all, rows.vertices == 0 && rows.edges == 0 && rows.offsets[0] == 0);
    quarry_opencl_csr_free(&rows);
    return f.finish();
  });
}

TEST(OpenclCContainers, AQueueThatTheHostEmptiesIsFilledAgain) {
  on_each_device([](cl::Device const& device) -> std::string {
    mapped_fixture f{device};
    quarry_opencl_queue queue{};
    std::vector<std::uint32_t> values(1 << 18);
    std::uint64_t pushed = 0, popped = 0;
    for (int round = 0; round < 3; ++round, pushed = 0) {
      while (quarry_opencl_queue_push(f.heap, &queue, 1) == QUARRY_OK) ++pushed;
      QUARRY_EXPECT(f.all, pushed >= 100'000);
      QUARRY_EXPECT_OK(
          f.all, quarry_opencl_queue_pop(f.heap, &queue, values.data(), values.size(), &popped));
      QUARRY_EXPECT(f.all, popped == pushed);
    }
    QUARRY_EXPECT_OK(f.all, quarry_opencl_queue_clear(f.heap, &queue));
    return f.finish();
  });
}

TEST(OpenclCContainers, ASetUsesTheMemoryOfEntriesThatKernelsErased) {
  on_each_device([](cl::Device const& device) -> std::string {
    mapped_fixture f{device};
    quarry_opencl_map map;
    QUARRY_EXPECT_OK(f.all, quarry_opencl_map_init(f.heap, &map, 1024));
    std::uint32_t keys = 0;
    while (quarry_opencl_map_set(f.heap, &map, keys, 1) == QUARRY_OK) ++keys;
    auto* const kernels_map = reinterpret_cast<opencl_c::quarry_map*>(&map);
    auto* const heap = static_cast<opencl_c::quarry_heap>(f.base);
    for (std::uint32_t key = 0; key < keys; ++key)
      QUARRY_EXPECT(f.all, opencl_c::quarry_map_erase(heap, kernels_map, key));
    for (std::uint32_t key = 0; key < keys; ++key)
      QUARRY_EXPECT_OK(f.all, quarry_opencl_map_set(f.heap, &map, key, 2));
    QUARRY_EXPECT_OK(f.all, quarry_opencl_map_destroy(f.heap, &map));
    return f.finish();
  });
}

TEST(OpenclCContainers, EveryCallRefusesNullAndAHeapThatIsNotMapped) {
  on_each_device([](cl::Device const& device) -> std::string {
    c_fixture f{device};
    quarry_opencl_vector vector{};
    quarry_opencl_array_list list{};
    quarry_opencl_queue queue{};
    quarry_opencl_map map{};
    quarry_opencl_ordered_map ordered{};
    std::uint32_t word = 0, *value = nullptr;
    std::uint64_t count = 0;
    void* memory = nullptr;
    quarry_opencl_csr rows{};
    using heap = quarry_opencl_heap*;
    // Each call with its container, or with null in place of the container.
    std::vector<std::function<quarry_status(heap, bool)>> const calls{
        [&](heap h, bool n) {
          return quarry_opencl_vector_push(h, n ? nullptr : &vector, 1, &word);
        },
        [&](heap h, bool n) {
          return quarry_opencl_vector_at(h, n ? nullptr : &vector, 0, &memory);
        },
        [&](heap h, bool n) {
          return quarry_opencl_vector_read(h, n ? nullptr : &vector, 0, 0, &word);
        },
        [&](heap h, bool n) { return quarry_opencl_vector_clear(h, n ? nullptr : &vector); },
        [&](heap h, bool n) {
          return quarry_opencl_array_list_grow(h, n ? nullptr : &list, 1, &word, &memory);
        },
        [&](heap h, bool n) {
          return quarry_opencl_array_list_read(h, n ? nullptr : &list, 0, 0, &word);
        },
        [&](heap h, bool n) { return quarry_opencl_array_list_clear(h, n ? nullptr : &list); },
        [&](heap h, bool n) { return quarry_opencl_queue_push(h, n ? nullptr : &queue, 1); },
        [&](heap h, bool n) {
          return quarry_opencl_queue_pop(h, n ? nullptr : &queue, &word, 1, &count);
        },
        [&](heap h, bool n) { return quarry_opencl_queue_clear(h, n ? nullptr : &queue); },
        [&](heap h, bool n) { return quarry_opencl_map_init(h, n ? nullptr : &map, 8); },
        [&](heap h, bool n) { return quarry_opencl_map_find(h, n ? nullptr : &map, 1, &value); },
        [&](heap h, bool n) { return quarry_opencl_map_set(h, n ? nullptr : &map, 1, 1); },
        [&](heap h, bool n) { return quarry_opencl_map_erase(h, n ? nullptr : &map, 1); },
        [&](heap h, bool n) {
          return quarry_opencl_map_read(h, n ? nullptr : &map, &word, &word, 1, &count);
        },
        [&](heap h, bool n) { return quarry_opencl_map_destroy(h, n ? nullptr : &map); },
        [&](heap h, bool n) {
          return quarry_opencl_ordered_map_find(h, n ? nullptr : &ordered, 1, &value);
        },
        [&](heap h, bool n) {
          return quarry_opencl_ordered_map_set(h, n ? nullptr : &ordered, 1, 1);
        },
        [&](heap h, bool n) {
          return quarry_opencl_ordered_map_read(h, n ? nullptr : &ordered, 0, &word, &word, 1,
                                                &count);
        },
        [&](heap h, bool n) { return quarry_opencl_ordered_map_clear(h, n ? nullptr : &ordered); },
        [&](heap h, bool n) { return quarry_opencl_graph_get_csr(h, n ? nullptr : &map, &rows); },
        [&](heap h, bool n) { return quarry_opencl_graph_destroy(h, n ? nullptr : &map); }};
    for (auto const& call : calls) {
      f.all.expect_refused(call(f.heap, false), QUARRY_BAD_ARGUMENT, "the heap is not mapped");
      QUARRY_EXPECT(f.all, call(nullptr, false) == QUARRY_BAD_ARGUMENT);
    }
    void* base = nullptr;
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_map(f.heap, &base));
    for (auto const& call : calls)
      f.all.expect_refused(call(f.heap, true), QUARRY_BAD_ARGUMENT, "the container is null");
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_unmap(f.heap));
    QUARRY_EXPECT(f.all, f.usage().allocations_in_use == 0);
    return f.all.problem();
  });
}

TEST(OpenclCContainers, ArgumentsOutOfRangeAndAFullHeapChangeNothing) {
  on_each_device([](cl::Device const& device) -> std::string {
    mapped_fixture f{device};
    quarry_opencl_vector vector{};
    quarry_opencl_array_list list{};
    quarry_opencl_map map{};
    std::uint32_t word = 0;
    void* memory = nullptr;
    auto const refused = [&](quarry_status status, char const* text) {
      f.all.expect_refused(status, QUARRY_BAD_ARGUMENT, text);
    };
    auto const has_no_memory = [&](quarry_status status) {
      f.all.expect_refused(status, QUARRY_OUT_OF_MEMORY, "the heap has no memory for");
    };
    refused(quarry_opencl_vector_push(f.heap, &vector, 1, &word), "element_bytes is 0");
    refused(quarry_opencl_array_list_grow(f.heap, &list, 1, &word, nullptr), "element_bytes is 0");
    vector.element_bytes = list.element_bytes = 4;
    refused(quarry_opencl_vector_push(f.heap, &vector, 0, &word), "count is 0");
    refused(quarry_opencl_vector_push(f.heap, &vector, 1, nullptr),
            "where the result goes is null");
    refused(quarry_opencl_vector_at(f.heap, &vector, 0, &memory), "exceed the size, which is 0");
    refused(quarry_opencl_vector_read(f.heap, &vector, 1, ~0u, &word), "exceed the size");
    refused(quarry_opencl_array_list_read(f.heap, &list, 0, 1, &word), "exceed the size");
    refused(quarry_opencl_vector_write(f.heap, &vector, 0, 1, &word), "exceed the size");
    refused(quarry_opencl_map_set(f.heap, &map, 1, 1), "the map has no table");
    refused(quarry_opencl_map_init(f.heap, &map, 0), "0 buckets");
    refused(quarry_opencl_map_init(f.heap, &map, 0x80000001u), "2147483649 buckets");
    has_no_memory(quarry_opencl_map_init(f.heap, &map, 0x80000000u));
    has_no_memory(quarry_opencl_vector_push(f.heap, &vector, 1u << 30, &word));
    has_no_memory(quarry_opencl_array_list_grow(f.heap, &list, ~0u, &word, &memory));
    QUARRY_EXPECT(f.all, map.table == 0 && vector.size == 0 && list.size == 0);

    quarry_opencl_ref all = 0;  // fill the heap
    for (std::uint64_t size = 512 << 10; size >= 16; size /= 2)
      while (quarry_opencl_heap_allocate(f.heap, size, &all) == QUARRY_OK) {
      }
    quarry_opencl_queue queue{};
    quarry_opencl_ordered_map ordered{};
    has_no_memory(quarry_opencl_queue_push(f.heap, &queue, 1));
    has_no_memory(quarry_opencl_ordered_map_set(f.heap, &ordered, 1, 1));
    QUARRY_EXPECT(f.all, ordered.size == 0);
    f.unmap();
    QUARRY_EXPECT(f.all, f.faults().out_of_memory >= 5);
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_audit(f.heap));
    return f.all.problem();
  });
}

}  // namespace opencl_c_containers_test
}  // namespace quarry::test
