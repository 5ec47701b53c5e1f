// SPDX-License-Identifier: Apache-2.0
// What share of an OpenCL heap of 256 MiB can be allocated before the first failure, and what share
// of freed memory can be allocated again? (KMA left 52 % of a heap unused for blocks of 128 to
// 1,024 bytes, and reused nothing after three of four blocks were freed.)
//
//   opencl/utilisation         requested bytes when the first malloc fails, divided by the buffer's
//   opencl/utilisation/filled  the same when a malloc of each work-item has failed
//   opencl/utilisation/fill    the time until then                                            ms
//   opencl/reuse               three of four allocations, chosen at random, are freed, and the heap
//                              is filled again: bytes allocated then, divided by the bytes freed
//   opencl/reuse/fill          the time of the second fill                                    ms
//
// usage: opencl_utilisation_bench [DEVICE]      (a part of its name; all devices)
//
// 65,536 work-items (1,024 on CPUs) allocate one size. Each links its allocations into a list.
#include "opencl_session.hpp"
#include "trial.hpp"

#include <numeric>

namespace {

using quarry::bytes;

constexpr char const* kernels = R"opencl(
// Allocates until a malloc fails. An allocation begins with the reference of the previous one.
// `counts`: of each work-item, all allocations; `early`: those before the first failure of any.
__kernel void fill(quarry_heap heap, ulong bytes, __global uint* last, __global uint* counts,
                   __global uint* early, __global uint* has_failed) {
  uint const item = (uint)get_global_id(0);
  uint previous = last[item], count = 0u, before = 0u;
  for (;;) {
    quarry_ref const fresh = quarry_malloc(heap, bytes);
    if (fresh == 0u) break;
    *(__global uint*)quarry_at(heap, fresh) = previous;
    previous = fresh;
    ++count;
    if (quarry_load_relaxed(has_failed) == 0u) ++before;
  }
  quarry_store_relaxed(has_failed, 1u);
  last[item] = previous;
  counts[item] = count;
  early[item] = before;
}

// Frees all allocations whose reference has a hash that is no multiple of `keep_each`, or all.
// `counts`: of each work-item, the frees.
__kernel void drain(quarry_heap heap, uint keep_each, __global uint* last, __global uint* counts) {
  uint const item = (uint)get_global_id(0);
  uint kept = 0u, count = 0u;
  for (uint current = last[item]; current != 0u;) {
    __global uint* const at = (__global uint*)quarry_at(heap, current);
    uint const previous = *at;
    if (keep_each != 0u && quarry_map_hash(current) % keep_each == 0u) {
      *at = kept;
      kept = current;
    } else if (quarry_free(heap, current)) {
      ++count;
    }
    current = previous;
  }
  last[item] = kept;
  counts[item] = count;
}
)opencl";

constexpr bytes heap_size = 256 << 20;
constexpr std::size_t local_size = 64;

/// The work-items that fill and drain one heap.
class filler {
 public:
  explicit filler(cl::Device const& device) : on_{device, heap_size} {}

  [[nodiscard]] std::string const& device() const { return on_.name; }
  void reset() {
    on_.heap.reset();
    on_.zero(last_, items_);
  }

  struct filled {
    std::uint64_t before_failure;  // allocations before the first failure
    std::uint64_t allocations;     // until each work-item failed
    double ms;
  };
  filled fill(bytes size) {
    on_.zero(has_failed_, 1);
    cl::Kernel kernel{program_, "fill"};
    kernel.setArg(0, on_.heap.buffer());
    kernel.setArg(1, cl_ulong{size});
    kernel.setArg(2, last_);
    kernel.setArg(3, counts_);
    kernel.setArg(4, early_);
    kernel.setArg(5, has_failed_);
    double const ms = on_.ms(kernel, items_, local_size);
    return {sum_of(early_), sum_of(counts_), ms};
  }

  /// Frees all allocations, or all but about one in `keep_each`. Returns their number.
  std::uint64_t drain(cl_uint keep_each) {
    cl::Kernel kernel{program_, "drain"};
    kernel.setArg(0, on_.heap.buffer());
    kernel.setArg(1, keep_each);
    kernel.setArg(2, last_);
    kernel.setArg(3, counts_);
    (void)on_.ms(kernel, items_, local_size);
    return sum_of(counts_);
  }

  /// Describes the damage to the heap, which must have `live` allocations. Empty if it is sound.
  [[nodiscard]] std::string complaint(std::uint64_t live) const {
    auto const faults = on_.heap.faults();
    if (faults.double_free + faults.interior_reference + faults.foreign_reference != 0)
      return faults.first;
    if (auto const counted = on_.heap.usage().allocations_in_use; counted != live)
      return std::to_string(counted) + " allocations are live, not " + std::to_string(live);
    return on_.heap.audit();
  }

 private:
  std::uint64_t sum_of(cl::Buffer const& buffer) {
    auto const words = on_.read(buffer, items_);
    return std::accumulate(words.begin(), words.end(), std::uint64_t{0});
  }
  [[nodiscard]] cl::Buffer words(std::size_t count) const {
    return {on_.context, CL_MEM_READ_WRITE, count * 4};
  }

  bench::opencl_session on_;
  std::size_t items_ = on_.is_gpu() ? 65'536 : 1024;
  cl::Program program_ = quarry::opencl::build(on_.context, on_.device, kernels);
  cl::Buffer last_ = words(items_);
  cl::Buffer counts_ = words(items_);
  cl::Buffer early_ = words(items_);
  cl::Buffer has_failed_ = words(1);
};

void measure(filler& on, bytes size) {
  bench::trial rounds{bench::parameters{}
                          .add("allocator", "quarry")
                          .add("device", on.device())
                          .add("bytes", size)
                          .add("heap_bytes", heap_size),
                      {{"opencl/utilisation", "ratio"},
                       {"opencl/utilisation/filled", "ratio"},
                       {"opencl/utilisation/fill", "ms"},
                       {"opencl/reuse", "ratio"},
                       {"opencl/reuse/fill", "ms"}},
                      {.max_ms = 4000, .warm_ups = 1, .rounds = 11}};
  auto const share = [size](std::uint64_t count) {
    return static_cast<double>(count * size) / static_cast<double>(heap_size);
  };
  while (rounds.next()) {
    on.reset();
    auto const first = on.fill(size);
    auto const freed = on.drain(4);
    auto const again = on.fill(size);
    auto const live = first.allocations - freed + again.allocations;
    if (auto const problem = on.complaint(live); !problem.empty()) return rounds.fail(problem);
    auto const rest = on.drain(0);
    if (rest != live) return rounds.fail(std::to_string(live - rest) + " frees were refused");
    rounds.add({share(first.before_failure), share(first.allocations), first.ms,
                static_cast<double>(again.allocations) / static_cast<double>(freed), again.ms});
  }
  if (auto const problem = on.complaint(0); !problem.empty()) return rounds.fail(problem);
  rounds.finish();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace quarry::literals;
  return bench::for_each_opencl_device(argc, argv, [](cl::Device const& device) {
    filler on{device};
    for (bytes const size : {bytes{16}, bytes{64}, bytes{256}, 1_KiB, 4_KiB, 64_KiB, 1_MiB})
      measure(on, size);
    for (bytes const size : {17, 100, 200, 1000, 3000, 5000, 100'000}) measure(on, size);
  });
}
