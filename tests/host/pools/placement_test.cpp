// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/placement.hpp"

#include "quarry/host/detail/owned_arena.hpp"
#include "quarry/host/pools/caching_arena.hpp"

#include <gtest/gtest.h>

namespace quarry::test {

using namespace detail;
namespace placement_test {

struct without_carve : chunk_arena<segregated_fit> {
  using chunk_arena::chunk_arena;
  void carve() = delete;
};

static_assert(page_placement<chunk_arena<oldest_best_fit>>);
static_assert(page_placement<chunk_arena<lowest_best_fit>>);
static_assert(page_placement<chunk_arena<segregated_fit>>);
static_assert(page_placement<fast_fit>);
static_assert(placement<without_carve> && !page_placement<without_carve>);
static_assert(!placement<owned_arena>, "a pool does not know owners");
static_assert(!placement<segregated_fit>, "an index places nothing by itself");

TEST(Placement, ZeroGrantedBytesMeanNoChunk) {
  EXPECT_FALSE(chunk_sizes{});
  EXPECT_TRUE((chunk_sizes{0, 16})) << "an allocation of 0 bytes has its own address";
}

}  // namespace placement_test
}  // namespace quarry::test
