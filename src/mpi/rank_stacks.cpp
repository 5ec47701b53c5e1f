// SPDX-License-Identifier: Apache-2.0
#include "rank_stacks.hpp"

#include <sys/mman.h>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace quarry::inline QUARRY_ABI::mpi {
namespace {

constexpr bytes page = 4096;

/// How many ranges of memory with different protection a process can have.
std::uint64_t max_ranges() {
  std::uint64_t number = 0;
  std::ifstream{"/proc/sys/vm/max_map_count"} >> number;
  return number;
}

bytes rounded(bytes size) {
  if (size == 0) return rank_stacks::default_size;
  if (size < rank_stacks::least_size) return rank_stacks::least_size;
  return (size + page - 1) / page * page;
}

}  // namespace

rank_stacks::rank_stacks(std::uint32_t ranks, bytes size) : ranks_{ranks}, size_{rounded(size)} {
  void* const memory = mmap(nullptr, total(), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED)
    throw out_of_memory{std::to_string(ranks) + " stacks of " + std::to_string(size_) + " bytes",
                        total(),
                        std::string{std::strerror(errno)} + "; run with a smaller --stack"};
  memory_ = static_cast<char*>(memory);
  madvise(memory_, total(), MADV_NOHUGEPAGE);  // each rank uses a few pages of its stack
  constexpr std::uint64_t other_ranges = 1000;
  is_protected_ = 2 * std::uint64_t{ranks} + other_ranges < max_ranges();
  for (std::uint32_t i = 0; i < ranks && is_protected_; ++i)
    is_protected_ = mprotect(memory_ + i * (gap + size_), gap, PROT_NONE) == 0;
}

rank_stacks::~rank_stacks() { munmap(memory_, total()); }

simt::fiber_stacks rank_stacks::memory() const { return {memory_ + gap, size_, gap + size_}; }

std::optional<std::uint32_t> rank_stacks::overflowed(void const* address) const {
  auto const offset =
      reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(memory_);
  if (offset >= total() || offset % (gap + size_) >= gap) return std::nullopt;
  return static_cast<std::uint32_t>(offset / (gap + size_));
}

}  // namespace quarry::inline QUARRY_ABI::mpi
