// SPDX-License-Identifier: Apache-2.0
// Kernels that fail, run for long, or have groups of several dimensions, on every OpenCL device.
#include "opencl/devices.hpp"
#include "quarry/core/errors.hpp"

#include <set>
#include <string>

namespace quarry::test {
namespace opencl_device_failures_test {

using namespace opencl_c;

constexpr char const* kernels = R"opencl(
// Does not check for null, as no kernel should.
__kernel void store(quarry_heap heap, ulong bytes) {
  __global uint* const words = (__global uint*)quarry_at(heap, quarry_malloc(heap, bytes));
  for (uint i = 0; i < 1024u; ++i) words[i] = 0xcdcdcdcdu;
}
__kernel void store_behind(quarry_heap heap, uint count) {
  __global uint* const words = (__global uint*)quarry_at(heap, 0u);
  for (uint i = 0; i < count; ++i) words[1024u + i] = 0xcdcdcdcdu;
}
// References and indices that each work-item gets.
__kernel void serve_group(quarry_heap heap, __global quarry_vector* vector,
                          __global quarry_array_list* list, __global uint* got,
                          __local uint* scratch) {
  uint const row = (uint)get_global_size(0), plane = row * (uint)get_global_size(1);
  uint const item = (uint)(get_global_id(0) + get_global_id(1) * row + get_global_id(2) * plane);
  got += item * 3u;
  got[0] = quarry_malloc_group(heap, 64u, scratch);
  got[1] = quarry_vector_push_group(heap, vector, 1u, scratch);
  uint index = QUARRY_NONE;
  quarry_array_list_grow_local(heap, list, 1u, &index, scratch);
  got[2] = index;
}
__kernel void churn_containers(quarry_heap heap, __global quarry_queue* queue,
                               __global quarry_map* map, uint rounds, __global uint* wrong) {
  uint const item = (uint)get_global_id(0), items = (uint)get_global_size(0);
  for (uint i = 0; i < rounds; ++i) {
    uint const key = i * items + item;
    uint value;
    bool is_new;
    if (!quarry_queue_push(heap, queue, key)) atomic_inc((volatile __global uint*)wrong);
    quarry_queue_pop(heap, queue, &value);
    if (quarry_map_ensure(heap, map, key, key, &is_new) == 0u || !is_new ||
        !quarry_map_erase(heap, map, key))
      atomic_inc((volatile __global uint*)(wrong + 1));
  }
}
__kernel void prepare(quarry_heap heap, __global quarry_map* map, uint buckets,
                      __global uint* wrong) {
  if (!quarry_map_init(heap, map, buckets) || !quarry_map_empty(heap, map, 0u, 1u)) *wrong = 1u;
}
)opencl";

/// A buffer of zeros.
cl::Buffer zeros(fixture& f, std::size_t bytes) {
  cl::Buffer buffer{f.context, CL_MEM_READ_WRITE, bytes};
  f.queue.enqueueFillBuffer(buffer, cl_uint{0}, 0, bytes);
  return buffer;
}

TEST(OpenclDeviceFailures, AStoreThroughANullReferenceDamagesNothingAndTheAuditReportsIt) {
  on_each_device([](cl::Device const& device) -> std::string {
    fixture f{device, 1_MiB, kernels};
    f.run("store", 1, 1, cl_ulong{1_GiB});
    auto audit = f.heap.audit();
    if (audit.find("through a null reference") == std::string::npos) return "audit: " + audit;
    if (f.heap.faults().out_of_memory != 1) return "the fault is not counted";
    f.run("store", 1, 1, cl_ulong{4096});
    if (f.heap.usage().allocations_in_use != 1) return "the heap is not usable";
    f.heap.reset();
    if (audit = f.heap.audit(); !audit.empty()) return "after a reset: " + audit;

    for (cl_uint const count : {1u, 40u, 1000u}) {  // words of the heap's state and behind it
      f.run("store_behind", 1, 1, count);
      audit = f.heap.audit();
      if (audit.find("heap state was overwritten") == std::string::npos) return "audit: " + audit;
      (void)f.heap.usage();
      (void)f.heap.live_allocations();
      (void)f.heap.faults();
      try {
        opencl::mapped_heap const mapped{f.heap};
        return "a damaged heap was mapped";
      } catch (bad_state const& refusal) {
        if (refusal.what() != "opencl::mapped_heap: " + audit) return refusal.what();
      }
      f.heap.reset();
      if (audit = f.heap.audit(); !audit.empty()) return "after a reset: " + audit;
      opencl::mapped_heap{f.heap}.unmap();
    }
    return "";
  });
}

TEST(OpenclDeviceFailures, GroupsOfThreeDimensionsAreServedLikeThoseOfOne) {
  on_each_device([](cl::Device const& device) -> std::string {
    fixture f{device, 4_MiB, kernels};
    cl::Buffer const vector = zeros(f, sizeof(quarry_vector)),
                     list = zeros(f, sizeof(quarry_array_list)), got = zeros(f, 256 * 3 * 4);
    cl_uint const element_bytes = 4;
    f.queue.enqueueWriteBuffer(vector, CL_TRUE, 0, 4, &element_bytes);
    f.queue.enqueueWriteBuffer(list, CL_TRUE, 0, 4, &element_bytes);
    cl::Kernel kernel{f.program, "serve_group"};
    kernel.setArg(0, f.heap.buffer());
    kernel.setArg(1, vector);
    kernel.setArg(2, list);
    kernel.setArg(3, got);
    kernel.setArg(4, cl::Local(QUARRY_GROUP_WORDS(32) * 4));
    f.queue.enqueueNDRangeKernel(kernel, cl::NullRange, cl::NDRange{4, 8, 8}, cl::NDRange{2, 4, 4});
    auto const words = f.read(got, 256 * 3);
    for (std::size_t kind = 0; kind < 3; ++kind) {  // references, and two kinds of indices
      std::set<uint> distinct;
      for (std::size_t item = 0; item < 256; ++item) distinct.insert(words[item * 3 + kind]);
      bool const are_valid = kind == 0 ? !distinct.contains(0) : *distinct.rbegin() == 255;
      if (distinct.size() != 256 || !are_valid)
        return std::to_string(distinct.size()) + " distinct results of kind " +
               std::to_string(kind);
    }
    return f.heap.audit();
  });
}

TEST(OpenclDeviceFailures, AQueueAndAMapServeManyMoreValuesThanTheyHaveAtOnce) {
  auto const rounds = scaled<cl_uint>(2000);
  on_each_device([rounds](cl::Device const& device) -> std::string {
    fixture f{device, 8_MiB, kernels};
    cl::Buffer const queue = zeros(f, sizeof(quarry_queue)), map = zeros(f, sizeof(quarry_map)),
                     wrong = zeros(f, 8);
    f.run("prepare", 1, 1, map, cl_uint{64}, wrong);
    f.run("churn_containers", 4, 16, queue, map, rounds, wrong);
    auto const failed = f.read(wrong, 2);
    if (failed[0] != 0) return std::to_string(failed[0]) + " pushes failed";
    if (failed[1] != 0) return std::to_string(failed[1]) + " insertions or removals failed";
    auto const erased = std::uint64_t{rounds} * 64;
    // The table, and rings: a work-item that is preempted in a push lets the queue grow meanwhile.
    if (auto const left = f.heap.usage().allocations_in_use; left > erased + 16)
      return std::to_string(left) + " allocations are left";
    return f.heap.audit();
  });
}

}  // namespace opencl_device_failures_test
}  // namespace quarry::test
