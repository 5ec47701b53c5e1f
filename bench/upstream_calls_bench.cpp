// SPDX-License-Identifier: Apache-2.0
// How long does it take to allocate a block from the platform, and to return it?
//
// State: the process has 1 GiB in other blocks, the device is idle, and nothing touches the memory.
// Memory is device memory on a GPU (cudaMalloc, cudaFree), else the C library's. A round allocates
// eight blocks, or four of the largest size, and frees them in the order of their allocation.
// Replays use the results as their model of the upstream (`upstream_cost`).
#include "trial.hpp"

#include "quarry/host/resources/cuda_resources.hpp"
#include "quarry/host/resources/host_resource.hpp"

namespace {

using namespace quarry::literals;
using quarry::bytes;
using clock = std::chrono::steady_clock;
using resource = std::conditional_t<bench::on_gpu, quarry::device_resource, quarry::host_resource>;

constexpr bytes alignment = 256;

/// Blocks that end with the scope, even if an allocation fails.
class blocks {
 public:
  explicit blocks(resource& source) : source_{source} {}
  blocks(blocks const&) = delete;
  blocks& operator=(blocks const&) = delete;
  ~blocks() { clear(); }

  void add(bytes size) {
    blocks_.reserve(blocks_.size() + 1);
    blocks_.push_back({source_.allocate(size, alignment), size});
  }
  void clear() {
    for (auto const& [base, size] : blocks_) source_.deallocate(base, size, alignment);
    blocks_.clear();
  }

 private:
  resource& source_;
  std::vector<std::pair<void*, bytes>> blocks_;
};

[[nodiscard]] double us_since(clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(clock::now() - begin).count();
}

void measure(resource& source, bytes size) {
  int const count = size > 1_GiB ? 4 : 8;
  bench::parameters params;
  params.add("allocator", bench::on_gpu ? "cudaMalloc" : "posix_memalign").add("bytes", size);
  bench::trial rounds{params,
                      {{"upstream/allocate", "us"}, {"upstream/free", "us"}},
                      {.max_ms = 5000, .warm_ups = 2, .rounds = 21}};
  blocks taken{source};
  while (rounds.next()) {
    bench::wait_for_device();
    auto const begin = clock::now();
    for (int i = 0; i < count; ++i) taken.add(size);
    double const us_to_allocate = us_since(begin);
    auto const middle = clock::now();
    taken.clear();
    rounds.add({us_to_allocate / count, us_since(middle) / count});
  }
  rounds.finish();
}

}  // namespace

int main(int argc, char** argv) {
  if (!bench::is_requested(argc, argv)) return 0;
  resource source;
  blocks others{source};
  for (int i = 0; i < 16; ++i) others.add(64_MiB);
  for (bytes const size : {2_MiB, 8_MiB, 64_MiB, 512_MiB, 4_GiB}) measure(source, size);
}
