// SPDX-License-Identifier: Apache-2.0
#include "quarry/opencl/heap.hpp"

#include "opencl/calls.hpp"
#include "opencl/heap_plan.hpp"

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
      "no fault",          "out of memory", "double free", "interior reference",
      "foreign reference", "stalled",       "overrun"};
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

heap::heap(cl::Context const& context, cl::Device const& device, cl::CommandQueue queue,
           heap_options const& options)
    : context_{context}, device_{device}, queue_{std::move(queue)}, options_{options} {
  checked([&] {
    is_gpu_ = (device.getInfo<CL_DEVICE_TYPE>() & CL_DEVICE_TYPE_GPU) != 0;
    options_.max_size = std::max(options_.size, options_.max_size);
    (void)plan();
    refuse_more_than_device_has(options_.size);
    if (tier_of(device) == atomics_tier::other)
      if (auto const stale = count_stale_messages(context, device, queue_); stale != 0)
        throw opencl_error{"this device does not order memory between work-groups: " +
                           std::to_string(stale) + " messages were stale in the self-test"};
    auto const program = opencl::build(context, device, own_kernels);
    initialise_ = cl::Kernel{program, "quarry_initialise_heap"};
    add_pages_ = cl::Kernel{program, "quarry_add_pages_to_heap"};
    buffer_ = cl::Buffer{context, CL_MEM_READ_WRITE, options_.size};
  });
  reset();
}

void heap::refuse_more_than_device_has(bytes size) const {
  auto const largest = device_.getInfo<CL_DEVICE_MAX_MEM_ALLOC_SIZE>();
  if (size > largest)
    throw bad_argument{"opencl::heap: " + std::to_string(size) +
                       " bytes exceed the device's largest buffer (" + std::to_string(largest) +
                       " bytes)"};
}

opencl_c::quarry_heap_state heap::plan() const {
  auto state = plan_heap(options_.size, options_.places, is_gpu_, options_.max_size);
  state.has_trailers = options_.debug ? 1 : 0;
  return state;
}

cl::Program heap::build(std::string_view source, std::string const& more_options) const {
  return opencl::build(context_, device_, source,
                       options_.debug ? "-DQUARRY_DEBUG=1 " + more_options : more_options);
}

void heap::reset() {
  checked([&] {
    queue_.finish();  // it may be out of order
    auto const state = plan();
    queue_.enqueueWriteBuffer(buffer_, CL_TRUE, 0, sizeof state, &state);
    initialise_.setArg(0, buffer_);
    std::size_t const items = std::clamp<std::size_t>(state.words / 64 / 64 * 64, 64, 65536);
    queue_.enqueueNDRangeKernel(initialise_, cl::NullRange, items, 64);
    queue_.finish();
  });
}

void heap::grow(bytes size) {
  if (size < options_.size || size > options_.max_size)
    throw bad_argument{"opencl::heap: cannot grow from " + std::to_string(options_.size) + " to " +
                       std::to_string(size) + " bytes; max_size is " +
                       std::to_string(options_.max_size)};
  checked([&] {
    refuse_more_than_device_has(size);
    queue_.finish();
    cl::Buffer const larger{context_, CL_MEM_READ_WRITE, size};
    queue_.enqueueCopyBuffer(buffer_, larger, 0, 0, options_.size);
    queue_.finish();
    opencl_c::quarry_heap_state state;
    queue_.enqueueReadBuffer(larger, CL_TRUE, 0, sizeof state, &state);
    auto const pages = state.usable_pages;
    (void)resize(state, size);
    if (state.usable_pages > pages) {
      queue_.enqueueWriteBuffer(larger, CL_TRUE, 0, sizeof state, &state);
      add_pages_.setArg(0, larger);
      add_pages_.setArg(1, pages);
      add_pages_.setArg(2, state.usable_pages);
      queue_.enqueueNDRangeKernel(add_pages_, cl::NullRange, 1024, 64);
    }
    queue_.finish();
    buffer_ = larger;
  });
  options_.size = size;
}

heap_faults heap::faults() const {
  return checked([&] {
    queue_.finish();
    opencl_c::quarry_heap_state state;
    queue_.enqueueReadBuffer(buffer_, CL_TRUE, 0, sizeof state, &state);
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
  checked([&] {
    queue_.finish();
    constexpr std::size_t first = offsetof(opencl_c::quarry_heap_state, fault_kind);
    constexpr std::size_t end = offsetof(opencl_c::quarry_heap_state, allocations_made);
    std::vector<std::byte> const zeros(end - first);
    queue_.enqueueWriteBuffer(buffer_, CL_TRUE, first, zeros.size(), zeros.data());
  });
}

namespace {

/// The first words of a buffer.
std::vector<std::uint32_t> read(cl::CommandQueue const& queue, cl::Buffer const& buffer,
                                std::size_t count) {
  return checked([&] {
    queue.finish();
    std::vector<std::uint32_t> words(count);
    queue.enqueueReadBuffer(buffer, CL_TRUE, 0, words.size() * 4, words.data());
    return words;
  });
}

}  // namespace

mapped_heap::mapped_heap(heap const& heap)
    : queue_{heap.queue()}, buffer_{heap.buffer()}, memory_{checked([&] {
        queue_.finish();
        return queue_.enqueueMapBuffer(buffer_, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0,
                                       heap.size());
      })} {}

void mapped_heap::unmap() {
  if (memory_ == nullptr) return;
  void* const memory = std::exchange(memory_, nullptr);
  checked([&] {
    queue_.enqueueUnmapMemObject(buffer_, memory);
    queue_.finish();
  });
}

mapped_heap::~mapped_heap() {
  try {
    unmap();
  } catch (opencl_error const&) {  // the device is lost, and the memory with it
  }
}

heap_usage heap::usage() const {
  auto const state = plan();
  return usage_of({state, read(queue_, buffer_, state.words).data()});
}

std::string heap::audit() const {
  auto const state = plan();
  return audit_of({state, read(queue_, buffer_, state.words).data()});
}

std::vector<live_allocation> heap::live_allocations(std::size_t max_count) const {
  auto const state = plan();
  auto const words = read(queue_, buffer_, state.words);
  return live_allocations_of(
      {state, words.data()}, max_count, [&](bytes offset, bytes size, void* target) {
        checked([&] { queue_.enqueueReadBuffer(buffer_, CL_TRUE, offset, size, target); });
      });
}

}  // namespace quarry::inline QUARRY_ABI::opencl
