// SPDX-License-Identifier: Apache-2.0
// Integer division by zero on a GPU, which does not notice it.
#include "errors.hpp"
#include "format.hpp"
#include "progress.hpp"

namespace quarry::inline QUARRY_ABI::mpi {

/// What a shell reports of a program on the CPU that divides by zero: 128 + SIGFPE.
inline constexpr std::int32_t status_of_zero_divisor = 136;

}  // namespace quarry::inline QUARRY_ABI::mpi

/// Ends the program. quarry-mpicc calls it before a division by zero (compiler/zero_divisors.hpp).
/// `place`: the number of the division's place in the source.
extern "C" [[noreturn]] QUARRY_SLOW void quarry_mpi_divides_by_zero(std::uint32_t place) {
  using namespace quarry::mpi;
  if (begin_abort(status_of_zero_divisor)) {
    failure& first = the_world().first_failure;
    text_buffer text{first.text, failure::text_bytes};
    text.add("rank ");
    text.add_number(own_rank());
    text.add(" divides an integer by zero");
    first.place = place;
    first.length = static_cast<std::uint32_t>(text.length());
  }
  end_rank(status_of_zero_divisor);
}
