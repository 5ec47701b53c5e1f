// SPDX-License-Identifier: Apache-2.0
// Compares pools with a naive model: any options, any strategy, any sequence of calls, and
// resources that fail sometimes.
//
// The first byte of the input selects the pool. Link with libFuzzer, or with main.cpp.
#include "fuzz/pool_session.hpp"
#include "fuzz/stitched_session.hpp"
#include "fuzz/stream_session.hpp"
#include "quarry/host/pools/placements.hpp"

#include <tuple>

namespace {

using namespace quarry;

/// The placements of the table: two inputs of four run a pool of one, one of four a stitched pool.
constexpr std::size_t placements = std::tuple_size_v<decltype(named_placements)>;

/// Calls `use.template operator()<Placement>()` for row `number` of the table.
template <class Use>
void with_placement_of_row(std::size_t number, Use const& use) {
  std::size_t row = 0;
  std::apply(
      [&]<placement... Placement>(named_placement<Placement> const&...) {
        ((row++ == number ? use.template operator()<Placement>() : void()), ...);
      },
      named_placements);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace quarry::test;
  byte_source input{data, size};
  std::size_t const choice = input.u8() % (4 * placements);
  if (choice < 2 * placements) {
    with_placement_of_row(choice / 2,
                          [&]<class Placement>() { run_pool_over_any<Placement>(input); });
  } else if (choice < 3 * placements) {
    with_placement_of_row(choice - 2 * placements,
                          [&]<class Placement>() { run_stitched<Placement>(input); });
  } else {
    run_streams(input);
  }
  return 0;
}
