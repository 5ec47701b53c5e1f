// SPDX-License-Identifier: Apache-2.0
// Host pools in a minute: a pool over memory of the host, one over a GPU's if there is one, and one
// that moves its pages.
#include "quarry/host.hpp"

#include <cstdio>
#include <sstream>
#include <vector>

using namespace quarry::literals;

int main() {
  // A pool takes blocks of a resource and hands out chunks. Resources compose: this one gives no
  // more than 1 GiB.
  quarry::pool numbers{quarry::limited_resource{quarry::host_resource{}, 1_GiB}};
  using allocator = quarry::resource_allocator<double, decltype(numbers)>;
  std::vector<double, allocator> field(1'000'000, 1.5, allocator{numbers});
  auto const counts = numbers.counts();
  std::printf("%.1f MiB in use of %.1f MiB held\n", static_cast<double>(counts.allocated) / 0x1p20,
              static_cast<double>(counts.reserved) / 0x1p20);

  // What is not in use is refused; a failure says who had no memory, and for how much.
  std::printf("freeing what is none: %s\n",
              numbers.deallocate(field.data() + 2) ? "done" : "refused");
  try {
    (void)numbers.allocate(2_GiB);
  } catch (quarry::out_of_memory const& failure) {
    std::printf("%s\n", failure.what());
  }

  // The same over a GPU's memory, which the host never touches.
  try {
    quarry::pool on_the_gpu{quarry::device_resource{0}, {.alignment = 256}};
    on_the_gpu.deallocate(on_the_gpu.allocate(10_MiB));
    std::printf("on the GPU, too\n");
  } catch (quarry::resource_failed const& none) {
    std::printf("no GPU: %s\n", none.what());
  }

  // Half of these are freed, every other one; together they make room for one that fits
  // nowhere, and nothing is copied.
  quarry::stitched_pool stitched{quarry::host_pages{64_KiB}};
  std::vector<void*> chunks;
  for (int i = 0; i < 64; ++i) chunks.push_back(stitched.allocate(64_KiB));
  for (std::size_t i = 0; i < 64; i += 2) stitched.deallocate(chunks[i]);
  void* const large = stitched.allocate(32 * 64_KiB);
  std::printf("held %.1f MiB after all, moved %.1f MiB\n",
              static_cast<double>(stitched.counts().reserved) / 0x1p20,
              static_cast<double>(stitched.counts().moved) / 0x1p20);
  stitched.deallocate(large);

  // Any address leads to its allocation, without a lock; operations take their bounds from there.
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
