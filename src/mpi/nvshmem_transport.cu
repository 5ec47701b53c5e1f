// SPDX-License-Identifier: Apache-2.0
// The transport between processes on GPUs (ways.hpp): NVSHMEM. A process is an NVSHMEM PE.
#include <nvshmem.h>

#include <cstdint>

// Called for processes whose memory is not mapped.
extern "C" __device__ void quarry_mpi_put(std::uint64_t* word, std::uint64_t value,
                                          std::uint32_t process) {
  nvshmem_uint64_p(word, value, static_cast<int>(process));
}

extern "C" __device__ std::uint64_t quarry_mpi_fetch_add(std::uint64_t* word, std::uint64_t change,
                                                         std::uint32_t process) {
  return nvshmem_uint64_atomic_fetch_add(word, change, static_cast<int>(process));
}

extern "C" __device__ void quarry_mpi_put_block(char* to, char const* data, std::uint64_t size,
                                                std::uint64_t* word, std::uint64_t value,
                                                std::uint32_t process) {
  nvshmem_putmem_signal(to, data, size, word, value, NVSHMEM_SIGNAL_SET, static_cast<int>(process));
}
