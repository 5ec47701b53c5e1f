// SPDX-License-Identifier: Apache-2.0
// What does a deallocation with an allocation after it cost the host, when one of N live
// allocations at random is replaced?
//
// State: in use since three rounds. Device memory on a GPU, the C library's without one; nobody
// touches it. Every strategy of ours, and what the platform has, set as it does best.
// `held_per_live`: peak of the bytes that the pool held, divided by the peak of those in use.
// bench/torch_pool_bench.cpp times PyTorch's allocator in the same loop.
#include "pairs.hpp"
#include "peers.hpp"

#include "quarry/host/pools/pool.hpp"
#include "quarry/host/pools/stitched_pool.hpp"
#include "quarry/host/resources/cuda_resources.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/platform/cuda_pages.hpp"
#include "quarry/platform/host_pages.hpp"

#ifdef __CUDACC__
#include "quarry/host/resources/cuda_memory_resource.cuh"
#endif

#include <memory_resource>

namespace {

using namespace quarry::literals;
using quarry::bytes;

using platform_resource =
    std::conditional_t<bench::on_gpu, quarry::device_resource, quarry::host_resource>;
using platform_pages = std::conditional_t<bench::on_gpu, quarry::cuda_pages, quarry::host_pages>;
constexpr bytes alignment = bench::on_gpu ? 256 : 16;

template <class Strategy>
struct our_pool {
  quarry::pool<platform_resource, Strategy> from{platform_resource{}, {.alignment = alignment}};
  void* allocate(bytes size) { return from.allocate(size); }
  void deallocate(void* pointer, bytes) { from.deallocate(pointer); }
};
struct quarry_pool : our_pool<quarry::fast_fit> {
  static constexpr char const* name = "quarry";
};
struct quarry_untracked {
  static constexpr char const* name = "quarry-untracked";
  quarry::pool<platform_resource> from{platform_resource{},
                                       {.alignment = alignment, .is_tracked = false}};
  void* allocate(bytes size) { return from.allocate(size); }
  void deallocate(void* pointer, bytes) { from.deallocate(pointer); }
};
struct quarry_best_fit : our_pool<quarry::chunk_arena<quarry::oldest_best_fit>> {
  static constexpr char const* name = "quarry-best-fit";
};
struct quarry_lowest_best_fit : our_pool<quarry::chunk_arena<quarry::lowest_best_fit>> {
  static constexpr char const* name = "quarry-lowest-best-fit";
};
struct quarry_segregated_fit : our_pool<quarry::chunk_arena<quarry::segregated_fit>> {
  static constexpr char const* name = "quarry-segregated-fit";
};

template <class Strategy>
struct our_stitched_pool {
  quarry::stitched_pool<platform_pages, Strategy> from{platform_pages{}, {.alignment = alignment}};
  void* allocate(bytes size) { return from.allocate(size); }
  void deallocate(void* pointer, bytes) { from.deallocate(pointer); }
};
struct quarry_stitched : our_stitched_pool<quarry::chunk_arena<quarry::lowest_best_fit>> {
  static constexpr char const* name = "quarry-stitched";
};
struct quarry_stitched_fast_fit : our_stitched_pool<quarry::fast_fit> {
  static constexpr char const* name = "quarry-stitched-fast-fit";
};

#ifdef __CUDACC__
/// A stream without work, which outlives the pool that is asked for its memory.
struct idle_stream {
  cudaStream_t handle = nullptr;
  idle_stream() {
    quarry::simt::check_cuda(cudaStreamCreateWithFlags(&handle, cudaStreamNonBlocking),
                             "cudaStreamCreateWithFlags");
  }
  idle_stream(idle_stream const&) = delete;
  idle_stream& operator=(idle_stream const&) = delete;
  ~idle_stream() { cudaStreamDestroy(handle); }
};
struct quarry_stream_pool {
  static constexpr char const* name = "quarry-stream";
  idle_stream on;
  quarry::stream_pool<quarry::device_resource, quarry::cuda_streams> from{quarry::device_resource{},
                                                                          quarry::cuda_streams{}};
  void* allocate(bytes size) { return from.allocate(size, on.handle); }
  void deallocate(void* pointer, bytes) { from.deallocate(pointer, on.handle); }
};
/// The same with a lock, as threads share it.
struct quarry_cuda_mr {
  static constexpr char const* name = "quarry-cuda-mr";
  idle_stream on;
  quarry::cuda_device_memory::owner owner{quarry::device_resource{}, quarry::cuda_streams{}};
  quarry::cuda_device_memory from{owner};
  void* allocate(bytes size) { return from.allocate_async(size, alignment, on.handle); }
  void deallocate(void* pointer, bytes size) {
    from.deallocate_async(pointer, size, alignment, on.handle);
  }
};
#endif

/// A resource without a pool.
template <class Resource>
struct bare {
  Resource from = Resource{};
  void* allocate(bytes size) { return from.allocate(size, alignment); }
  void deallocate(void* pointer, bytes size) { from.deallocate(pointer, size, alignment); }
};
#ifdef __CUDACC__
struct cuda_malloc : bare<quarry::device_resource> {
  static constexpr char const* name = "cudaMalloc";
};
struct cuda_malloc_async {
  static constexpr char const* name = "cudaMallocAsync";
  cuda_malloc_async() {
    cudaMemPool_t own;
    cudaDeviceGetDefaultMemPool(&own, 0);
    std::uint64_t never = ~std::uint64_t{0};
    cudaMemPoolSetAttribute(own, cudaMemPoolAttrReleaseThreshold, &never);
  }
  void* allocate(bytes size) {
    void* result = nullptr;
    quarry::simt::check_cuda(cudaMallocAsync(&result, size, nullptr), "cudaMallocAsync");
    return result;
  }
  void deallocate(void* pointer, bytes) { cudaFreeAsync(pointer, nullptr); }
};
#else
struct standard_pool {
  static constexpr char const* name = "pmr-unsynchronized";
  std::pmr::unsynchronized_pool_resource from;
  void* allocate(bytes size) { return from.allocate(size); }
  void deallocate(void* pointer, bytes size) { from.deallocate(pointer, size); }
};
/// The same, with pools for large allocations, too.
struct standard_pool_up_to_1_mib : standard_pool {
  static constexpr char const* name = "pmr-up-to-1-MiB";
  standard_pool_up_to_1_mib()
      : standard_pool{std::pmr::unsynchronized_pool_resource{
            {.max_blocks_per_chunk = 0, .largest_required_pool_block = 1_MiB}}} {}
};
#endif

template <class Body>
void for_all(Body body) {
  body.template operator()<quarry_pool>();
  body.template operator()<quarry_untracked>();
  body.template operator()<quarry_best_fit>();
  body.template operator()<quarry_lowest_best_fit>();
  body.template operator()<quarry_segregated_fit>();
  body.template operator()<quarry_stitched>();
  body.template operator()<quarry_stitched_fast_fit>();
#ifdef __CUDACC__
  body.template operator()<quarry_stream_pool>();
  body.template operator()<quarry_cuda_mr>();
  body.template operator()<cuda_malloc_async>();
  body.template operator()<cuda_malloc>();
#else
  body.template operator()<standard_pool>();
  body.template operator()<standard_pool_up_to_1_mib>();
  body.template operator()<bench::c_library>();
  if constexpr (bench::has_mimalloc) body.template operator()<bench::mimalloc_on_host>();
  // the last, since it is set for the whole process
  body.template operator()<bench::c_library_that_keeps>();
#endif
}

template <class Pool>
void measure(bench::replacing const& how) {
  bool const is_slow = std::string_view{Pool::name} == "cudaMalloc";
  std::uint64_t const pairs = is_slow ? 300 : 100'000;
  auto const params = how.params(Pool::name);
  bench::trial all{
      params, {{"host/pool/pair", "ns"}}, {.max_ms = 2000, .warm_ups = 3, .rounds = 15}};
  Pool pool{};
  {
    bench::live_allocations<Pool> allocated{pool, how};
    while (all.next()) all.add({allocated.pair_ns(pairs)});
  }
  all.finish();
  if constexpr (requires { pool.from.counts(); }) {
    auto const counts = pool.from.counts();
    bench::record(
        "host/pool/held_per_live", params,
        static_cast<double>(counts.peak_reserved) / static_cast<double>(counts.peak_allocated),
        "ratio");
  }
}

}  // namespace

int main(int argc, char** argv) {
  return bench::for_each_wanted(
      {argv + 1, argv + argc}, [](auto each) { for_all(std::move(each)); },
      [&]<class Pool>() {
        measure<Pool>({1, 64, 64});
        measure<Pool>(bench::one_small_size);
        for (bool const is_log : {false, true}) {
          for (bench::replacing how :
               {bench::up_to_4_kib, bench::up_to_1_mib, bench::up_to_64_mib}) {
            how.is_log = is_log;
            if (bench::on_gpu || how.maximum < bench::up_to_64_mib.maximum) measure<Pool>(how);
          }
        }
      });
}
