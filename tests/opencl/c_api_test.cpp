// SPDX-License-Identifier: Apache-2.0
// The C API of OpenCL heaps, on every OpenCL device of the machine.
#include "quarry/opencl/c_api.h"

#include "opencl/c_fixture.hpp"

#include <cstring>
#include <vector>

extern "C" int quarry_test_opencl_header_in_c(void);  // c_api_in_c.c

namespace quarry::test {
namespace opencl_c_api_test {

constexpr char const* kernels = R"opencl(
typedef struct node { quarry_ref next; uint value; } node;
__kernel void build_list(quarry_heap heap, quarry_ref list) {
  quarry_ref const made = quarry_malloc(heap, sizeof(node));
  if (made == 0u) return;
  __global node* const at = (__global node*)quarry_at(heap, made);
  at->value = (uint)get_global_id(0);
  at->next = atomic_xchg((volatile __global uint*)quarry_at(heap, list), made);
}
__kernel void free_twice(quarry_heap heap) {
  quarry_ref const made = quarry_malloc(heap, 100u);
  quarry_free(heap, made);
  quarry_free(heap, made);
  quarry_free(heap, 1u);
  quarry_malloc(heap, 1u << 30);
}
__kernel void overwrite(quarry_heap heap) {
  for (uint i = 0; i < 64u; ++i) quarry_words(heap)[heap->slot_bits + i] = 0u;
}
)opencl";

struct node {
  quarry_opencl_ref next;
  std::uint32_t value;
};

TEST(OpenclCApi, TheHeaderIsC) { EXPECT_EQ(quarry_test_opencl_header_in_c(), 0); }

TEST(OpenclCApi, TheHostReadsAndFreesAListThatAKernelBuilt) {
  on_each_device([](cl::Device const& device) -> std::string {
    c_fixture f{device};
    constexpr cl_uint count = 1000;
    void* base = nullptr;
    quarry_opencl_ref list = 0;
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_map(f.heap, &base));
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_allocate(f.heap, sizeof list, &list));
    std::memset(quarry_opencl_at(base, list), 0, sizeof list);
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_unmap(f.heap));
    f.run(kernels, "build_list", count, cl_uint{list});
    QUARRY_EXPECT(f.all, f.usage().allocations_in_use == count + 1);
    QUARRY_EXPECT(f.all, f.usage().allocated >= count * sizeof(node));
    QUARRY_EXPECT(f.all, f.faults().first[0] == 0);

    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_map(f.heap, &base));
    std::vector<bool> seen(count);
    cl_uint found = 0;
    quarry_opencl_ref each = *static_cast<quarry_opencl_ref*>(quarry_opencl_at(base, list));
    while (each != 0 && f.all.problem().empty()) {
      void* memory = nullptr;
      QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_at(f.heap, each, &memory));
      QUARRY_EXPECT(f.all, memory == quarry_opencl_at(base, each));
      auto const at = *static_cast<node*>(memory);
      QUARRY_EXPECT(f.all, at.value < count && !seen[at.value]);
      seen[at.value] = true;
      ++found;
      std::uint64_t size = 0;
      QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_usable_size(f.heap, each, &size));
      QUARRY_EXPECT(f.all, size >= sizeof(node));
      QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_deallocate(f.heap, each));
      each = at.next;
    }
    QUARRY_EXPECT(f.all, found == count);
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_unmap(f.heap));
    QUARRY_EXPECT(f.all, f.usage().allocations_in_use == 1);
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_audit(f.heap));
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_reset(f.heap));
    QUARRY_EXPECT(f.all, f.usage().allocations_in_use == 0);
    return f.all.problem();
  });
}

TEST(OpenclCApi, FaultsOfKernelsAreCountedAndTheFirstOneIsDescribed) {
  on_each_device([](cl::Device const& device) -> std::string {
    c_fixture f{device};
    f.run(kernels, "free_twice", 1);
    auto faults = f.faults();
    QUARRY_EXPECT(f.all, faults.double_free == 1);
    QUARRY_EXPECT(f.all, faults.foreign_reference == 1);
    QUARRY_EXPECT(f.all, faults.out_of_memory == 1);
    QUARRY_EXPECT(f.all, faults.interior_reference == 0);
    f.all.expect(std::strstr(faults.first, "double free by group 0 work-item 0") != nullptr,
                 faults.first);
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_clear_faults(f.heap));
    faults = f.faults();
    QUARRY_EXPECT(f.all, faults.double_free == 0 && faults.first[0] == 0);
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_audit(f.heap));
    f.run(kernels, "overwrite", 1);
    f.all.expect_refused(quarry_opencl_heap_audit(f.heap), QUARRY_INTERNAL,
                         "quarry_opencl_heap_audit: span 0");
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_reset(f.heap));
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_audit(f.heap));
    return f.all.problem();
  });
}

TEST(OpenclCApi, ADebugHeapListsOverrunsAndTheFreeReportsThem) {
  on_each_device([](cl::Device const& device) -> std::string {
    c_fixture f{device, 1_MiB, 0, true};
    quarry_opencl_ref right = 0, wrong = 0;
    void* base = nullptr;
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_map(f.heap, &base));
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_allocate(f.heap, 24, &right));
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_allocate(f.heap, 5000, &wrong));
    static_cast<char*>(quarry_opencl_at(base, wrong))[5000] = 1;
    std::uint64_t count = 0;
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_usable_size(f.heap, right, &count));
    QUARRY_EXPECT(f.all, count == 24);
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_unmap(f.heap));
    quarry_opencl_live_allocation live[3] = {};
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_get_live_allocations(f.heap, live, 3, &count));
    QUARRY_EXPECT(f.all, count == 2 && live[2].reference == 0);
    if (live[0].reference == wrong) std::swap(live[0], live[1]);
    QUARRY_EXPECT(f.all, live[0].reference == right && live[1].reference == wrong);
    QUARRY_EXPECT(f.all, live[0].state == QUARRY_OPENCL_ALLOCATION_INTACT);
    QUARRY_EXPECT(f.all, live[0].requested_size == 24 && live[0].slot_size == 48);
    QUARRY_EXPECT(f.all, live[0].number == 1 && live[1].number == 2);
    QUARRY_EXPECT(f.all, live[1].state == QUARRY_OPENCL_ALLOCATION_OVERRUN);
    QUARRY_EXPECT(f.all, live[1].requested_size == 5000 && live[1].slot_size == 5120);
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_get_live_allocations(f.heap, live, 1, &count));
    QUARRY_EXPECT(f.all, count == 1);
    f.all.expect_refused(quarry_opencl_heap_get_live_allocations(f.heap, nullptr, 1, &count),
                         QUARRY_BAD_ARGUMENT, "the array is null");
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_map(f.heap, &base));
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_deallocate(f.heap, right));
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_deallocate(f.heap, wrong));
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_unmap(f.heap));
    auto const faults = f.faults();
    QUARRY_EXPECT(f.all, faults.overrun == 1);
    f.all.expect(std::strstr(faults.first, "overrun found when group 0 work-item 0 freed") &&
                     std::strstr(faults.first, "5000 bytes requested"),
                 faults.first);
    QUARRY_EXPECT(f.all, f.usage().allocations_in_use == 0);
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_audit(f.heap));
    return f.all.problem();
  });
}

TEST(OpenclCApi, HostAllocationsAndFreesAreChecked) {
  on_each_device([](cl::Device const& device) -> std::string {
    c_fixture f{device};
    void* base = nullptr;
    quarry_opencl_ref first = 0, second = 7;
    std::uint64_t size = 7;
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_map(f.heap, &base));
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_allocate(f.heap, 0, &first));
    QUARRY_EXPECT(f.all, reinterpret_cast<std::uintptr_t>(quarry_opencl_at(base, first)) % 16 == 0);
    f.all.expect_refused(quarry_opencl_heap_allocate(f.heap, 2_MiB, &second), QUARRY_OUT_OF_MEMORY,
                         "quarry_opencl_heap_allocate: no memory for 2097152 bytes");
    QUARRY_EXPECT(f.all, second == 0);
    f.all.expect_refused(quarry_opencl_heap_allocate(f.heap, ~std::uint64_t{0}, &second),
                         QUARRY_OUT_OF_MEMORY, "18446744073709551615 bytes");
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_allocate(f.heap, 20'000, &second));
    f.all.expect_refused(quarry_opencl_heap_deallocate(f.heap, second + 1), QUARRY_NOT_IN_USE,
                         "quarry_opencl_heap_deallocate: no allocation begins at reference " +
                             std::to_string(second + 1));
    f.all.expect_refused(quarry_opencl_heap_usable_size(f.heap, second + 1, &size),
                         QUARRY_NOT_IN_USE, "quarry_opencl_heap_usable_size");
    QUARRY_EXPECT(f.all, size == 0);
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_deallocate(f.heap, 0));
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_deallocate(f.heap, second));
    f.all.expect_refused(quarry_opencl_heap_deallocate(f.heap, second), QUARRY_NOT_IN_USE,
                         std::to_string(second));
    for (quarry_opencl_ref const wrong : {0u, 1u, 65536u, ~0u}) {
      void* memory = &memory;
      f.all.expect_refused(
          quarry_opencl_heap_at(f.heap, wrong, &memory), QUARRY_BAD_ARGUMENT,
          "quarry_opencl_heap_at: reference " + std::to_string(wrong) + " is outside");
      QUARRY_EXPECT(f.all, memory == nullptr);
      f.all.expect_refused(quarry_opencl_heap_usable_size(f.heap, wrong, &size), QUARRY_NOT_IN_USE,
                           std::to_string(wrong));
    }
    // The message of a refused reference names the last reference of the pages.
    void* memory = nullptr;
    (void)quarry_opencl_heap_at(f.heap, 0, &memory);
    std::string const message = quarry_last_error();
    auto const last =
        static_cast<quarry_opencl_ref>(std::stoul(message.substr(message.rfind(' ') + 1)));
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_at(f.heap, last, &memory));
    QUARRY_EXPECT(f.all, quarry_opencl_heap_at(f.heap, last + 1, &memory) == QUARRY_BAD_ARGUMENT);
    QUARRY_EXPECT(f.all, quarry_opencl_at(base, 0) == nullptr);
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_unmap(f.heap));
    QUARRY_EXPECT(f.all, f.usage().allocations_in_use == 1);
    QUARRY_EXPECT(f.all, f.faults().out_of_memory == 2 && f.faults().double_free == 1 &&
                             f.faults().interior_reference == 1);
    return f.all.problem();
  });
}

TEST(OpenclCApi, AHeapGrowsUpToItsMaximumAndKeepsItsReferences) {
  on_each_device([](cl::Device const& device) -> std::string {
    c_fixture f{device, 1_MiB, 4_MiB};
    void* base = nullptr;
    cl_mem before = nullptr, after = nullptr;
    quarry_opencl_ref reference = 0;
    std::uint64_t size = 0;
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_map(f.heap, &base));
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_allocate(f.heap, 16, &reference));
    std::memcpy(quarry_opencl_at(base, reference), "stays", 6);
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_unmap(f.heap));
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_buffer(f.heap, &before));
    auto const usable = f.usage().usable;
    for (bytes const wrong : {bytes{0}, 1_MiB - 1, 4_MiB + 1, ~bytes{0}})
      f.all.expect_refused(
          quarry_opencl_heap_grow(f.heap, wrong), QUARRY_BAD_ARGUMENT,
          "cannot grow from 1048576 to " + std::to_string(wrong) + " bytes; max_bytes is 4194304");
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_size(f.heap, &size));
    QUARRY_EXPECT(f.all, size == 1_MiB && f.usage().usable == usable);
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_buffer(f.heap, &after));
    QUARRY_EXPECT(f.all, before == after);
    clRetainMemObject(before);  // so that the new buffer has another handle
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_grow(f.heap, 4_MiB));
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_size(f.heap, &size));
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_buffer(f.heap, &after));
    clReleaseMemObject(before);
    QUARRY_EXPECT(f.all, size == 4_MiB && before != after && f.usage().usable > 3_MiB);
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_map(f.heap, &base));
    QUARRY_EXPECT(f.all,
                  std::strcmp(static_cast<char*>(quarry_opencl_at(base, reference)), "stays") == 0);
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_unmap(f.heap));
    QUARRY_EXPECT_OK(f.all, quarry_opencl_heap_audit(f.heap));
    return f.all.problem();
  });
}

TEST(OpenclCApi, TextsAreWrittenWholeOrNotAtAll) {
  on_each_device([](cl::Device const& device) -> std::string {
    expectations all;
    std::uint64_t length = 0;
    char text[256] = "as before";
    QUARRY_EXPECT_OK(all, quarry_opencl_build_options(device(), nullptr, 0, &length));
    auto const wanted = opencl::build_options(device);
    QUARRY_EXPECT(all, length == wanted.size());
    for (std::uint64_t const capacity : {std::uint64_t{0}, std::uint64_t{1}, length}) {
      std::uint64_t other = 0;
      all.expect_refused(quarry_opencl_build_options(device(), text, capacity, &other),
                         QUARRY_BAD_ARGUMENT,
                         "quarry_opencl_build_options: a buffer of " + std::to_string(capacity) +
                             " bytes is too small; the text needs " + std::to_string(length + 1));
      QUARRY_EXPECT(all, other == length && std::strcmp(text, "as before") == 0);
    }
    all.expect_refused(quarry_opencl_build_options(device(), nullptr, 9, &length),
                       QUARRY_BAD_ARGUMENT, "the buffer is null");
    all.expect_refused(quarry_opencl_build_options(device(), nullptr, 0, nullptr),
                       QUARRY_BAD_ARGUMENT, "where the result goes is null");
    all.expect_refused(quarry_opencl_build_options(nullptr, text, sizeof text, nullptr),
                       QUARRY_BAD_ARGUMENT, "the device is null");
    QUARRY_EXPECT_OK(all, quarry_opencl_build_options(device(), text, length + 1, nullptr));
    QUARRY_EXPECT(all, text == wanted);
    setenv("QUARRY_OPENCL_CACHE", "a folder", 1);
    QUARRY_EXPECT_OK(all, quarry_opencl_cache_folder(text, sizeof text, &length));
    QUARRY_EXPECT(all, length == 8 && std::strcmp(text, "a folder") == 0);
    setenv("QUARRY_OPENCL_CACHE", "", 1);
    QUARRY_EXPECT_OK(all, quarry_opencl_cache_folder(text, 1, &length));
    QUARRY_EXPECT(all, length == 0 && text[0] == 0);
    std::uint32_t tier = 0;
    QUARRY_EXPECT_OK(all, quarry_opencl_tier_of(device(), &tier));
    QUARRY_EXPECT(all, tier == static_cast<std::uint32_t>(opencl::tier_of(device)));
    QUARRY_EXPECT(all, std::strstr(quarry_opencl_sources(), "quarry_malloc") != nullptr);
    return all.problem();
  });
}

TEST(OpenclCApi, AProgramBelongsToTheCallerAndABuildLogIsTheLastError) {
  on_each_device([](cl::Device const& device) -> std::string {
    expectations all;
    cl::Context const context{device};
    cl_program program = nullptr;
    QUARRY_EXPECT_OK(all,
                     quarry_opencl_build(context(), device(),
                                         "__kernel void use(quarry_heap heap) { (void)VALUE; }",
                                         "-DVALUE=3", &program));
    cl_uint references = 0;
    clGetProgramInfo(program, CL_PROGRAM_REFERENCE_COUNT, sizeof references, &references, nullptr);
    QUARRY_EXPECT(all, references == 1);
    QUARRY_EXPECT(all, clReleaseProgram(program) == CL_SUCCESS);
    all.expect_refused(
        quarry_opencl_build(context(), device(), "__kernel void f() { undeclared_name = 1; }",
                            nullptr, &program),
        QUARRY_RESOURCE_FAILED, "undeclared_name");
    QUARRY_EXPECT(all, program == nullptr);
    std::string many = "__kernel void f() {\n";
    for (int i = 0; i < 2000; ++i) many += "undeclared_name_" + std::to_string(i) + " = 1;\n";
    all.expect_refused(
        quarry_opencl_build(context(), device(), (many + "}").c_str(), nullptr, &program),
        QUARRY_RESOURCE_FAILED, "OpenCL: the program does not build:");
    all.expect_refused(quarry_opencl_build(context(), device(), "", "-no-such-option", &program),
                       QUARRY_RESOURCE_FAILED, "OpenCL: ");
    auto const build = [&](cl_context its_context, cl_device_id its_device, char const* source,
                           cl_program* result) {
      return quarry_opencl_build(its_context, its_device, source, nullptr, result);
    };
    all.expect_refused(build(nullptr, device(), "", &program), QUARRY_BAD_ARGUMENT,
                       "quarry_opencl_build: the context is null");
    all.expect_refused(build(context(), nullptr, "", &program), QUARRY_BAD_ARGUMENT,
                       "the device is null");
    all.expect_refused(build(context(), device(), nullptr, &program), QUARRY_BAD_ARGUMENT,
                       "the source is null");
    all.expect_refused(build(context(), device(), "", nullptr), QUARRY_BAD_ARGUMENT,
                       "where the result goes is null");
    return all.problem();
  });
}

TEST(OpenclCApi, CountsStaleMessagesAndFindsNone) {
  on_each_device([](cl::Device const& device) -> std::string {
    expectations all;
    cl::Context const context{device};
    cl::CommandQueue const queue{context, device};
    std::uint32_t count = 7;
    QUARRY_EXPECT_OK(all, quarry_opencl_count_stale_messages(context(), device(), queue(), &count));
    QUARRY_EXPECT(all, count == 0);
    return all.problem();
  });
}

}  // namespace opencl_c_api_test
}  // namespace quarry::test
