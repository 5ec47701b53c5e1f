// SPDX-License-Identifier: Apache-2.0
// RMM's containers and adaptors over a pool of Quarry; see docs/guide/from_rmm.md. CMake builds it
// if RMM is installed (QUARRY_RMM).
#include "quarry/host/interop/rmm_memory_resource.cuh"

#include <rmm/device_buffer.hpp>
#include <rmm/device_uvector.hpp>
#include <rmm/mr/failure_callback_resource_adaptor.hpp>
#include <rmm/mr/per_device_resource.hpp>
#include <rmm/mr/statistics_resource_adaptor.hpp>

#include <cstdio>

namespace {

void containers(cudaStream_t stream) {
  quarry::rmm_device_memory memory{quarry::device_resource{0}, quarry::cuda_streams{0},
                                   quarry::stream_pool_options{.first_block = 64 << 20}};

  // RMM keeps a copy of the resource, and so the pool, until the program sets another resource.
  (void)rmm::mr::set_current_device_resource(memory);
  rmm::device_uvector<int> const numbers(1000, stream);

  // RMM's adaptors accept the resource. The callback runs if it throws rmm::out_of_memory.
  rmm::mr::statistics_resource_adaptor statistics{memory};
  rmm::mr::failure_callback_resource_adaptor<> with_callback{
      statistics, [](std::size_t, void*) { return false; }, nullptr};
  try {
    rmm::device_buffer const too_large{std::size_t{1} << 50, stream, with_callback};
  } catch (rmm::out_of_memory const& failure) {
    std::printf("%s\n", failure.what());
  }

  // The pool's counts and the registry complement RMM's statistics.
  auto const counts = memory.source().counts();
  auto const record = quarry::registry::find(numbers.data());
  std::printf("%zu bytes allocated of %zu reserved; the vector has %zu of them\n",
              static_cast<std::size_t>(counts.allocated), static_cast<std::size_t>(counts.reserved),
              static_cast<std::size_t>(record->size));
  (void)rmm::mr::reset_current_device_resource();
}

}  // namespace

int main() {
  try {
    cudaStream_t stream = nullptr;
    containers(stream);
  } catch (quarry::resource_failed const& failure) {
    std::printf("no GPU: %s\n", failure.what());
  }
}
