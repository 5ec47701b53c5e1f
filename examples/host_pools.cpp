// SPDX-License-Identifier: Apache-2.0
// A tour of host pools: a pool over the host's memory, a pool over a GPU's memory, and a pool that
// moves its pages.
#include "quarry/host.hpp"

#include <cstdio>
#include <sstream>
#include <vector>

using namespace quarry::literals;

int main() {
  // A pool allocates blocks from a resource and cuts them into chunks. Resources compose: this one
  // allocates 1 GiB at most.
  quarry::pool numbers{quarry::limited_resource{quarry::host_resource{}, 1_GiB}};
  using allocator = quarry::resource_allocator<double, decltype(numbers)>;
  std::vector<double, allocator> field(1'000'000, 1.5, allocator{numbers});
  auto const counts = numbers.counts();
  std::printf("%.1f MiB allocated of %.1f MiB reserved\n",
              static_cast<double>(counts.allocated) / 0x1p20,
              static_cast<double>(counts.reserved) / 0x1p20);

  // The pool refuses an invalid free. An exception names the resource without memory and the size.
  std::printf("an invalid free: %s\n", numbers.deallocate(field.data() + 2) ? "done" : "refused");
  try {
    (void)numbers.allocate(2_GiB);
  } catch (quarry::out_of_memory const& failure) {
    std::printf("%s\n", failure.what());
  }

  // A pool over a GPU's memory. The host never accesses the memory.
  try {
    quarry::pool device{quarry::device_resource{0}, {.alignment = 256}};
    device.deallocate(device.allocate(10_MiB));
    std::printf("allocated 10 MiB on the GPU\n");
  } catch (quarry::resource_failed const& failure) {
    std::printf("no GPU: %s\n", failure.what());
  }

  // Every second chunk is freed. Together the gaps serve a request that fits into none of them,
  // and the pool copies nothing.
  quarry::stitched_pool stitched{quarry::host_pages{64_KiB}};
  std::vector<void*> chunks;
  for (int i = 0; i < 64; ++i) chunks.push_back(stitched.allocate(64_KiB));
  for (std::size_t i = 0; i < 64; i += 2) stitched.deallocate(chunks[i]);
  void* const large = stitched.allocate(32 * 64_KiB);
  std::printf("%.1f MiB reserved, the pages of %.1f MiB moved\n",
              static_cast<double>(stitched.counts().reserved) / 0x1p20,
              static_cast<double>(stitched.counts().moved) / 0x1p20);
  stitched.deallocate(large);

  // The registry finds the allocation of any address without a lock. Operations check its bounds.
  quarry::pool named{quarry::host_resource{}, {.name = "fields"}};
  auto* const density = static_cast<double*>(named.allocate(1000 * sizeof(double), "density"));
  auto const record = quarry::registry::find(density + 10);
  std::printf("%zu bytes of %s\n", static_cast<std::size_t>(record->size),
              quarry::registry::name_of(record->allocator).c_str());
  quarry::operations::fill(density, 0, 1000 * sizeof(double));
  try {
    quarry::operations::copy(density + 500, density, 600 * sizeof(double));
  } catch (quarry::bad_argument const& failure) {
    std::printf("%s\n", failure.what());
  }
  std::ostringstream leaks;
  quarry::registry::report(leaks, named.id());
  std::printf("%s", leaks.str().c_str());
  named.deallocate(density);
}
