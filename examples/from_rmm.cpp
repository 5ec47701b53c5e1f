// SPDX-License-Identifier: Apache-2.0
// Quarry's counterparts of RMM's resources and adaptors; see docs/guide/from_rmm.md. Without a GPU
// the program says so and skips the part that needs one.
#include "quarry/host.hpp"

#include <cstdio>
#include <iostream>
#include <sstream>

using namespace quarry::literals;

namespace {

void adaptors() {
  // Resources are values and own their upstream: this one counts the allocations of a limited one.
  quarry::statistics_resource counted{quarry::limited_resource{quarry::host_resource{}, 1_MiB}};
  void* const memory = counted.allocate(1000, 64);
  std::printf("%lld bytes in use, %llu allocations\n",
              static_cast<long long>(counted.counts().allocated),
              static_cast<unsigned long long>(counted.counts().allocations_in_use));
  counted.push();  // begins separate counts for a part of the program
  counted.deallocate(memory, 1000, 64);
  std::printf("that part: %lld bytes\n", static_cast<long long>(counted.pop().allocated));

  // Calls a function if an allocation fails, and tries again while the function returns true.
  int calls = 0;
  quarry::failure_callback_resource retrying{
      quarry::limited_resource{quarry::host_resource{}, 1_KiB},
      [&](quarry::bytes) { return ++calls < 3; }};
  try {
    (void)retrying.allocate(2_KiB, 64);
  } catch (quarry::out_of_memory const& failure) {
    std::printf("%d calls, then: %s\n", calls, failure.what());
  }
}

void logging() {
  std::ostringstream text;  // or the path of a file: allocation_log{"allocations.csv"}
  auto const log = std::make_shared<quarry::allocation_log>(text);
  quarry::logged_resource logged{quarry::host_resource{}, log};
  logged.deallocate(logged.allocate(1000, 64), 1000, 64);

  // A pool cannot be moved, so the resource constructs it. Both resources write to one log.
  using pool = quarry::synchronized_resource<quarry::pool<quarry::host_resource>>;
  quarry::logged_resource<pool> logged_pool{log, std::in_place, quarry::host_resource{}};
  logged_pool.deallocate(logged_pool.allocate(2000, 64), 2000, 64);
  std::cout << text.str();
}

void tracking() {
  quarry::tracked_resource tracked{quarry::host_resource{}, "tracked"};
  void* const memory = tracked.allocate(1000, 64);
  tracked.label(memory, "boundary values");
  quarry::registry::report(std::cout, tracked.id());  // live allocations, with labels and locations
  tracked.deallocate(memory, 1000, 64);
}

void bins() {
  // A bin of slots serves each power of two from 256 bytes to 4 KiB. A pool serves larger sizes.
  using pool = quarry::synchronized_resource<quarry::pool<quarry::host_resource>>;
  quarry::binned_resource<quarry::host_resource, pool> bins{
      [] { return quarry::host_resource{}; }, pool{quarry::host_resource{}}, 256, 4_KiB};
  void* const small = bins.allocate(300, 64);
  void* const large = bins.allocate(1_MiB, 64);
  bins.deallocate(small, 300, 64);
  bins.deallocate(large, 1_MiB, 64);
}

void on_a_gpu() {
  // A stream-ordered pool over cudaMalloc. It reserves 4 GiB at most.
  quarry::stream_pool pool{quarry::device_resource{0}, quarry::cuda_streams{0},
                           quarry::stream_pool_options{.first_block = 64_MiB, .max_bytes = 4_GiB}};
  quarry::cuda_stream const stream = nullptr;  // a cudaStream_t
  pool.deallocate(pool.allocate(1_MiB, stream), stream);

  // A pool of CUDA, and a view of a pool that another owner destroys.
  quarry::cuda_async_pool async{{.first = 64_MiB, .kept = 256_MiB}};
  async.deallocate(async.allocate(1_MiB, 256, stream), 1_MiB, 256, stream);
  quarry::cuda_async_view view = quarry::cuda_async_view::default_pool();
  view.deallocate(view.allocate(1_MiB, 256, stream), 1_MiB, 256, stream);
  quarry::cuda_async_pool managed{{.location = {quarry::memory_kind::managed}}};

  // Managed memory that moves to the GPU when it is allocated.
  quarry::advised_resource prefetched{
      quarry::managed_resource{}, {}, quarry::memory_location{quarry::memory_kind::device, 0}};
  prefetched.deallocate(prefetched.allocate(1_MiB, 256), 1_MiB, 256);
}

}  // namespace

int main() {
  adaptors();
  logging();
  tracking();
  bins();
  try {
    on_a_gpu();
  } catch (quarry::resource_failed const& failure) {
    std::printf("no GPU: %s\n", failure.what());
  }
}
