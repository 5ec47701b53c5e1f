// SPDX-License-Identifier: Apache-2.0
// Compares pools with a naive model: any options, any strategy, any sequence of calls, and
// resources that fail sometimes.
//
// The first byte of the input selects the pool. Link with libFuzzer, or with main.cpp.
#include "fuzz/pool_session.hpp"
#include "fuzz/stitched_session.hpp"
#include "fuzz/stream_session.hpp"

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  using namespace quarry;
  using namespace quarry::test;
  byte_source input{data, size};
  switch (input.u8() % 16) {
    case 0:
    case 1:
      run_pool_over_any<fast_fit>(input);
      break;
    case 2:
    case 3:
      run_pool_over_any<chunk_arena<segregated_fit>>(input);
      break;
    case 4:
    case 5:
      run_pool_over_any<chunk_arena<oldest_best_fit>>(input);
      break;
    case 6:
    case 7:
      run_pool_over_any<chunk_arena<lowest_best_fit>>(input);
      break;
    case 8:
      run_stitched<fast_fit>(input);
      break;
    case 9:
      run_stitched<chunk_arena<segregated_fit>>(input);
      break;
    case 10:
      run_stitched<chunk_arena<oldest_best_fit>>(input);
      break;
    case 11:
      run_stitched<chunk_arena<lowest_best_fit>>(input);
      break;
    default:
      run_streams(input);
      break;
  }
  return 0;
}
