// SPDX-License-Identifier: Apache-2.0
// What does a deallocation followed by an allocation cost the host, if it replaces a random one of
// N live allocations?
//
// State: after three warm-up rounds. Memory is device memory on a GPU, else the C library's; no
// thread touches it. The program measures every strategy of Quarry and the platform's allocators
// with their best settings. `held_per_live` is the peak of the reserved bytes, divided by the peak
// of the allocated bytes. bench/torch_pool_bench.cpp times PyTorch's allocator in the same loop.
#include "pairs.hpp"
#include "peers.hpp"
#include "trial.hpp"

#include "quarry/host/pools/pool.hpp"
#include "quarry/host/pools/stitched_pool.hpp"
#include "quarry/host/resources/cuda_resources.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/platform/cuda_pages.hpp"
#include "quarry/platform/host_pages.hpp"

#ifdef __CUDACC__
#include "quarry/host/interop/cuda_memory_resource.cuh"
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
  quarry::pool<platform_resource, Strategy> source{platform_resource{}, {.alignment = alignment}};
  void* allocate(bytes size) { return source.allocate(size); }
  void deallocate(void* pointer, bytes) { source.deallocate(pointer); }
};
struct quarry_pool : our_pool<quarry::fast_fit> {
  static constexpr char const* name = "quarry";
};
struct quarry_untracked {
  static constexpr char const* name = "quarry-untracked";
  quarry::pool<platform_resource> source{platform_resource{},
                                         {.alignment = alignment, .is_tracked = false}};
  void* allocate(bytes size) { return source.allocate(size); }
  void deallocate(void* pointer, bytes) { source.deallocate(pointer); }
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
  quarry::stitched_pool<platform_pages, Strategy> source{platform_pages{},
                                                         {.alignment = alignment}};
  void* allocate(bytes size) { return source.allocate(size); }
  void deallocate(void* pointer, bytes) { source.deallocate(pointer); }
};
struct quarry_stitched : our_stitched_pool<quarry::chunk_arena<quarry::lowest_best_fit>> {
  static constexpr char const* name = "quarry-stitched";
};
struct quarry_stitched_fast_fit : our_stitched_pool<quarry::fast_fit> {
  static constexpr char const* name = "quarry-stitched-fast-fit";
};

#ifdef __CUDACC__
/// A stream without work. It outlives the pool that uses it.
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
  idle_stream stream;
  quarry::stream_pool<quarry::device_resource, quarry::cuda_streams> source{
      quarry::device_resource{}, quarry::cuda_streams{}};
  void* allocate(bytes size) { return source.allocate(size, stream.handle); }
  void deallocate(void* pointer, bytes) { source.deallocate(pointer, stream.handle); }
};
/// The stream pool with a lock, as threads share it.
struct quarry_cuda_mr {
  static constexpr char const* name = "quarry-cuda-mr";
  idle_stream stream;
  quarry::cuda_device_memory::owner owner{quarry::device_resource{}, quarry::cuda_streams{}};
  quarry::cuda_device_memory source{owner};
  void* allocate(bytes size) { return source.allocate_async(size, alignment, stream.handle); }
  void deallocate(void* pointer, bytes size) {
    source.deallocate_async(pointer, size, alignment, stream.handle);
  }
};
#endif

/// A resource without a pool.
template <class Resource>
struct bare {
  Resource source = Resource{};
  void* allocate(bytes size) { return source.allocate(size, alignment); }
  void deallocate(void* pointer, bytes size) { source.deallocate(pointer, size, alignment); }
};
#ifdef __CUDACC__
struct cuda_malloc : bare<quarry::device_resource> {
  static constexpr char const* name = "cudaMalloc";
};
struct cuda_malloc_async {
  static constexpr char const* name = "cudaMallocAsync";
  cuda_malloc_async() {
    cudaMemPool_t pool;
    cudaDeviceGetDefaultMemPool(&pool, 0);
    std::uint64_t no_limit = ~std::uint64_t{0};
    cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &no_limit);
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
  std::pmr::unsynchronized_pool_resource source;
  void* allocate(bytes size) { return source.allocate(size); }
  void deallocate(void* pointer, bytes size) { source.deallocate(pointer, size); }
};
/// The standard pool, with pools for large allocations, too.
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
  // the last one, since it changes malloc for the whole process
  body.template operator()<bench::keeping_c_library>();
#endif
}

template <class Pool>
void measure(bench::replacing const& replacement) {
  bool const is_slow = std::string_view{Pool::name} == "cudaMalloc";
  std::uint64_t const pairs = is_slow ? 300 : 100'000;
  auto const params = replacement.params(Pool::name);
  bench::trial rounds{
      params, {{"host/pool/pair", "ns"}}, {.max_ms = 2000, .warm_ups = 3, .rounds = 15}};
  Pool pool{};
  {
    bench::live_allocations<Pool> allocated{pool, replacement};
    while (rounds.next()) rounds.add({allocated.pair_ns(pairs)});
  }
  rounds.finish();
  if constexpr (requires { pool.source.counts(); }) {
    auto const counts = pool.source.counts();
    bench::record(
        "host/pool/held_per_live", params,
        static_cast<double>(counts.peak_reserved) / static_cast<double>(counts.peak_allocated),
        "ratio");
  }
}

}  // namespace

int main(int argc, char** argv) {
  return bench::for_each_named(
      {argv + 1, argv + argc}, [](auto visitor) { for_all(std::move(visitor)); },
      [&]<class Pool>() {
        measure<Pool>({1, 64, 64});
        measure<Pool>(bench::one_small_size);
        for (bool const is_log : {false, true}) {
          for (bench::replacing replacement :
               {bench::up_to_4_kib, bench::up_to_1_mib, bench::up_to_64_mib}) {
            replacement.is_log = is_log;
            if (bench::on_gpu || replacement.maximum < bench::up_to_64_mib.maximum)
              measure<Pool>(replacement);
          }
        }
      });
}
