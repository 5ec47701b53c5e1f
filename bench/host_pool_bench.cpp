// SPDX-License-Identifier: Apache-2.0
// What does a deallocation with an allocation after it cost the host, when one of N live
// allocations at random is replaced?
//
// Device memory on a GPU, the C library's without one. Sizes are uniform between two bounds, or,
// with `sizes` log, each power of two as likely. What is drawn is drawn before the clock runs.
// `held_per_live`: most bytes that the pool ever held, by the most that were ever in use.
#include "allocators.hpp"
#include "trial.hpp"

#include "quarry/host/cuda_resources.hpp"
#include "quarry/host/host_resource.hpp"
#include "quarry/host/pool.hpp"

#include <memory_resource>
#include <random>

namespace {

using namespace quarry::literals;
using quarry::bytes;

using platform_resource =
    std::conditional_t<bench::on_gpu, quarry::device_resource, quarry::host_resource>;
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
struct quarry_best_fit : our_pool<quarry::fitting<quarry::oldest_best_fit>> {
  static constexpr char const* name = "quarry-best-fit";
};

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
struct c_library {
  static constexpr char const* name = "libc";
  void* allocate(bytes size) { return std::malloc(size); }
  void deallocate(void* pointer, bytes) { std::free(pointer); }
};
struct standard_pool {
  static constexpr char const* name = "pmr-unsynchronized";
  std::pmr::unsynchronized_pool_resource from;
  void* allocate(bytes size) { return from.allocate(size); }
  void deallocate(void* pointer, bytes size) { from.deallocate(pointer, size); }
};
#endif

template <class Body>
void for_all(Body body) {
  body.template operator()<quarry_pool>();
  body.template operator()<quarry_best_fit>();
#ifdef __CUDACC__
  body.template operator()<cuda_malloc_async>();
  body.template operator()<cuda_malloc>();
#else
  body.template operator()<c_library>();
  body.template operator()<standard_pool>();
#endif
}

/// Sizes and victims, drawn beforehand.
class draws {
 public:
  static constexpr std::size_t count = 1 << 16;

  draws(std::uint32_t live, bytes least, bytes most, bool is_log) {
    std::mt19937_64 random{1};
    for (std::size_t i = 0; i < count; ++i) {
      victims_.push_back(static_cast<std::uint32_t>(random() % live));
      auto const share = static_cast<double>(random() >> 11) * 0x1p-53;
      double const size =
          is_log ? static_cast<double>(least) *
                       std::pow(static_cast<double>(most) / static_cast<double>(least), share)
                 : static_cast<double>(least) + share * static_cast<double>(most - least + 1);
      sizes_.push_back(std::min(most, static_cast<bytes>(size)));
    }
  }
  [[nodiscard]] std::uint32_t victim(std::uint64_t step) const { return victims_[step % count]; }
  [[nodiscard]] bytes size(std::uint64_t step) const { return sizes_[(step * 7 + 3) % count]; }

 private:
  std::vector<std::uint32_t> victims_;
  std::vector<bytes> sizes_;
};

template <class Pool>
void measure(std::uint32_t live, bytes least, bytes most, bool is_log) {
  bool const is_slow = std::string_view{Pool::name} == "cudaMalloc";
  std::uint64_t const pairs = is_slow ? 300 : 100'000;
  auto const params = bench::parameters{}
                          .add("allocator", Pool::name)
                          .add("live", live)
                          .add("least", least)
                          .add("most", most)
                          .add("sizes", is_log ? "log" : "uniform");
  bench::trial all{
      params, {{"host/pool/pair", "ns"}}, {.most_ms = 2000, .warm_ups = 3, .rounds = 15}};
  Pool pool{};
  draws const drawn{live, least, most, is_log};
  struct one {
    void* at;
    bytes size;
  };
  std::vector<one> held;
  std::uint64_t step = 0;
  for (; step < live; ++step) held.push_back({pool.allocate(drawn.size(step)), drawn.size(step)});
  while (all.next()) {
    auto const begin = std::chrono::steady_clock::now();
    for (std::uint64_t const end = step + pairs; step < end; ++step) {
      one& victim = held[drawn.victim(step)];
      pool.deallocate(victim.at, victim.size);
      victim.size = drawn.size(step);
      victim.at = pool.allocate(victim.size);
    }
    all.add({std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin)
                 .count() /
             static_cast<double>(pairs)});
  }
  for (one const& last : held) pool.deallocate(last.at, last.size);
  all.finish();
  if constexpr (requires { pool.from.counts(); }) {
    auto const counts = pool.from.counts();
    bench::record("host/pool/held_per_live", params,
                  static_cast<double>(counts.most_held) / static_cast<double>(counts.most_live),
                  "ratio");
  }
}

}  // namespace

int main(int argc, char** argv) {
  return bench::for_each_wanted(
      {argv + 1, argv + argc}, [](auto each) { for_all(std::move(each)); },
      [&]<class Pool>() {
        measure<Pool>(1, 64, 64, false);
        for (bool const is_log : {false, true}) {
          if (!is_log) measure<Pool>(1000, 256, 256, false);
          measure<Pool>(10'000, 1, 4096, is_log);
          measure<Pool>(10'000, 1, 1_MiB, is_log);
          if (bench::on_gpu) measure<Pool>(300, 1_KiB, 64_MiB, is_log);
        }
      });
}
