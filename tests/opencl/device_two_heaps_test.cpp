// SPDX-License-Identifier: Apache-2.0
// Two heaps in one kernel, and heaps that grow between kernels, on every OpenCL device.
#include "opencl/devices.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace quarry::test {
namespace opencl_device_two_heaps_test {

constexpr char const* kernels = R"opencl(
// Each work-item allocates from one of two heaps, tags every byte, checks and frees, `rounds`
// times. Neighbours use different heaps in one call, in a pattern that changes with each round.
#ifdef WAY
__kernel void churn_in_two(quarry_heap first, quarry_heap second, uint rounds,
                    __global uint* wrong, __local uint* scratch) {
  uint const item = (uint)get_global_id(0);
  quarry_reserve reserves[2] = {quarry_reserve_empty(), quarry_reserve_empty()};
  quarry_ref references[4] = {0u, 0u, 0u, 0u};
  uint sizes[4] = {0u, 0u, 0u, 0u}, chosen[4] = {0u, 0u, 0u, 0u};
  for (uint round = 0; round < rounds + 4u; ++round) {
    uint const i = round & 3u;
    quarry_heap const old = chosen[i] == 0u ? first : second;
    if (references[i] != 0u) {
      __global uchar const* const bytes = (__global uchar const*)quarry_at(old, references[i]);
      uint bad = 0u;
      // handover: owner, atomics
      for (uint b = 0; b < sizes[i]; ++b) bad += bytes[b] != (uchar)(item + i) ? 1u : 0u;
      if (!quarry_free(old, references[i])) ++bad;
      if (bad != 0u) atomic_add((volatile __global uint*)wrong, bad);
      references[i] = 0u;
    }
    if (round >= rounds) continue;
    chosen[i] = (item * 5u + round) / 3u & 1u;
    sizes[i] = (item + round) % 9u == 0u ? 5000u : (item >> 2 & 1u) * 16u + 8u;
    quarry_heap const heap = chosen[i] == 0u ? first : second;
#if WAY == 0
    references[i] = quarry_malloc(heap, sizes[i]);
#elif WAY == 1
    references[i] = quarry_malloc_group(heap, sizes[i], scratch);
#else
    references[i] = quarry_reserve_malloc(heap, &reserves[chosen[i]], sizes[i]);
#endif
    if (references[i] == 0u) {
      atomic_add((volatile __global uint*)(wrong + 1), 1u);
      continue;
    }
    __global uchar* const bytes = (__global uchar*)quarry_at(heap, references[i]);
    for (uint b = 0; b < sizes[i]; ++b) bytes[b] = (uchar)(item + i);  // handover: owner, atomics
  }
#if WAY == 2
  for (uint i = 0; i < 2u; ++i) quarry_reserve_return(i == 0u ? first : second, &reserves[i]);
#endif
}
#else

// Frees references of `owner` in `other`, and counts the frees that `other` accepts.
__kernel void free_elsewhere(quarry_heap owner, quarry_heap other,
                             __global quarry_ref* references, __global uint* accepted) {
  uint const item = (uint)get_global_id(0);
  references[item] = quarry_malloc(owner, 48u);
  if (quarry_free(other, references[item])) atomic_add((volatile __global uint*)accepted, 1u);
}

// Allocates from a reserve, and tags the allocations.
__kernel void allocate(quarry_heap heap, __global quarry_ref* references, uint count) {
  quarry_reserve reserve = quarry_reserve_empty();
  for (uint i = get_global_id(0); i < count; i += get_global_size(0)) {
    references[i] = quarry_reserve_malloc(heap, &reserve, 64u);
    if (references[i] != 0u) *(__global uint*)quarry_at(heap, references[i]) = i;
  }
  quarry_reserve_return(heap, &reserve);
}
__kernel void check_and_free(quarry_heap heap, __global quarry_ref* references, uint count,
                             __global uint* wrong) {
  for (uint i = get_global_id(0); i < count; i += get_global_size(0)) {
    if (references[i] == 0u) continue;
    bool const is_right = *(__global uint*)quarry_at(heap, references[i]) == i;
    if (!is_right || !quarry_free(heap, references[i]))
      atomic_add((volatile __global uint*)wrong, 1u);
  }
}
#endif
)opencl";

std::string problem_of(opencl::heap const& heap) {
  auto const faults = heap.faults();
  if (!faults.first.empty()) return faults.first;
  auto const left = heap.usage().allocations_in_use;
  if (left != 0) return std::to_string(left) + " allocations are left";
  return heap.audit();
}

TEST(OpenclTwoHeapsInKernels, WorkItemsOfOneCallAllocateFromTheHeapThatEachOnePasses) {
  on_each_device([](cl::Device const& device) -> std::string {
    for (cl_uint way = 0; way < 3; ++way) {
      bool const is_debug = way == 2;
      fixture f{device, scaled(128_MiB), "", 0, is_debug};
      // In a heap of less than 64 MiB pages are smaller, so spans of a class differ.
      opencl::heap const second{
          f.context, device, f.queue, {.bytes = scaled(60_MiB), .debug = is_debug}};
      f.program = f.heap.build(kernels, "-DWAY=" + std::to_string(way));
      constexpr std::size_t local = 96;
      cl_uint counts[2] = {0, 0};
      cl::Buffer const wrong{f.context, CL_MEM_COPY_HOST_PTR, sizeof counts, counts};
      end_after(60);  // PoCL compiles the kernel at its launch
      f.run("churn_in_two", groups_for(2048, local), local, second.buffer(),
            cl_uint{scale() == 1 ? 16u : 5u}, wrong, cl::Local(4 * (2 * local + 2)));
      auto const found = f.read(wrong, 2);
      std::string const where = "way " + std::to_string(way) + ": ";
      if (found[0] != 0) return where + std::to_string(found[0]) + " wrong bytes";
      if (found[1] != 0) return where + std::to_string(found[1]) + " null references";
      for (auto const* const heap : {&std::as_const(f.heap), &second})
        if (auto const problem = problem_of(*heap); !problem.empty()) return where + problem;
    }
    return {};
  });
}

TEST(OpenclTwoHeapsInKernels, AFreeInTheWrongHeapIsAFaultAndChangesNothing) {
  on_each_device([](cl::Device const& device) -> std::string {
    constexpr cl_uint items = 256;
    fixture f{device, scaled(16_MiB), kernels};
    opencl::heap const empty{f.context, device, f.queue, {.bytes = scaled(16_MiB)}};
    cl::Buffer const references{f.context, CL_MEM_READ_WRITE, items * sizeof(cl_uint)};
    cl_uint none = 0;
    cl::Buffer const accepted{f.context, CL_MEM_COPY_HOST_PTR, sizeof none, &none};
    f.run("free_elsewhere", items / 32, 32, empty.buffer(), references, accepted);
    if (f.read(accepted, 1)[0] != 0) return "a heap freed what it never allocated";
    auto const faults = empty.faults();
    if (faults.double_free + faults.interior_reference + faults.foreign_reference != items)
      return "not each free is a fault: " + faults.first;
    if (empty.usage().allocations_in_use != 0) return "the other heap changed";
    if (f.heap.usage().allocations_in_use != items) return "the owner changed";
    if (auto const problem = empty.audit(); !problem.empty()) return problem;
    return f.heap.audit();
  });
}

/// A kernel with reserves fills two heaps; one grows; the kernel runs again in both.
TEST(OpenclTwoHeapsInKernels, OneGrowsBetweenKernelsWithReserves) {
  on_each_device([](cl::Device const& device) -> std::string {
    auto const small = scaled(2_MiB), large = scaled(8_MiB);
    auto const count = static_cast<cl_uint>(large / 64);
    constexpr std::size_t groups = 8, local = 64;
    fixture f{device, small, kernels, large};
    fixture other{device, small, kernels, large};
    auto const new_buffer = [&](fixture& owner) {
      return cl::Buffer{owner.context, CL_MEM_READ_WRITE, count * sizeof(cl_uint)};
    };
    auto const served = [&](fixture& owner, cl::Buffer const& buffer) {
      auto all = owner.read(buffer, count);
      std::erase(all, 0u);
      return all;
    };
    cl::Buffer const old = new_buffer(f), fresh = new_buffer(f), of_other = new_buffer(other),
                     more_of_other = new_buffer(other);
    f.run("allocate", groups, local, old, count);
    other.run("allocate", groups, local, of_other, count);
    auto const before = served(f, old);
    auto const old_end = static_cast<cl_uint>(small / 16);
    f.heap.grow(large);
    if (auto const problem = f.heap.audit(); !problem.empty()) return problem;
    f.run("allocate", groups, local, fresh, count);
    other.run("allocate", groups, local, more_of_other, count);
    auto const after = served(f, fresh);
    auto const in_new_memory =
        std::count_if(after.begin(), after.end(), [&](cl_uint ref) { return ref >= old_end; });
    if (double(before.size()) * 64 < 0.7 * double(small) ||
        double(in_new_memory) * 64 < 0.9 * double(large - small))
      return std::to_string(before.size()) + " fit before, and " + std::to_string(in_new_memory) +
             " in the new memory";
    if (before.size() + after.size() - std::size_t(in_new_memory) > small / 64)
      return "the old memory served more allocations than it has room for";
    auto all = before;
    all.insert(all.end(), after.begin(), after.end());
    std::sort(all.begin(), all.end());
    if (std::adjacent_find(all.begin(), all.end()) != all.end()) return "a reference came twice";
    if (served(other, more_of_other).size() > served(other, of_other).size() / 10)
      return "the heap that did not grow serves more";
    if (auto const problem = other.heap.audit(); !problem.empty()) return problem;
    cl_uint none = 0;
    for (fixture* const owner : {&f, &other}) {
      cl::Buffer const wrong{owner->context, CL_MEM_COPY_HOST_PTR, sizeof none, &none};
      for (auto const* const buffer :
           owner == &f ? std::array{&old, &fresh} : std::array{&of_other, &more_of_other})
        owner->run("check_and_free", groups, local, *buffer, count, wrong);
      if (owner->read(wrong, 1)[0] != 0) return "an allocation changed, or its free was refused";
      owner->heap.clear_faults();  // of mallocs that found the heap full
      if (auto const problem = problem_of(owner->heap); !problem.empty()) return problem;
    }
    return {};
  });
}

}  // namespace opencl_device_two_heaps_test
}  // namespace quarry::test
