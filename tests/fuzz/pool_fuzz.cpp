// SPDX-License-Identifier: Apache-2.0
// Pools against a naive model: any options, any strategy, any sequence of calls, and resources that
// fail now and then.
//
// The first byte of the input says which pool it is. Link with libFuzzer, or with main.cpp.
#include "fuzz/pool_session.hpp"
#include "fuzz/stitched_session.hpp"
#include "fuzz/stream_session.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace quarry;
  using namespace quarry::test;
  byte_source from{data, size};
  switch (from.u8() % 16) {
    case 0:
    case 1:
      run_pool_over_any<fast_fit>(from);
      break;
    case 2:
    case 3:
      run_pool_over_any<fitting<segregated_fit>>(from);
      break;
    case 4:
    case 5:
      run_pool_over_any<fitting<oldest_best_fit>>(from);
      break;
    case 6:
    case 7:
      run_pool_over_any<fitting<lowest_best_fit>>(from);
      break;
    case 8:
      run_stitched<fast_fit>(from);
      break;
    case 9:
      run_stitched<fitting<segregated_fit>>(from);
      break;
    case 10:
      run_stitched<fitting<oldest_best_fit>>(from);
      break;
    case 11:
      run_stitched<fitting<lowest_best_fit>>(from);
      break;
    default:
      run_streams(from);
      break;
  }
  return 0;
}
