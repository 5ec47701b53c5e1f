// SPDX-License-Identifier: Apache-2.0
// The OpenCL heap on every OpenCL device of the machine.
#include "opencl/devices.hpp"

#include <algorithm>

namespace quarry::test {
namespace opencl_kernels_test {

constexpr char const* kernels = R"opencl(
static inline uint next_random(uint* state) {
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}
static inline uint size_of(uint kind, uint seed) {
  if (kind == 0u) return 8u;
  if (kind == 1u) return 8u + seed % 2u * 8u;
  if (kind == 2u) return 4u << seed % 5u;
  return seed % 16u == 0u ? seed % 9000u : 4u << seed % 9u;
}

// Each work-item allocates, tags every byte, checks and frees, `rounds` times. It has up to 4
// allocations at a time.
__kernel void churn(quarry_heap heap, uint kind, uint rounds, __global uint* wrong) {
  uint const item = (uint)get_global_id(0);
  uint random = item * 2654435761u + kind;
  quarry_ref held[4] = {0u, 0u, 0u, 0u};
  uint sizes[4] = {0u, 0u, 0u, 0u};
  for (uint round = 0; round < rounds + 4u; ++round) {
    uint const i = round & 3u;
    if (held[i] != 0u) {
      __global uchar const* const bytes = (__global uchar const*)quarry_at(heap, held[i]);
      uint bad = 0u;
      // handover: owner
      for (uint b = 0; b < sizes[i]; ++b) bad += bytes[b] != (uchar)(item + i) ? 1u : 0u;
      if (!quarry_free(heap, held[i])) ++bad;
      if (bad != 0u) atomic_add((volatile __global uint*)wrong, bad);
      held[i] = 0u;
    }
    if (round >= rounds) continue;
    sizes[i] = size_of(kind, next_random(&random));
    held[i] = quarry_malloc(heap, sizes[i]);
    if (held[i] == 0u) {
      atomic_add((volatile __global uint*)(wrong + 1), 1u);
      continue;
    }
    __global uchar* const bytes = (__global uchar*)quarry_at(heap, held[i]);
    for (uint b = 0; b < sizes[i]; ++b) bytes[b] = (uchar)(item + i);  // handover: owner
  }
}

// Allocations that later kernels and the host check.
__kernel void allocate(quarry_heap heap, ulong bytes, __global quarry_ref* references, uint count) {
  for (uint i = get_global_id(0); i < count; i += get_global_size(0))
    references[i] = quarry_malloc(heap, bytes);
}
__kernel void release(quarry_heap heap, __global quarry_ref* references, uint count,
                      uint keep_each) {
  for (uint i = get_global_id(0); i < count; i += get_global_size(0)) {
    if (keep_each != 0u && i % keep_each == 0u) continue;
    quarry_free(heap, references[i]);
    references[i] = 0u;
  }
}

// Writes the first and the last word of each allocation of `bytes` bytes, and checks both.
__kernel void tag(quarry_heap heap, ulong bytes, __global quarry_ref const* references,
                  uint count) {
  for (uint i = get_global_id(0); i < count; i += get_global_size(0)) {
    __global uint* const words = (__global uint*)quarry_at(heap, references[i]);
    if (references[i] != 0u) words[0] = words[bytes / 4u - 1u] = i;
  }
}
__kernel void check_tags(quarry_heap heap, ulong bytes, __global quarry_ref const* references,
                         uint count, __global uint* wrong) {
  for (uint i = get_global_id(0); i < count; i += get_global_size(0)) {
    __global uint const* const words = (__global uint const*)quarry_at(heap, references[i]);
    if (references[i] != 0u && (words[0] != i || words[bytes / 4u - 1u] != i))
      atomic_add((volatile __global uint*)wrong, 1u);
  }
}
)opencl";

std::string usage_text(opencl::heap const& heap) {
  auto const usage = heap.usage();
  return std::to_string(usage.allocations_in_use) + " allocations, " +
         std::to_string(usage.reserved) + " bytes reserved; " + heap.faults().first;
}

/// Returns a description if two references are equal. Ignores null references.
std::string shared_references(std::vector<cl_uint> all, std::vector<cl_uint> const& more) {
  all.insert(all.end(), more.begin(), more.end());
  std::erase(all, 0u);
  std::sort(all.begin(), all.end());
  auto const shared = std::adjacent_find(all.begin(), all.end());
  return shared == all.end() ? ""
                             : "reference " + std::to_string(*shared) + " was handed out twice";
}

TEST(OpenclKernels, WorkItemsOfAnyGroupSizeNeverShareMemory) {
  on_each_device([](cl::Device const& device) -> std::string {
    fixture f{device, scaled(64_MiB), kernels};
    cl_uint const rounds = scale() == 1 ? 20 : 6;
    for (std::size_t const local : group_sizes(device)) {
      for (cl_uint kind = 0; kind < 4; ++kind) {
        cl_uint wrong[2] = {0, 0};
        cl::Buffer const counts{f.context, CL_MEM_COPY_HOST_PTR, sizeof wrong, wrong};
        f.run("churn", groups_for(4608, local), local, kind, rounds, counts);
        auto const found = f.read(counts, 2);
        std::string const which =
            "groups of " + std::to_string(local) + ", kind " + std::to_string(kind) + ": ";
        if (found[0] != 0) return which + std::to_string(found[0]) + " wrong bytes";
        if (found[1] != 0) return which + std::to_string(found[1]) + " null references";
        if (auto const problem = f.heap.audit(); !problem.empty()) return which + problem;
        if (f.heap.usage().allocations_in_use != 0) return which + usage_text(f.heap);
      }
    }
    return {};
  });
}

TEST(OpenclKernels, EverySizeIsServedTwiceAndMoreThanTheHeapIsRefused) {
  on_each_device([](cl::Device const& device) -> std::string {
    auto const size_of_heap = scaled(257_MiB);
    fixture f{device, size_of_heap, kernels};
    cl::Buffer const references{f.context, CL_MEM_READ_WRITE, 8};
    // The largest size is less than a third of the heap: two work-items that claim runs of pages at
    // once may leave a gap between the runs.
    for (bytes const size :
         {bytes{0}, bytes{1}, bytes{15}, bytes{16}, bytes{17}, bytes{2040}, bytes{2041},
          bytes{4080}, bytes{4081}, 64_KiB, 1_MiB, scaled(80_MiB)}) {
      f.run("allocate", 2, 1, cl_ulong{size}, references, cl_uint{2});
      auto const both = f.read(references, 2);
      if (both[0] == 0 || both[1] == 0 || both[0] == both[1])
        return std::to_string(size) + " bytes: " + usage_text(f.heap);
      f.run("release", 2, 1, references, cl_uint{2}, cl_uint{0});
    }
    f.run("allocate", 2, 1, cl_ulong{size_of_heap}, references, cl_uint{2});
    if (f.read(references, 2) != std::vector<cl_uint>{0, 0}) return "more than the heap was served";
    if (f.heap.faults().out_of_memory != 2) return "the faults are not counted";
    return f.heap.usage().allocations_in_use == 0 ? f.heap.audit() : usage_text(f.heap);
  });
}

TEST(OpenclKernels, AFullHeapServesAsMuchAgain) {
  on_each_device([](cl::Device const& device) -> std::string {
    auto const size_of_heap = scaled(16_MiB);
    fixture f{device, size_of_heap, kernels};
    for (cl_ulong const size : {64, 1024, 5000}) {
      auto const count = static_cast<cl_uint>(size_of_heap / size);
      cl::Buffer const references{f.context, CL_MEM_READ_WRITE, count * 4u};
      auto const served = [&] {
        auto const all = f.read(references, count);
        return count - static_cast<cl_uint>(std::count(all.begin(), all.end(), 0u));
      };
      f.run("allocate", groups_for(4096, 64), 64, size, references, count);
      auto const first = served();
      if (double(first) * double(size) < 0.8 * double(size_of_heap))
        return std::to_string(first) + " of " + std::to_string(count) + " fit; " +
               usage_text(f.heap);
      f.run("release", groups_for(4096, 64), 64, references, count, cl_uint{4});
      cl::Buffer const more{f.context, CL_MEM_READ_WRITE, count * 4u};
      f.run("allocate", groups_for(4096, 64), 64, size, more, first - first / 4);
      auto const again = f.read(more, first - first / 4);
      auto const refused = std::count(again.begin(), again.end(), 0u);
      if (double(refused) > 0.05 * first) return std::to_string(refused) + " do not come back";
      f.run("release", groups_for(4096, 64), 64, references, count, cl_uint{0});
      f.run("release", groups_for(4096, 64), 64, more, first - first / 4, cl_uint{0});
      f.run("allocate", 1, 1, cl_ulong{scaled(12_MiB)}, references, cl_uint{1});
      if (f.read(references, 1)[0] == 0) return "small slots do not merge; " + usage_text(f.heap);
      f.heap.reset();
      if (f.heap.usage().allocations_in_use != 0) return "reset leaves allocations";
    }
    return f.heap.audit();
  });
}

TEST(OpenclKernels, AHeapThatGrowsKeepsItsAllocationsAndServesMore) {
  on_each_device([](cl::Device const& device) -> std::string {
    fixture f{device, scaled(4_MiB), kernels, scaled(16_MiB)};
    auto const count = static_cast<cl_uint>(scaled(16_MiB) / 1024);
    cl::Buffer const references{f.context, CL_MEM_READ_WRITE, count * 4u};
    f.run("allocate", groups_for(4096, 64), 64, cl_ulong{1024}, references, count);
    auto const old = f.read(references, count);
    auto const before = count - std::count(old.begin(), old.end(), 0u);
    if (before < scaled(2'500) || before > scaled(4'096))
      return std::to_string(before) + " fit before";
    try {
      f.heap.grow(scaled(17_MiB));
      return "it grew beyond max_bytes";
    } catch (bad_argument const&) {
    }
    f.heap.grow(scaled(16_MiB));
    if (auto const problem = f.heap.audit(); !problem.empty()) return problem;
    if (f.heap.usage().allocations_in_use != static_cast<bytes>(before)) return usage_text(f.heap);
    cl::Buffer const more{f.context, CL_MEM_READ_WRITE, count * 4u};
    f.run("allocate", groups_for(4096, 64), 64, cl_ulong{1024}, more, count);
    auto const fresh = f.read(more, count);
    auto const after = count - std::count(fresh.begin(), fresh.end(), 0u);
    if (after < scaled(10'000)) return std::to_string(after) + " fit after";
    if (auto const problem = shared_references(old, fresh); !problem.empty()) return problem;
    f.run("release", groups_for(4096, 64), 64, references, count, cl_uint{0});
    f.run("release", groups_for(4096, 64), 64, more, count, cl_uint{0});
    if (f.heap.usage().allocations_in_use != 0) return usage_text(f.heap);
    auto const faults = f.heap.faults();
    if (faults.double_free + faults.interior_reference + faults.foreign_reference != 0)
      return std::to_string(faults.double_free) + " double frees, " +
             std::to_string(faults.interior_reference) + " interior and " +
             std::to_string(faults.foreign_reference) + " foreign references";
    return f.heap.audit();
  });
}

/// Serves 95 % of the heap in allocations of `size` bytes, or a million of them, writes to both
/// ends of each, and frees all of them. Only one work-item makes large allocations: if several
/// work-items claim runs of pages at once, gaps may remain that are too short for another run.
std::string fill_and_empty(fixture& f, bytes heap_size, bytes size, std::size_t items) {
  auto const count = static_cast<cl_uint>(std::min<bytes>(heap_size / 20 * 19 / size, 1 << 20));
  cl::Buffer const references{f.context, CL_MEM_READ_WRITE, count * 4u};
  cl_uint count_of_wrong = 0;
  cl::Buffer const wrong{f.context, CL_MEM_COPY_HOST_PTR, sizeof count_of_wrong, &count_of_wrong};
  if (size >= 64_KiB) {
    f.run("allocate", 1, 1, cl_ulong{size}, references, count);
  } else {
    f.run("allocate", groups_for(items, 64), 64, cl_ulong{size}, references, count);
  }
  f.run("tag", groups_for(items, 64), 64, cl_ulong{size}, references, count);
  f.run("check_tags", groups_for(items, 64), 64, cl_ulong{size}, references, count, wrong);
  auto const all = f.read(references, count);
  auto const refused = std::count(all.begin(), all.end(), 0u);
  std::string const which =
      "heap of " + std::to_string(heap_size >> 20) + " MiB, " + std::to_string(size) + " bytes: ";
  count_of_wrong = f.read(wrong, 1)[0];
  if (count_of_wrong != 0) return which + std::to_string(count_of_wrong) + " wrong tags";
  if (auto const problem = shared_references(all, {}); !problem.empty()) return which + problem;
  if (refused != 0)
    return which + std::to_string(refused) + " of " + std::to_string(count) + " do not fit";
  f.run("release", groups_for(items, 64), 64, references, count, cl_uint{0});
  return {};
}

TEST(OpenclKernels, LargeHeapsServeTheirFirstAndLastByte) {
  on_each_device([](cl::Device const& device) -> std::string {
    bool const is_gpu = (device.getInfo<CL_DEVICE_TYPE>() & CL_DEVICE_TYPE_GPU) != 0;
    auto const largest = device.getInfo<CL_DEVICE_MAX_MEM_ALLOC_SIZE>();
    std::vector<bytes> sizes{257_MiB, 900_MiB};
    if (is_gpu) sizes = {8_GiB, 32_GiB};
    for (bytes const size : sizes) {
      bytes const heap_size = scaled(size);
      if (heap_size > largest) continue;
      fixture f{device, heap_size, kernels};
      for (bytes const block : {64_KiB, 1_MiB, 1008 * bytes{1}})
        if (auto const problem = fill_and_empty(f, heap_size, block, is_gpu ? 65'536 : 1024);
            !problem.empty())
          return problem;
      end_after(60);  // for the host, which reads all metadata twice
      if (f.heap.usage().allocations_in_use != 0) return usage_text(f.heap);
      if (auto const problem = f.heap.audit(); !problem.empty()) return problem;
    }
    return {};
  });
}

}  // namespace opencl_kernels_test
}  // namespace quarry::test
