// SPDX-License-Identifier: Apache-2.0
// Debug heaps on every OpenCL device of the machine.
#include "opencl/devices.hpp"

#include <algorithm>

namespace quarry::test {
namespace opencl_device_debug_heap_test {

using opencl::allocation_state;

constexpr char const* kernels = R"opencl(
static inline uint size_of(uint item) {
  uint const sizes[8] = {0u, 1u, 15u, 16u, 17u, 100u, 1000u, 20000u};
  return sizes[item & 7u];
}
// Each work-item allocates `size_of` bytes. Work-item `guilty` writes one byte too many.
__kernel void allocate(quarry_heap heap, __global quarry_ref* references, uint guilty) {
  uint const item = (uint)get_global_id(0), size = size_of(item);
  references[item] = quarry_malloc(heap, size);
  if (references[item] == 0u) return;
  __global uchar* const bytes = (__global uchar*)quarry_at(heap, references[item]);
  // handover: owner, atomics
  for (uint i = 0; i < size + (item == guilty ? 1u : 0u); ++i) bytes[i] = 0u;
}
// The same from a group and from a reserve.
__kernel void allocate_by_group(quarry_heap heap, __global quarry_ref* references, uint guilty,
                                __local uint* scratch) {
  uint const item = (uint)get_global_id(0), size = size_of(item);
  references[item] = quarry_malloc_group(heap, size, scratch);
  if (references[item] == 0u) return;
  __global uchar* const bytes = (__global uchar*)quarry_at(heap, references[item]);
  // handover: owner, atomics
  for (uint i = 0; i < size + (item == guilty ? 1u : 0u); ++i) bytes[i] = 0u;
}
__kernel void allocate_from_reserve(quarry_heap heap, __global quarry_ref* references, uint guilty,
                                    uint returns) {
  uint const item = (uint)get_global_id(0), size = size_of(item);
  quarry_reserve reserve = quarry_reserve_empty();
  references[item] = quarry_reserve_malloc(heap, &reserve, size);
  if (returns != 0u) quarry_reserve_return(heap, &reserve);
  if (references[item] == 0u) return;
  __global uchar* const bytes = (__global uchar*)quarry_at(heap, references[item]);
  // handover: owner, atomics
  for (uint i = 0; i < size + (item == guilty ? 1u : 0u); ++i) bytes[i] = 0u;
}
__kernel void release(quarry_heap heap, __global quarry_ref const* references) {
  quarry_free(heap, references[get_global_id(0)]);
}
)opencl";

constexpr cl_uint items = 128, nobody = ~0u;

cl_uint count_of(std::vector<opencl::live_allocation> const& live, allocation_state state) {
  return static_cast<cl_uint>(std::count_if(
      live.begin(), live.end(), [&](auto& allocation) { return allocation.state == state; }));
}

/// Expects that the heap has `items` allocations, that only `guilty` has an overrun, and that the
/// free of `guilty` reports it. Frees all.
std::string check_and_free(fixture& f, cl::Buffer const& references, cl_uint guilty,
                           std::string const& name) {
  auto const all = f.read(references, items);
  if (std::count(all.begin(), all.end(), 0u) != 0) return name + ": " + f.heap.faults().first;
  auto const live = f.heap.live_allocations();
  cl_uint const wrong = guilty == nobody ? 0 : 1;
  if (live.size() != items || count_of(live, allocation_state::overrun) != wrong ||
      count_of(live, allocation_state::intact) != items - wrong)
    return name + ": " + std::to_string(live.size()) + " allocations, " +
           std::to_string(count_of(live, allocation_state::overrun)) + " overruns";
  for (auto const& allocation : live)
    if (allocation.state == allocation_state::overrun &&
        (allocation.reference != all[guilty] || allocation.work_item != guilty ||
         allocation.number == 0))
      return name + ": the overrun is listed for another allocation";
  if (f.heap.live_allocations(5).size() != 5) return name + ": the list is not bounded";
  f.run("release", items / 32, 32, references);
  auto const faults = f.heap.faults();
  if (faults.overrun != wrong || faults.double_free != 0)
    return name + ": " + std::to_string(faults.overrun) + " overruns; " + faults.first;
  if (wrong != 0 &&
      (faults.first.find("overrun") == std::string::npos ||
       faults.first.find("reference " + std::to_string(all[guilty])) == std::string::npos))
    return name + ": the first fault is '" + faults.first + "'";
  f.heap.clear_faults();
  if (!f.heap.live_allocations().empty()) return name + ": an allocation was not freed";
  return f.heap.audit();
}

TEST(OpenclDebugKernels, AnOverrunByOneByteIsListedAndTheFreeReportsIt) {
  on_each_device([](cl::Device const& device) -> std::string {
    fixture f{device, scaled(16_MiB), kernels, 0, true};
    cl::Buffer const references{f.context, CL_MEM_READ_WRITE, items * sizeof(cl_uint)};
    for (cl_uint const guilty : {nobody, 0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u}) {
      if (scale() != 1 && guilty != nobody && guilty != 3) continue;
      f.run("allocate", items / 32, 32, references, guilty);
      if (auto const problem = check_and_free(f, references, guilty, "malloc"); !problem.empty())
        return problem;
      f.run("allocate_by_group", items / 32, 32, references, guilty, cl::Local(4 * 66));
      if (auto const problem = check_and_free(f, references, guilty, "group"); !problem.empty())
        return problem;
      f.run("allocate_from_reserve", items / 32, 32, references, guilty, cl_uint{1});
      if (auto const problem = check_and_free(f, references, guilty, "reserve"); !problem.empty())
        return problem;
    }
    return {};
  });
}

TEST(OpenclDebugKernels, SlotsThatAReserveDidNotReturnAreListedAsReserved) {
  on_each_device([](cl::Device const& device) -> std::string {
    fixture f{device, scaled(16_MiB), kernels, 0, true};
    cl::Buffer const references{f.context, CL_MEM_READ_WRITE, 32 * sizeof(cl_uint)};
    f.run("allocate_from_reserve", 1, 32, references, nobody, cl_uint{0});
    auto const live = f.heap.live_allocations(100'000);
    if (count_of(live, allocation_state::intact) != 32 ||
        count_of(live, allocation_state::reserved) == 0 ||
        count_of(live, allocation_state::overrun) != 0)
      return std::to_string(count_of(live, allocation_state::intact)) + " allocations, " +
             std::to_string(count_of(live, allocation_state::reserved)) + " reserved slots";
    if (live.size() != f.heap.usage().allocations_in_use) return "allocations are missing";
    return f.heap.audit();
  });
}

/// A program with QUARRY_DEBUG and a heap that is no debug heap, and the other way round.
TEST(OpenclDebugKernels, AProgramOfTheOtherModeDamagesNoHeap) {
  on_each_device([](cl::Device const& device) -> std::string {
    fixture plain{device, scaled(16_MiB), kernels};
    plain.program = opencl::build(plain.context, device, kernels, "-DQUARRY_DEBUG=1");
    cl::Buffer const first{plain.context, CL_MEM_READ_WRITE, items * sizeof(cl_uint)};
    plain.run("allocate", items / 32, 32, first, nobody);
    auto const live = plain.heap.live_allocations();
    if (live.size() != items || count_of(live, allocation_state::unknown) != items)
      return "a heap without trailers lists " + std::to_string(live.size()) + " allocations";
    plain.run("release", items / 32, 32, first);
    if (auto const faults = plain.heap.faults(); !faults.first.empty()) return faults.first;
    if (plain.heap.usage().allocations_in_use != 0) return "an allocation was not freed";
    if (auto const problem = plain.heap.audit(); !problem.empty()) return problem;

    fixture debug{device, scaled(64_MiB), kernels, 0, true};
    cl::Program const checked = debug.program;
    cl::Program const unchecked = opencl::build(debug.context, device, kernels);
    cl::Buffer const of_checked{debug.context, CL_MEM_READ_WRITE, items * sizeof(cl_uint)};
    cl::Buffer const of_unchecked{debug.context, CL_MEM_READ_WRITE, items * sizeof(cl_uint)};
    debug.run("allocate", items / 32, 32, of_checked, nobody);
    debug.program = unchecked;
    debug.run("allocate", items / 32, 32, of_unchecked, nobody);
    if (auto const problem = debug.heap.audit(); !problem.empty()) return problem;
    if (count_of(debug.heap.live_allocations(), allocation_state::intact) != items)
      return "a program without QUARRY_DEBUG changed trailers";
    debug.run("release", items / 32, 32, of_checked);
    if (auto const faults = debug.heap.faults(); !faults.first.empty()) return faults.first;
    debug.program = checked;
    debug.run("release", items / 32, 32, of_unchecked);
    auto const faults = debug.heap.faults();
    if (faults.overrun + faults.double_free != items)
      return "frees without trailers: " + std::to_string(faults.overrun) + " overruns, " +
             std::to_string(faults.double_free) + " double frees";
    if (debug.heap.usage().allocations_in_use != faults.double_free)
      return "another number of allocations than was refused is in use";
    debug.program = unchecked;
    debug.run("release", items / 32, 32, of_unchecked);
    if (debug.heap.usage().allocations_in_use != 0) return "an allocation was not freed";
    return debug.heap.audit();
  });
}

}  // namespace opencl_device_debug_heap_test
}  // namespace quarry::test
