// SPDX-License-Identifier: Apache-2.0
#include "quarry/opencl/c_api.h"

#include "host/c_sized_options.hpp"
#include "opencl/c_handles.hpp"
#include "opencl/calls.hpp"
#include "quarry/host/c_extension.hpp"
#include "quarry/opencl/heap.hpp"

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>

namespace quarry::inline QUARRY_ABI::opencl {

namespace {

using c_api::guarded;
using c_api::handle_kind;
using opencl_c::quarry_ref;

static_assert(static_cast<int>(atomics_tier::c11) == QUARRY_OPENCL_C11 &&
              static_cast<int>(atomics_tier::nvidia) == QUARRY_OPENCL_NVIDIA &&
              static_cast<int>(atomics_tier::other) == QUARRY_OPENCL_OTHER);
static_assert(QUARRY_UNIT == 16, "quarry_opencl_at, and the comments of c_api.h");

/// The size of the options in their first version.
constexpr std::size_t min_options =
    offsetof(quarry_opencl_heap_options, hints) + sizeof(quarry_opencl_heap_options::hints);
static_assert(sizeof(quarry_opencl_heap_options) ==
                  offsetof(quarry_opencl_heap_options, debug) + sizeof(std::uint64_t),
              "fields end without padding");
static_assert(static_cast<int>(allocation_state::unknown) == QUARRY_OPENCL_ALLOCATION_UNKNOWN &&
              static_cast<int>(allocation_state::intact) == QUARRY_OPENCL_ALLOCATION_INTACT &&
              static_cast<int>(allocation_state::overrun) == QUARRY_OPENCL_ALLOCATION_OVERRUN &&
              static_cast<int>(allocation_state::reserved) == QUARRY_OPENCL_ALLOCATION_RESERVED);

quarry_opencl_heap_options default_options() {
  heap_options const usual;
  return {.size = sizeof(quarry_opencl_heap_options),
          .bytes = usual.bytes,
          .max_bytes = usual.max_bytes,
          .hints = usual.hints,
          .debug = usual.debug ? 1u : 0u};
}

cl::Device device_of(char const* call, cl_device_id device) {
  check_not_null(call, "the device", device);
  return checked([&] { return cl::Device{device, true}; });
}

/// References to objects of the caller, dropped at the end.
struct objects {
  cl::Context context;
  cl::Device device;
  cl::CommandQueue queue;

  /// Throws `bad_argument` if an object is null.
  objects(char const* call, cl_context c_context, cl_device_id c_device) {
    check_not_null(call, "the context", c_context);
    device = device_of(call, c_device);
    context = checked([&] { return cl::Context{c_context, true}; });
  }
  /// The same; also throws `bad_argument` if the queue is of another context or device.
  objects(char const* call, cl_context c_context, cl_device_id c_device, cl_command_queue c_queue)
      : objects{call, c_context, c_device} {
    check_not_null(call, "the queue", c_queue);
    checked([&] {
      queue = cl::CommandQueue{c_queue, true};
      if (queue.getInfo<CL_QUEUE_CONTEXT>()() != c_context)
        throw bad_argument{std::string{call} + ": the queue belongs to another context"};
      if (queue.getInfo<CL_QUEUE_DEVICE>()() != c_device)
        throw bad_argument{std::string{call} + ": the queue belongs to another device"};
    });
  }
};

/// Copies a text and its terminating 0 to a buffer of the caller.
quarry_status return_text(char const* call, std::string const& text, char* buffer,
                          std::uint64_t capacity, std::uint64_t* length) {
  bool const wants_text = buffer != nullptr || capacity != 0;
  if (!wants_text) check_result(call, length);
  if (length != nullptr) *length = text.size();
  if (!wants_text) return QUARRY_OK;
  check_not_null(call, "the buffer", buffer);
  if (capacity <= text.size())
    throw bad_argument{std::string{call} + ": a buffer of " + std::to_string(capacity) +
                       " bytes is too small; the text needs " + std::to_string(text.size() + 1)};
  std::memcpy(buffer, text.c_str(), text.size() + 1);
  return QUARRY_OK;
}

quarry_status not_in_use(char const* call, quarry_ref reference) {
  return c_api::fail(
      QUARRY_NOT_IN_USE,
      (std::string{call} + ": no allocation begins at reference " + std::to_string(reference))
          .c_str());
}

}  // namespace
}  // namespace quarry::inline QUARRY_ABI::opencl

using namespace quarry::opencl;

quarry_status quarry_opencl_tier_of(cl_device_id device, uint32_t* tier) {
  constexpr auto call = "quarry_opencl_tier_of";
  if (tier != nullptr) *tier = 0;
  return guarded([&] {
    check_result(call, tier);
    *tier = static_cast<uint32_t>(tier_of(device_of(call, device)));
    return QUARRY_OK;
  });
}

char const* quarry_opencl_sources(void) { return sources(); }

quarry_status quarry_opencl_build_options(cl_device_id device, char* buffer, uint64_t capacity,
                                          uint64_t* length) {
  constexpr auto call = "quarry_opencl_build_options";
  if (length != nullptr) *length = 0;
  return guarded([&] {
    return return_text(call, build_options(device_of(call, device)), buffer, capacity, length);
  });
}

quarry_status quarry_opencl_cache_folder(char* buffer, uint64_t capacity, uint64_t* length) {
  if (length != nullptr) *length = 0;
  return guarded([&] {
    return return_text("quarry_opencl_cache_folder", cache_folder().string(), buffer, capacity,
                       length);
  });
}

quarry_status quarry_opencl_build(cl_context context, cl_device_id device, char const* source,
                                  char const* more_options, cl_program* program) {
  constexpr auto call = "quarry_opencl_build";
  if (program != nullptr) *program = nullptr;
  return guarded([&] {
    check_result(call, program);
    objects const given{call, context, device};
    check_not_null(call, "the source", source);
    auto built = build(given.context, given.device, source, more_options ? more_options : "");
    *program = std::exchange(built(), nullptr);
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_count_stale_messages(cl_context context, cl_device_id device,
                                                 cl_command_queue queue, uint32_t* count) {
  constexpr auto call = "quarry_opencl_count_stale_messages";
  if (count != nullptr) *count = 0;
  return guarded([&] {
    check_result(call, count);
    objects const given{call, context, device, queue};
    *count = count_stale_messages(given.context, given.device, given.queue);
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_heap_fill_options(quarry_opencl_heap_options* options, uint64_t size) {
  return guarded([&] {
    quarry::c_api::fill_sized("quarry_opencl_heap_fill_options", options, size, min_options,
                              default_options());
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_heap_create(cl_context context, cl_device_id device,
                                        cl_command_queue queue,
                                        quarry_opencl_heap_options const* options,
                                        quarry_opencl_heap** heap) {
  constexpr auto call = "quarry_opencl_heap_create";
  if (heap != nullptr) *heap = nullptr;
  return guarded([&] {
    check_result(call, heap);
    objects const given{call, context, device, queue};
    auto const wanted = quarry::c_api::read_sized(call, options, min_options, default_options());
    if (wanted.hints > std::numeric_limits<uint32_t>::max())
      throw quarry::bad_argument{std::string{call} + ": " + std::to_string(wanted.hints) +
                                 " hints are more than 65536"};
    if (wanted.debug > 1)
      throw quarry::bad_argument{std::string{call} + ": debug is " + std::to_string(wanted.debug) +
                                 "; it must be 0 or 1"};
    auto made = std::make_unique<c_heap>(
        quarry::opencl::heap{given.context, given.device, given.queue,
                             heap_options{.bytes = wanted.bytes,
                                          .max_bytes = wanted.max_bytes,
                                          .hints = static_cast<uint32_t>(wanted.hints),
                                          .debug = wanted.debug == 1}});
    *heap = static_cast<quarry_opencl_heap*>(
        quarry::c_api::add_object(handle_kind::opencl_heap, made.get()));
    (void)made.release();
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_heap_destroy(quarry_opencl_heap* heap) {
  if (heap == nullptr) return QUARRY_OK;
  return guarded([&] {
    std::unique_ptr<c_heap> const removed{static_cast<c_heap*>(quarry::c_api::remove_object(
        heap, handle_kind::opencl_heap, "quarry_opencl_heap_destroy"))};
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_heap_buffer(quarry_opencl_heap* heap, cl_mem* buffer) {
  if (buffer != nullptr) *buffer = nullptr;
  return with(heap, "quarry_opencl_heap_buffer", accepts::any, buffer, [&](c_heap& target) {
    *buffer = target.heap.buffer()();
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_heap_size(quarry_opencl_heap* heap, uint64_t* size) {
  if (size != nullptr) *size = 0;
  return with(heap, "quarry_opencl_heap_size", accepts::any, size, [&](c_heap& target) {
    *size = target.heap.size();
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_heap_grow(quarry_opencl_heap* heap, uint64_t size) {
  return with(heap, "quarry_opencl_heap_grow", accepts::unmapped,
              [&](c_heap& target) { target.heap.grow(size); });
}

quarry_status quarry_opencl_heap_reset(quarry_opencl_heap* heap) {
  return with(heap, "quarry_opencl_heap_reset", accepts::unmapped,
              [](c_heap& target) { target.heap.reset(); });
}

quarry_status quarry_opencl_heap_get_faults(quarry_opencl_heap* heap,
                                            quarry_opencl_faults* faults) {
  if (faults != nullptr) *faults = {};
  constexpr auto call = "quarry_opencl_heap_get_faults";
  return with(heap, call, accepts::unmapped, faults, [&](c_heap& target) {
    auto const all = target.heap.faults();
    faults->out_of_memory = all.out_of_memory;
    faults->double_free = all.double_free;
    faults->interior_reference = all.interior_reference;
    faults->foreign_reference = all.foreign_reference;
    faults->overrun = all.overrun;
    std::snprintf(faults->first, sizeof faults->first, "%s", all.first.c_str());
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_heap_clear_faults(quarry_opencl_heap* heap) {
  return with(heap, "quarry_opencl_heap_clear_faults", accepts::unmapped,
              [](c_heap& target) { target.heap.clear_faults(); });
}

quarry_status quarry_opencl_heap_get_usage(quarry_opencl_heap* heap, quarry_opencl_usage* usage) {
  if (usage != nullptr) *usage = {};
  constexpr auto call = "quarry_opencl_heap_get_usage";
  return with(heap, call, accepts::unmapped, usage, [&](c_heap& target) {
    auto const all = target.heap.usage();
    *usage = {all.usable, all.reserved, all.allocated, all.allocations_in_use};
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_heap_get_live_allocations(quarry_opencl_heap* heap,
                                                      quarry_opencl_live_allocation* live,
                                                      uint64_t capacity, uint64_t* count) {
  if (count != nullptr) *count = 0;
  constexpr auto call = "quarry_opencl_heap_get_live_allocations";
  return with(heap, call, accepts::unmapped, count, [&](c_heap& target) {
    if (capacity != 0) check_not_null(call, "the array", live);
    for (auto const& allocation : target.heap.live_allocations(capacity))
      live[(*count)++] = {allocation.reference, static_cast<uint32_t>(allocation.state),
                          allocation.slot_size, allocation.requested_size,
                          allocation.number,    allocation.work_item};
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_heap_audit(quarry_opencl_heap* heap) {
  constexpr auto call = "quarry_opencl_heap_audit";
  return with(heap, call, accepts::unmapped, "", [&](c_heap& target) {
    auto const problem = target.heap.audit();
    if (problem.empty()) return QUARRY_OK;
    return quarry::c_api::fail(QUARRY_INTERNAL, (std::string{call} + ": " + problem).c_str());
  });
}

quarry_status quarry_opencl_heap_map(quarry_opencl_heap* heap, void** base) {
  if (base != nullptr) *base = nullptr;
  constexpr auto call = "quarry_opencl_heap_map";
  return with(heap, call, accepts::unmapped, base, [&](c_heap& target) {
    target.mapping = std::make_unique<mapped_heap>(target.heap);
    *base = target.mapping->get();
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_heap_unmap(quarry_opencl_heap* heap) {
  return with(heap, "quarry_opencl_heap_unmap", accepts::mapped, [](c_heap& target) {
    auto const ended = std::move(target.mapping);  // also if OpenCL fails
    ended->unmap();
  });
}

quarry_status quarry_opencl_heap_at(quarry_opencl_heap* heap, quarry_opencl_ref reference,
                                    void** memory) {
  if (memory != nullptr) *memory = nullptr;
  constexpr auto call = "quarry_opencl_heap_at";
  return with(heap, call, accepts::mapped, memory, [&](c_heap& target) {
    auto* const mapped = target.mapping->get();
    auto const first = mapped->first_unit;
    auto const end = first + (std::uint64_t{mapped->usable_pages} << mapped->page_shift);
    if (reference < first || reference >= end)
      throw quarry::bad_argument{std::string{call} + ": reference " + std::to_string(reference) +
                                 " is outside of the heap's pages, which are references " +
                                 std::to_string(first) + " to " + std::to_string(end - 1)};
    *memory = quarry::opencl_c::quarry_at(mapped, reference);
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_heap_allocate(quarry_opencl_heap* heap, uint64_t size,
                                          quarry_opencl_ref* reference) {
  if (reference != nullptr) *reference = 0;
  constexpr auto call = "quarry_opencl_heap_allocate";
  return with(heap, call, accepts::mapped, reference, [&](c_heap& target) {
    *reference = quarry::opencl_c::quarry_malloc(target.mapping->get(), size);
    if (*reference == 0)
      throw quarry::out_of_memory{call, size,
                                  "the heap has " + std::to_string(target.heap.size()) + " bytes"};
    return QUARRY_OK;
  });
}

quarry_status quarry_opencl_heap_deallocate(quarry_opencl_heap* heap, quarry_opencl_ref reference) {
  constexpr auto call = "quarry_opencl_heap_deallocate";
  return with(heap, call, accepts::mapped, "", [&](c_heap& target) {
    if (quarry::opencl_c::quarry_free(target.mapping->get(), reference)) return QUARRY_OK;
    return not_in_use(call, reference);
  });
}

quarry_status quarry_opencl_heap_usable_size(quarry_opencl_heap* heap, quarry_opencl_ref reference,
                                             uint64_t* size) {
  if (size != nullptr) *size = 0;
  constexpr auto call = "quarry_opencl_heap_usable_size";
  return with(heap, call, accepts::mapped, size, [&](c_heap& target) {
    auto* const mapped = target.mapping->get();
    if (!quarry::opencl_c::quarry_is_allocated(mapped, reference))
      return not_in_use(call, reference);
    *size = quarry::opencl_c::quarry_usable_size(mapped, reference);
    return QUARRY_OK;
  });
}
