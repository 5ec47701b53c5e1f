// SPDX-License-Identifier: Apache-2.0
#include "quarry/opencl/heap.hpp"

#include "opencl/calls.hpp"
#include "opencl/heap_plan.hpp"
#include "quarry/core/errors.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

namespace quarry::inline QUARRY_ABI::opencl {

namespace {

constexpr char const* own_kernels = R"opencl(
__kernel void quarry_initialise_heap(quarry_heap heap) {
  quarry_initialise(heap, (uint)get_global_id(0), (uint)get_global_size(0));
}
__kernel void quarry_add_pages_to_heap(quarry_heap heap, uint first, uint end) {
  quarry_add_pages(heap, first, end, (uint)get_global_id(0), (uint)get_global_size(0));
}
)opencl";

std::string_view name_of_fault(std::uint32_t kind) {
  constexpr std::array<std::string_view, QUARRY_FAULT_KINDS> names{
      "no fault",           "out of memory",     "double free",
      "interior reference", "foreign reference", "overrun"};
  return kind < names.size() ? names[kind] : "unknown fault";
}

/// A sentence about the first fault, which there is.
std::string describe_first_fault(opencl_c::quarry_heap_state const& state) {
  std::string const work_item = "group " + std::to_string(state.fault_group) + " work-item " +
                                std::to_string(state.fault_item);
  std::string const reference = "reference " + std::to_string(state.fault_reference);
  std::string const requested = std::to_string(state.fault_bytes) + " bytes requested";
  bool const has_bytes = state.fault_bytes != QUARRY_NONE;
  if (state.fault_kind == QUARRY_FAULT_OVERRUN)
    return "quarry: overrun found when " + work_item + " freed " + reference + ", " +
           (has_bytes ? requested : "requested size unknown");
  std::string const text =
      "quarry: " + std::string{name_of_fault(state.fault_kind)} + " by " + work_item + ", ";
  if (state.fault_kind != QUARRY_FAULT_OUT_OF_MEMORY) return text + reference;
  return text + (has_bytes ? requested : "4 GiB or more requested");
}

}  // namespace

/// What the copies of a heap share.
struct heap::shared_state {
  cl::Context context;
  cl::Device device;
  cl::CommandQueue queue;
  heap_options options;
  bool is_gpu = false;
  bool is_mapped = false;
  cl::Kernel initialise, add_pages;
  cl::Buffer buffer;

  /// The plan of the heap at its present size.
  [[nodiscard]] opencl_c::quarry_heap_state plan() const {
    auto state = plan_heap(options.bytes, options.hints, is_gpu, options.max_bytes);
    state.has_trailers = options.debug ? 1 : 0;
    return state;
  }

  void refuse_more_than_device_has(bytes size) const {
    auto const largest = device.getInfo<CL_DEVICE_MAX_MEM_ALLOC_SIZE>();
    if (size > largest)
      throw bad_argument{"opencl::heap: " + std::to_string(size) +
                         " bytes exceed the device's largest buffer (" + std::to_string(largest) +
                         " bytes)"};
  }

  /// The first words of the buffer.
  [[nodiscard]] std::vector<std::uint32_t> read(std::size_t count) const {
    return checked([&] {
      queue.finish();
      std::vector<std::uint32_t> words(count);
      queue.enqueueReadBuffer(buffer, CL_TRUE, 0, words.size() * 4, words.data());
      return words;
    });
  }
};

heap::heap(cl::Context const& context, cl::Device const& device, cl::CommandQueue queue,
           heap_options const& options)
    : state_{std::make_shared<shared_state>()} {
  auto& shared = *state_;
  shared.context = context;
  shared.device = device;
  shared.queue = std::move(queue);
  shared.options = options;
  checked([&] {
    shared.is_gpu = (device.getInfo<CL_DEVICE_TYPE>() & CL_DEVICE_TYPE_GPU) != 0;
    shared.options.max_bytes = std::max(options.bytes, options.max_bytes);
    (void)shared.plan();
    shared.refuse_more_than_device_has(options.bytes);
    if (tier_of(device) == atomics_tier::other)
      if (auto const stale = count_stale_messages(context, device, shared.queue); stale != 0)
        throw opencl_error{"this device does not order memory between work-groups: " +
                           std::to_string(stale) + " messages were stale in the self-test"};
    auto const program = opencl::build(context, device, own_kernels);
    shared.initialise = cl::Kernel{program, "quarry_initialise_heap"};
    shared.add_pages = cl::Kernel{program, "quarry_add_pages_to_heap"};
    shared.buffer = cl::Buffer{context, CL_MEM_READ_WRITE, options.bytes};
  });
  reset();
}

cl::Buffer const& heap::buffer() const { return state_->buffer; }
cl::CommandQueue const& heap::queue() const { return state_->queue; }
bytes heap::size() const { return state_->options.bytes; }
bool heap::is_debug() const { return state_->options.debug; }

heap::shared_state& heap::unmapped(char const* function) const {
  if (state_->is_mapped)
    throw bad_argument{std::string{"opencl::heap: "} + function +
                       ": the heap is mapped; unmap or destroy its mapped_heap first"};
  return *state_;
}

cl::Program heap::build(std::string_view source, std::string const& more_options) const {
  return opencl::build(state_->context, state_->device, source,
                       is_debug() ? "-DQUARRY_DEBUG=1 " + more_options : more_options);
}

void heap::reset() {
  auto& shared = unmapped("reset");
  checked([&] {
    shared.queue.finish();  // it may be out of order
    auto const state = shared.plan();
    shared.queue.enqueueWriteBuffer(shared.buffer, CL_TRUE, 0, sizeof state, &state);
    shared.initialise.setArg(0, shared.buffer);
    std::size_t const items = std::clamp<std::size_t>(state.words / 64 / 64 * 64, 64, 65536);
    shared.queue.enqueueNDRangeKernel(shared.initialise, cl::NullRange, items, 64);
    shared.queue.finish();
  });
}

void heap::grow(bytes size) {
  auto& shared = unmapped("grow");
  auto const old_size = shared.options.bytes;
  if (size < old_size || size > shared.options.max_bytes)
    throw bad_argument{"opencl::heap: cannot grow from " + std::to_string(old_size) + " to " +
                       std::to_string(size) + " bytes; max_bytes is " +
                       std::to_string(shared.options.max_bytes)};
  auto state = shared.plan();
  auto const pages = state.usable_pages;
  (void)resize(state, size);
  checked([&] {
    shared.refuse_more_than_device_has(size);
    auto const& queue = shared.queue;
    queue.finish();
    cl::Buffer const larger{shared.context, CL_MEM_READ_WRITE, size};
    queue.enqueueCopyBuffer(shared.buffer, larger, 0, 0, old_size);
    // The part of the state that kernels only read. What they change moves with the copy.
    constexpr std::size_t first = offsetof(opencl_c::quarry_heap_state, magic);
    constexpr std::size_t end = offsetof(opencl_c::quarry_heap_state, top_span);
    queue.finish();
    queue.enqueueWriteBuffer(larger, CL_TRUE, first, end - first,
                             reinterpret_cast<std::byte const*>(&state) + first);
    if (state.usable_pages > pages) {
      shared.add_pages.setArg(0, larger);
      shared.add_pages.setArg(1, pages);
      shared.add_pages.setArg(2, state.usable_pages);
      queue.enqueueNDRangeKernel(shared.add_pages, cl::NullRange, 1024, 64);
    }
    queue.finish();
    shared.buffer = larger;
  });
  shared.options.bytes = size;
}

heap_faults heap::faults() const {
  auto const& shared = unmapped("faults");
  return checked([&] {
    shared.queue.finish();
    opencl_c::quarry_heap_state state;
    shared.queue.enqueueReadBuffer(shared.buffer, CL_TRUE, 0, sizeof state, &state);
    auto const* const counts = state.fault_counts;
    heap_faults faults{counts[QUARRY_FAULT_OUT_OF_MEMORY],
                       counts[QUARRY_FAULT_DOUBLE_FREE],
                       counts[QUARRY_FAULT_INTERIOR_REFERENCE],
                       counts[QUARRY_FAULT_FOREIGN_REFERENCE],
                       counts[QUARRY_FAULT_OVERRUN],
                       {}};
    if (state.fault_kind != 0) faults.first = describe_first_fault(state);
    return faults;
  });
}

void heap::clear_faults() {
  auto const& shared = unmapped("clear_faults");
  checked([&] {
    shared.queue.finish();
    constexpr std::size_t first = offsetof(opencl_c::quarry_heap_state, fault_kind);
    constexpr std::size_t end = offsetof(opencl_c::quarry_heap_state, allocations_made);
    std::vector<std::byte> const zeros(end - first);
    shared.queue.enqueueWriteBuffer(shared.buffer, CL_TRUE, first, zeros.size(), zeros.data());
  });
}

heap_usage heap::usage() const {
  auto const& shared = unmapped("usage");
  auto const state = shared.plan();
  return usage_of({state, shared.read(state.words).data()});
}

std::string heap::audit() const {
  auto const& shared = unmapped("audit");
  auto const state = shared.plan();
  return audit_of({state, shared.read(state.words).data()});
}

std::vector<live_allocation> heap::live_allocations(std::size_t max_count) const {
  auto const& shared = unmapped("live_allocations");
  auto const state = shared.plan();
  auto const words = shared.read(state.words);
  return live_allocations_of(
      {state, words.data()}, max_count, [&](bytes offset, bytes size, void* target) {
        checked(
            [&] { shared.queue.enqueueReadBuffer(shared.buffer, CL_TRUE, offset, size, target); });
      });
}

mapped_heap::mapped_heap(heap const& heap) : heap_{heap.state_}, memory_{nullptr} {
  auto& shared = heap.unmapped("map");
  checked([&] {
    shared.queue.finish();
    memory_ = shared.queue.enqueueMapBuffer(shared.buffer, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                            shared.options.bytes);
  });
  shared.is_mapped = true;
  auto const state = shared.plan();
  auto const problem = audit_state_of({state, static_cast<std::uint32_t const*>(memory_)});
  if (problem.empty()) return;
  unmap();
  throw bad_state{"opencl::mapped_heap: " + problem};
}

void mapped_heap::unmap() {
  if (memory_ == nullptr) return;
  void* const memory = std::exchange(memory_, nullptr);
  heap_->is_mapped = false;
  checked([&] {
    heap_->queue.enqueueUnmapMemObject(heap_->buffer, memory);
    heap_->queue.finish();
  });
}

mapped_heap::~mapped_heap() {
  try {
    unmap();
  } catch (opencl_error const&) {  // the device is lost, and the memory with it
  }
}

}  // namespace quarry::inline QUARRY_ABI::opencl
