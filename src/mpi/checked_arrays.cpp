// SPDX-License-Identifier: Apache-2.0
// The arrays of programs that quarry-mpicc --check-arrays compiled, for tests of its interleaving.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

/// Of an array of three ranks, the program's rank is the one in the middle. Every third array is
/// contiguous.
constexpr unsigned long shared_lanes = 3;
constexpr unsigned char untouched = 0xa5;

/// The bytes before the first row.
struct alignas(16) header {
  unsigned long rows;
};

void end(char const* problem) {
  std::fprintf(stderr, "an array of three ranks: %s\n", problem);
  std::abort();
}

}  // namespace

extern "C" {

/// As quarry_mpi_allocate_array. The array is that of a rank between two others, whose elements
/// quarry_mpi_checked_free_array compares.
void* quarry_mpi_checked_allocate_array(unsigned long count, unsigned long size, unsigned width,
                                        unsigned is_clear, unsigned long* distance) {
  static std::atomic<unsigned> arrays{0};
  unsigned long const lanes = arrays++ % 3 == 2 ? 1 : shared_lanes;
  *distance = width * lanes;
  if (size != 0 && count > (~0ul >> 8) / size) return nullptr;
  unsigned long const rows = (count * size + width - 1) / width;
  auto* const memory =
      static_cast<unsigned char*>(std::malloc(sizeof(header) + rows * lanes * width + 16));
  if (memory == nullptr) return nullptr;
  new (memory) header{rows};
  unsigned char* const first = memory + sizeof(header) + lanes / 2 * width;
  std::memset(memory + sizeof(header), untouched, rows * lanes * width);
  for (unsigned long i = 0; is_clear != 0 && i < rows; ++i)
    std::memset(first + i * lanes * width, 0, width);
  return first;
}

void quarry_mpi_checked_free_array(void* first, unsigned long distance, unsigned width) {
  if (first == nullptr) return;
  unsigned long const lanes = distance / width;
  if (distance % width != 0 || (lanes != 1 && lanes != shared_lanes))
    end("the distance of its elements was lost");
  unsigned char* const first_row = static_cast<unsigned char*>(first) - lanes / 2 * width;
  unsigned char* const memory = first_row - sizeof(header);
  unsigned long const rows = reinterpret_cast<header*>(memory)->rows;
  for (unsigned long i = 0; i < rows * lanes * width; ++i)
    if (i / width % lanes != lanes / 2 && first_row[i] != untouched)
      end("an element of another rank has changed");
  std::free(memory);
}

}  // extern "C"
