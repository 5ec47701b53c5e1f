// SPDX-License-Identifier: Apache-2.0
// The C API of OpenCL heaps: refused calls, the lifetime of objects, and calls of many threads.
#include "opencl/c_fixture.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

namespace quarry::test {
namespace opencl_c_handles_test {

struct heap_call {
  char const* name;
  std::function<quarry_status(quarry_opencl_heap*)> call;
};
using calls = std::vector<heap_call>;

static void* memory = nullptr;
static std::uint64_t number = 0;
static quarry_opencl_ref reference = 0;

calls calls_on_any_heap() {
  static cl_mem buffer = nullptr;
  return {{"quarry_opencl_heap_buffer",
           [](quarry_opencl_heap* heap) { return quarry_opencl_heap_buffer(heap, &buffer); }},
          {"quarry_opencl_heap_size",
           [](quarry_opencl_heap* heap) { return quarry_opencl_heap_size(heap, &number); }}};
}
calls calls_on_unmapped_heaps() {
  static quarry_opencl_faults faults;
  static quarry_opencl_usage usage;
  return {{"quarry_opencl_heap_grow",
           [](quarry_opencl_heap* heap) { return quarry_opencl_heap_grow(heap, 1_MiB); }},
          {"quarry_opencl_heap_reset", quarry_opencl_heap_reset},
          {"quarry_opencl_heap_get_faults",
           [](quarry_opencl_heap* heap) { return quarry_opencl_heap_get_faults(heap, &faults); }},
          {"quarry_opencl_heap_clear_faults", quarry_opencl_heap_clear_faults},
          {"quarry_opencl_heap_get_usage",
           [](quarry_opencl_heap* heap) { return quarry_opencl_heap_get_usage(heap, &usage); }},
          {"quarry_opencl_heap_get_live_allocations",
           [](quarry_opencl_heap* heap) {
             return quarry_opencl_heap_get_live_allocations(heap, nullptr, 0, &number);
           }},
          {"quarry_opencl_heap_audit", quarry_opencl_heap_audit},
          {"quarry_opencl_heap_map",
           [](quarry_opencl_heap* heap) { return quarry_opencl_heap_map(heap, &memory); }}};
}
calls calls_on_mapped_heaps() {
  return {
      {"quarry_opencl_heap_at",
       [](quarry_opencl_heap* heap) { return quarry_opencl_heap_at(heap, 65536, &memory); }},
      {"quarry_opencl_heap_allocate",
       [](quarry_opencl_heap* heap) { return quarry_opencl_heap_allocate(heap, 1, &reference); }},
      {"quarry_opencl_heap_deallocate",
       [](quarry_opencl_heap* heap) { return quarry_opencl_heap_deallocate(heap, reference); }},
      {"quarry_opencl_heap_usable_size",
       [](quarry_opencl_heap* heap) { return quarry_opencl_heap_usable_size(heap, 1, &number); }},
      {"quarry_opencl_heap_unmap", quarry_opencl_heap_unmap}};
}

std::vector<calls> calls_on_heaps() {
  return {calls_on_any_heap(), calls_on_unmapped_heaps(), calls_on_mapped_heaps()};
}
calls destroying() { return {{"quarry_opencl_heap_destroy", quarry_opencl_heap_destroy}}; }

/// Expects that each call refuses the heap, and that the message has the call's name and `reason`.
void expect_refused(expectations& all, calls const& refused, quarry_opencl_heap* heap,
                    quarry_status status, std::string const& reason) {
  for (auto const& [name, call] : refused) {
    auto const got = call(heap);
    bool const names_call = std::string{quarry_last_error()}.starts_with(std::string{name} + ": ");
    all.expect(names_call, std::string{"a message that starts with "} + name);
    all.expect_refused(got, status, reason);
  }
}

TEST(OpenclCHandles, NullAndHandlesOfAnotherKindAreRefusedByEveryCall) {
  expectations all;
  quarry_pool* pool = nullptr;
  ASSERT_EQ(quarry_pool_create(QUARRY_HOST, nullptr, &pool), QUARRY_OK);
  auto* const as_heap = reinterpret_cast<quarry_opencl_heap*>(pool);
  auto* const address = reinterpret_cast<quarry_opencl_heap*>(&all);
  for (auto const& some : calls_on_heaps()) {
    expect_refused(all, some, as_heap, QUARRY_BAD_ARGUMENT, "is a pool, not an OpenCL heap");
    expect_refused(all, some, address, QUARRY_BAD_ARGUMENT, "is not a handle of an OpenCL heap");
    expect_refused(all, some, nullptr, QUARRY_BAD_ARGUMENT, "the OpenCL heap is null");
  }
  expect_refused(all, destroying(), as_heap, QUARRY_BAD_ARGUMENT, "is a pool");
  expect_refused(all, destroying(), address, QUARRY_BAD_ARGUMENT, "is not a handle");
  EXPECT_EQ(quarry_opencl_heap_destroy(nullptr), QUARRY_OK);
  EXPECT_EQ(quarry_pool_destroy(pool), QUARRY_OK);
  EXPECT_EQ(all.problem(), "");
}

TEST(OpenclCHandles, EveryCallRefusesADestroyedHeapEvenIfItWasMapped) {
  on_each_device([](cl::Device const& device) -> std::string {
    c_fixture f{device};
    for (bool const maps : {false, true}) {
      quarry_opencl_heap* heap = nullptr;
      QUARRY_EXPECT_OK(
          f.all, quarry_opencl_heap_create(f.context(), f.device(), f.queue(), nullptr, &heap));
      if (maps) QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_map(heap, &memory));
      QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_destroy(heap));
      for (auto const& some : calls_on_heaps())
        expect_refused(f.all, some, heap, QUARRY_DESTROYED, "was destroyed");
      expect_refused(f.all, destroying(), heap, QUARRY_DESTROYED, "was destroyed");
    }
    QUARRY_EXPECT(f.all, f.usage().allocations_in_use == 0);
    return f.all.problem();
  });
}

TEST(OpenclCHandles, CallsThatRequireAnotherMappingStateAreRefusedAndChangeNothing) {
  on_each_device([](cl::Device const& device) -> std::string {
    c_fixture f{device, 1_MiB, 2_MiB};
    expect_refused(f.all, calls_on_mapped_heaps(), f.heap, QUARRY_BAD_ARGUMENT, "is not mapped");
    void* base = nullptr;
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_map(f.heap, &base));
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_allocate(f.heap, 16, &reference));
    memory = &memory;
    expect_refused(f.all, calls_on_unmapped_heaps(), f.heap, QUARRY_BAD_ARGUMENT, "is mapped");
    QUARRY_EXPECT(f.all, memory == nullptr);
    for (auto const& [name, call] : calls_on_any_heap()) f.all.expect_ok(call(f.heap), name);
    QUARRY_EXPECT(f.all, number == 1_MiB);
    std::memset(quarry_opencl_at(base, reference), 1, 16);  // still mapped
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_unmap(f.heap));
    expect_refused(f.all, calls_on_mapped_heaps(), f.heap, QUARRY_BAD_ARGUMENT, "is not mapped");
    QUARRY_EXPECT(f.all, f.usage().allocations_in_use == 1);
    for (auto const& [name, call] : calls_on_unmapped_heaps())
      f.all.expect_ok(call(f.heap), name);  // the last call maps the heap
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_unmap(f.heap));
    return f.all.problem();
  });
}

TEST(OpenclCHandles, NullResultsAreRefused) {
  on_each_device([](cl::Device const& device) -> std::string {
    c_fixture f{device};
    constexpr auto text = "where the result goes is null";
    auto const refused = [&](quarry_status status) {
      f.all.expect_refused(status, QUARRY_BAD_ARGUMENT, text);
    };
    refused(quarry_opencl_tier_of(device(), nullptr));
    refused(quarry_opencl_count_stale_messages(f.context(), device(), f.queue(), nullptr));
    refused(quarry_opencl_heap_create(f.context(), device(), f.queue(), nullptr, nullptr));
    refused(quarry_opencl_heap_fill_options(nullptr, sizeof(quarry_opencl_heap_options)));
    refused(quarry_opencl_heap_buffer(f.heap, nullptr));
    refused(quarry_opencl_heap_size(f.heap, nullptr));
    refused(quarry_opencl_heap_get_faults(f.heap, nullptr));
    refused(quarry_opencl_heap_get_usage(f.heap, nullptr));
    refused(quarry_opencl_heap_get_live_allocations(f.heap, nullptr, 0, nullptr));
    refused(quarry_opencl_heap_map(f.heap, nullptr));
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_map(f.heap, &memory));
    refused(quarry_opencl_heap_at(f.heap, 65536, nullptr));
    refused(quarry_opencl_heap_allocate(f.heap, 1, nullptr));
    refused(quarry_opencl_heap_usable_size(f.heap, 65536, nullptr));
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_unmap(f.heap));
    QUARRY_EXPECT(f.all, f.usage().allocations_in_use == 0);
    return f.all.problem();
  });
}

TEST(OpenclCHandles, ObjectsAndOptionsThatDoNotFitMakeNoHeap) {
  on_each_device([](cl::Device const& device) -> std::string {
    c_fixture f{device};
    cl::Context const other{device};
    cl::CommandQueue const others{other, device};
    quarry_opencl_heap* const wrong = f.heap;
    auto const refused = [&](cl_context context, cl_device_id chosen, cl_command_queue queue,
                             quarry_opencl_heap_options const* options, std::string const& text) {
      quarry_opencl_heap* heap = wrong;
      f.all.expect_refused(quarry_opencl_heap_create(context, chosen, queue, options, &heap),
                           QUARRY_BAD_ARGUMENT, text);
      QUARRY_EXPECT(f.all, heap == nullptr);
    };
    refused(nullptr, device(), f.queue(), nullptr, "the context is null");
    refused(f.context(), nullptr, f.queue(), nullptr, "the device is null");
    refused(f.context(), device(), nullptr, nullptr, "the queue is null");
    refused(f.context(), device(), others(), nullptr, "the queue belongs to another context");
    std::uint32_t count = 0;
    f.all.expect_refused(
        quarry_opencl_count_stale_messages(f.context(), device(), others(), &count),
        QUARRY_BAD_ARGUMENT,
        "quarry_opencl_count_stale_messages: the queue belongs to another context");

    auto const usual = quarry_opencl_heap_default_options();
    QUARRY_EXPECT(f.all, usual.bytes == 64_MiB && usual.max_bytes == 0 && usual.hints == 0);
    auto const refuses_options = [&](auto const& change, std::string const& text) {
      struct {
        quarry_opencl_heap_options known = quarry_opencl_heap_default_options();
        std::uint64_t unknown = 0;
      } options;
      change(options);
      refused(f.context(), device(), f.queue(), &options.known, text);
    };
    auto const refuses_size = [&](bytes size, bytes max_size, std::string const& text) {
      refuses_options(
          [&](auto& options) {
            options.known.bytes = size;
            options.known.max_bytes = max_size;
          },
          text);
    };
    auto const largest = device.getInfo<CL_DEVICE_MAX_MEM_ALLOC_SIZE>();
    refuses_size(0, 0, "0 bytes are too few");
    refuses_size(0, 1_MiB, "0 bytes are too few");
    refuses_size(1000, 0, "1000 bytes are too few");
    refuses_size(64_GiB, 0, "68719476736 bytes are not less than 64 GiB");
    refuses_size(1_MiB, ~bytes{0}, "18446744073709551615 bytes are not less than 64 GiB");
    if (largest < 64_GiB - 1)
      refuses_size(largest + 1, 0, std::to_string(largest + 1) + " bytes exceed the device's");
    refuses_options([](auto& options) { options.known.hints = 3; }, "3 hints are not a power");
    refuses_options([](auto& options) { options.known.hints = std::uint64_t{1} << 32; },
                    "4294967296 hints");
    refuses_options([](auto& options) { options.known.debug = 2; }, "debug is 2");
    refuses_options([](auto& options) { options.known.size = 8; }, "options of 8 bytes");
    refuses_options([](auto& options) { options.known.size = 4097; }, "options of 4097 bytes");
    refuses_options(
        [](auto& options) {
          options.known.size = sizeof options;
          options.unknown = 1;
        },
        "of the options is 1; this version of Quarry knows only");
    quarry_opencl_heap_options text = usual;
    f.all.expect_refused(quarry_opencl_heap_fill_options(&text, 31), QUARRY_BAD_ARGUMENT,
                         "quarry_opencl_heap_fill_options: options of 31 bytes");
    QUARRY_EXPECT(f.all, std::memcmp(&text, &usual, sizeof usual) == 0);

    quarry_opencl_heap* heap = nullptr;  // a size of 0 means the first version, without `debug`
    quarry_opencl_heap_options const short_options{0, 1_MiB, 0, 0, 7};
    QUARRY_EXPECT_OK(
        f.all, quarry_opencl_heap_create(f.context(), device(), f.queue(), &short_options, &heap));
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_destroy(heap));
    return f.all.problem();
  });
}

cl_uint references_of(cl::Context const& context) {
  return context.getInfo<CL_CONTEXT_REFERENCE_COUNT>();
}

TEST(OpenclCHandles, AHeapRetainsItsObjectsUntilItIsDestroyed) {
  on_each_device([](cl::Device const& device) -> std::string {
    expectations all;
    cl::Context const context{device};
    auto const before = references_of(context);
    quarry_opencl_heap* heap = nullptr;
    quarry_opencl_heap_options options = quarry_opencl_heap_default_options();
    options.bytes = 1_MiB;
    cl_mem buffer = nullptr;
    {
      cl::CommandQueue const queue{context, device};
      QUARRY_EXPECT_OK(all,
                       quarry_opencl_heap_create(context(), device(), queue(), &options, &heap));
      cl_mem own = nullptr;
      QUARRY_EXPECT_OK(all, quarry_opencl_heap_buffer(heap, &own));
      cl_uint references = 0;
      clGetMemObjectInfo(own, CL_MEM_REFERENCE_COUNT, sizeof references, &references, nullptr);
      QUARRY_EXPECT(all, references == 1);
      // Refused calls and programs keep no references.
      auto const with_heap = references_of(context);
      quarry_opencl_heap* none = nullptr;
      options.bytes = 0;
      (void)quarry_opencl_heap_create(context(), device(), queue(), &options, &none);
      QUARRY_EXPECT(all, references_of(context) <= with_heap);
      buffer = own;
    }
    QUARRY_EXPECT_OK(all, quarry_opencl_heap_map(heap, &memory));  // the caller's queue is released
    QUARRY_EXPECT_OK(all, quarry_opencl_heap_allocate(heap, 100, &reference));
    clRetainMemObject(buffer);
    QUARRY_EXPECT_OK(all, quarry_opencl_heap_destroy(heap));
    std::uint32_t magic = 0;  // the buffer outlives its heap, and was unmapped
    {
      cl::CommandQueue const later{context, device};
      constexpr std::size_t offset = offsetof(opencl_c::quarry_heap_state, magic);
      QUARRY_EXPECT(all, clEnqueueReadBuffer(later(), buffer, CL_TRUE, offset, sizeof magic, &magic,
                                             0, nullptr, nullptr) == CL_SUCCESS);
    }
    QUARRY_EXPECT(all, magic == QUARRY_OPENCL_MAGIC);
    cl_uint maps = 7;
    clGetMemObjectInfo(buffer, CL_MEM_MAP_COUNT, sizeof maps, &maps, nullptr);
    QUARRY_EXPECT(all, maps == 0);
    clReleaseMemObject(buffer);
    for (int i = 0; i < 2000 && references_of(context) != before; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds{1});  // PoCL's threads release late
    all.expect(references_of(context) == before, std::to_string(references_of(context)) +
                                                     " references to the context, not " +
                                                     std::to_string(before));
    return all.problem();
  });
}

TEST(OpenclCHandles, HeapsOfTwoContextsAreIndependent) {
  on_each_device([](cl::Device const& device) -> std::string {
    c_fixture first{device}, second{device, 2_MiB};
    c_fixture third{device};
    void *base = nullptr, *other = nullptr;
    QUARRY_EXPECT_OK(first.all, quarry_opencl_heap_map(first.heap, &base));
    QUARRY_EXPECT_OK(first.all, quarry_opencl_heap_map(second.heap, &other));
    QUARRY_EXPECT(first.all, base != other);
    QUARRY_EXPECT_OK(first.all, quarry_opencl_heap_allocate(first.heap, 100, &reference));
    QUARRY_EXPECT_OK(first.all, quarry_opencl_heap_unmap(first.heap));
    QUARRY_EXPECT_OK(first.all, quarry_opencl_heap_allocate(second.heap, 100, &reference));
    QUARRY_EXPECT_OK(first.all, quarry_opencl_heap_allocate(second.heap, 100, &reference));
    QUARRY_EXPECT_OK(first.all, quarry_opencl_heap_unmap(second.heap));
    QUARRY_EXPECT(first.all, first.usage().allocations_in_use == 1 &&
                                 second.usage().allocations_in_use == 2 &&
                                 third.usage().allocations_in_use == 0);
    return first.all.problem() + second.all.problem() + third.all.problem();
  });
}

TEST(OpenclCHandles, ThreadsShareAHeapWhoseDestructionWaitsForTheirCalls) {
  on_each_device([](cl::Device const& device) -> std::string {
    expectations all;
    for (int round = 0; round < 5; ++round) {
      c_fixture f{device, 1_MiB, 2_MiB};
      std::atomic<int> wrong{0}, calls_made{0};
      std::array<std::thread, 4> threads;
      auto const run = [&](calls const& repeated) {
        for (bool is_live = true; is_live; ++calls_made) {
          for (auto const& [name, call] : repeated) {
            auto const status = call(f.heap);
            if (status == QUARRY_DESTROYED) is_live = false;
            if (status != QUARRY_OK && status != QUARRY_DESTROYED && status != QUARRY_BAD_ARGUMENT)
              ++wrong;
          }
        }
      };
      for (std::size_t i = 0; i < threads.size(); ++i) {
        threads[i] = std::thread{[&run, i] {
          // Each thread maps the heap or finds it mapped; all results lie on its own stack.
          void* base = nullptr;
          quarry_opencl_ref made = 0;
          quarry_opencl_usage usage;
          std::uint64_t const size = i % 2 == 0 ? 1_MiB : 2_MiB;
          run({{"map", [&](auto* heap) { return quarry_opencl_heap_map(heap, &base); }},
               {"allocate",
                [&](auto* heap) { return quarry_opencl_heap_allocate(heap, 100, &made); }},
               {"deallocate",
                [&](auto* heap) { return quarry_opencl_heap_deallocate(heap, made); }},
               {"unmap", quarry_opencl_heap_unmap},
               {"usage", [&](auto* heap) { return quarry_opencl_heap_get_usage(heap, &usage); }},
               {"grow", [&](auto* heap) { return quarry_opencl_heap_grow(heap, size); }},
               {"audit", quarry_opencl_heap_audit}});
        }};
      }
      while (calls_made < 40) std::this_thread::yield();
      QUARRY_EXPECT_OK(all, quarry_opencl_heap_destroy(f.heap));
      for (auto& each : threads) each.join();
      f.heap = nullptr;
      all.expect(wrong == 0, std::to_string(wrong) + " wrong statuses == 0");
    }
    return all.problem();
  });
}

}  // namespace opencl_c_handles_test
}  // namespace quarry::test
