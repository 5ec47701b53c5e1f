// SPDX-License-Identifier: Apache-2.0
// A map, a vector and a queue that kernels fill and empty: words are counted by their ids, each id
// is recorded once, and frequent ids become work for a later kernel.
#include "quarry/opencl/heap.hpp"

#include <cstdio>
#include <iostream>
#include <vector>

namespace {

constexpr char const* kernels = R"opencl(
__kernel void count_words(quarry_heap heap, __global quarry_map* map, __global quarry_vector* seen,
                          __global quarry_queue* work, __global uint const* words) {
  uint const word = words[get_global_id(0)];
  bool is_new;
  quarry_ref const entry = quarry_map_ensure(heap, map, word, 0, &is_new);
  if (entry == 0) return;  // the heap is full, and has recorded it
  if (is_new) {
    uint const index = quarry_vector_push(heap, seen, 1);
    if (index != QUARRY_NONE) *(__global uint*)quarry_vector_at(heap, seen, index) = word;
  }
  uint const before = atomic_inc((volatile __global uint*)quarry_map_value(heap, entry));
  if (before == 99) quarry_queue_push(heap, work, word);  // false: the heap is full
}

__kernel void take_work(quarry_heap heap, __global quarry_queue* work, __global uint* taken) {
  uint word;
  while (quarry_queue_pop(heap, work, &word)) taken[word] = 1;
}
)opencl";

using namespace quarry::opencl_c;  // the functions and structs of kernels, for the host

/// A buffer of the device with a struct or an array.
template <class T>
cl::Buffer buffer_of(cl::Context const& context, T* data, std::size_t count) {
  return {context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, count * sizeof(T), data};
}

int run(cl::Device const& device) {
  cl::Context const context{device};
  cl::CommandQueue const queue{context, device};
  quarry::opencl::heap heap{context, device, queue, {.bytes = 16 << 20}};
  cl::Program const program = quarry::opencl::build(context, device, kernels);
  auto const launch = [&](char const* name, std::size_t items, auto const&... arguments) {
    cl::Kernel kernel{program, name};
    cl_uint index = 0;
    (kernel.setArg(index++, arguments), ...);
    queue.enqueueNDRangeKernel(kernel, cl::NullRange, items, 64);
  };

  // 8,192 words: ids 0 to 63 come 64 times each, and ids 64 to 95 come 128 times each.
  std::vector<cl_uint> words(8192), taken(96);
  for (cl_uint i = 0; i < 8192; ++i) words[i] = i < 4096 ? i % 64 : 64 + i % 32;

  quarry_map map;
  quarry_vector seen;
  quarry_queue work{};
  quarry_vector_init(&seen, sizeof(cl_uint));
  {
    quarry::opencl::mapped_heap const mapped{heap};
    if (!quarry_map_init(mapped.get(), &map, 256)) return 1;  // twice as many buckets as keys
    quarry_map_empty(mapped.get(), &map, 0, 1);
  }
  auto const maps = buffer_of(context, &map, 1);
  auto const vectors = buffer_of(context, &seen, 1);
  auto const queues = buffer_of(context, &work, 1);
  auto const inputs = buffer_of(context, words.data(), words.size());
  auto const results = buffer_of(context, taken.data(), taken.size());

  launch("count_words", words.size(), heap.buffer(), maps, vectors, queues, inputs);
  launch("take_work", 64, heap.buffer(), queues, results);
  queue.enqueueReadBuffer(results, CL_TRUE, 0, taken.size() * sizeof(cl_uint), taken.data());
  if (auto const faults = heap.faults(); !faults.first.empty()) std::cerr << faults.first << '\n';

  queue.enqueueReadBuffer(maps, CL_TRUE, 0, sizeof map, &map);
  queue.enqueueReadBuffer(vectors, CL_TRUE, 0, sizeof seen, &seen);
  queue.enqueueReadBuffer(queues, CL_TRUE, 0, sizeof work, &work);
  cl_uint total = 0, work_items = 0;
  {
    quarry::opencl::mapped_heap const mapped{heap};
    for (cl_uint i = 0; i < seen.size; ++i) {
      auto const word = *static_cast<cl_uint const*>(quarry_vector_at(mapped.get(), &seen, i));
      total += *quarry_map_value(mapped.get(), quarry_map_find(mapped.get(), &map, word));
    }
    quarry_vector_clear(mapped.get(), &seen);
    quarry_queue_clear(mapped.get(), &work);
    quarry_map_clear(mapped.get(), &map, 0, 1);
    quarry_free(mapped.get(), map.table);
  }
  for (auto const is_taken : taken) work_items += is_taken;
  auto const left = heap.usage().allocations_in_use;
  std::printf("%u words, %u of them frequent; %llu allocations are left\n", total, work_items,
              static_cast<unsigned long long>(left));
  return total == words.size() && work_items == 32 && left == 0 && heap.audit().empty() ? 0 : 1;
}

}  // namespace

int main() {
  try {
    return run(cl::Device::getDefault());
  } catch (std::exception const& error) {
    std::cerr << "opencl_containers: " << error.what() << '\n';
    return 77;  // no device
  }
}
