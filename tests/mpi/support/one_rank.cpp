// SPDX-License-Identifier: Apache-2.0
// What the launcher and the program define, for tests without either.
#include "mpi/support/one_rank.hpp"

quarry::mpi::launch_layout quarry_mpi_layout;

extern "C" void quarry_mpi_write(std::uint32_t, std::uint8_t stream, char const* text,
                                 std::uint64_t length) {
  auto* const world = quarry::mpi_test::one_rank::current;
  world->output[stream].append(stream == 3 ? "f" : text, stream == 3 ? 1 : length);
}
extern "C" int quarry_mpi_main(int, char**, char**) { return 0; }
extern "C" void quarry_mpi_init_record(char*) {}

namespace quarry::inline QUARRY_ABI::mpi {
void find_deadlock(std::uint64_t) {}
}  // namespace quarry::inline QUARRY_ABI::mpi
