// SPDX-License-Identifier: Apache-2.0
// Copies of a heap, and heaps that are mapped, on every OpenCL device of the machine.
#include "quarry/opencl/heap.hpp"

#include "opencl/devices.hpp"

#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace quarry::test {
namespace opencl_copies_test {

constexpr char const* kernels = R"opencl(
__kernel void allocate(quarry_heap heap) { quarry_malloc(heap, 100); }
)opencl";

TEST(OpenclHeapCopies, AreTheSameHeapAfterItGrewAndAfterTheOriginalIsGone) {
  on_each_device([](cl::Device const& device) -> std::string {
    auto f = std::make_unique<fixture>(device, 1_MiB, kernels, 4_MiB);
    opencl::heap copy = f->heap;
    opencl::heap moved_to = std::move(copy);  // copies, too
    f->heap.grow(2_MiB);
    copy.grow(3_MiB);
    if (f->heap.size() != 3_MiB || moved_to.size() != 3_MiB) return "the sizes differ";
    if (f->heap.buffer()() != copy.buffer()()) return "the buffers differ";
    f->run("allocate", 1, 1);
    for (auto const* heap : {&f->heap, &copy, &moved_to})
      if (heap->usage().allocations_in_use != 1) return "a copy has other allocations";
    f.reset();
    copy.reset();
    return moved_to.usage().allocations_in_use == 0 ? moved_to.audit() : "reset left an allocation";
  });
}

TEST(OpenclHeapCopies, AMappedHeapRefusesWhatReadsOrMovesItsBufferAndKeepsTheHostsAllocations) {
  on_each_device([](cl::Device const& device) -> std::string {
    fixture f{device, 1_MiB, kernels, 4_MiB};
    opencl::heap copy = f.heap;
    auto mapped = std::make_unique<opencl::mapped_heap>(f.heap);
    auto const is_refused = [&](std::string const& name, std::function<void()> const& call) {
      try {
        call();
      } catch (bad_argument const& error) {
        std::string const text = error.what();
        if (text.find(name) == std::string::npos || text.find("mapped") == std::string::npos)
          return text;
        return std::string{};
      }
      return name + " is not refused";
    };
    for (auto const& [name, call] :
         std::initializer_list<std::pair<char const*, std::function<void()>>>{
             {"grow", [&] { copy.grow(2_MiB); }},
             {"reset", [&] { copy.reset(); }},
             {"clear_faults", [&] { copy.clear_faults(); }},
             {"faults", [&] { (void)copy.faults(); }},
             {"usage", [&] { (void)copy.usage(); }},
             {"audit", [&] { (void)copy.audit(); }},
             {"live_allocations", [&] { (void)copy.live_allocations(); }},
             {"map", [&] { opencl::mapped_heap const second{copy}; }}})
      if (auto const problem = is_refused(name, call); !problem.empty()) return problem;
    if (copy.size() != 1_MiB) return "a refused call grew the heap";

    auto const reference = opencl_c::quarry_malloc(mapped->get(), 100);
    mapped->unmap();
    copy.grow(2_MiB);
    if (f.heap.usage().allocations_in_use != 1) return "the host's allocation is lost";
    mapped = std::make_unique<opencl::mapped_heap>(copy);
    if (!opencl_c::quarry_free(mapped->get(), reference)) return "the reference is not valid";
    mapped.reset();
    return f.heap.usage().allocations_in_use == 0 ? f.heap.audit() : "an allocation is left";
  });
}

TEST(OpenclHeapCopies, AMappingOutlivesItsHeap) {
  on_each_device([](cl::Device const& device) -> std::string {
    auto f = std::make_unique<fixture>(device, 1_MiB, kernels);
    opencl::mapped_heap const mapped{f->heap};
    f.reset();
    auto const reference = opencl_c::quarry_malloc(mapped.get(), 100);
    return opencl_c::quarry_free(mapped.get(), reference) ? "" : "the heap is not usable";
  });
}

}  // namespace opencl_copies_test
}  // namespace quarry::test
