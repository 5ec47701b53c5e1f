// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/placement.hpp"

#include "quarry/host/detail/owned_arena.hpp"
#include "quarry/host/pools/placements.hpp"

#include <gtest/gtest.h>

namespace quarry::test {

using namespace detail;
namespace placement_test {

struct without_carve : chunk_arena<segregated_fit> {
  using chunk_arena::chunk_arena;
  void carve() = delete;
};

static_assert(std::apply(
    []<placement... Placement>(named_placement<Placement> const&...) {
      return (page_placement<Placement> && ...);
    },
    named_placements));
static_assert(placement<without_carve> && !page_placement<without_carve>);
static_assert(!placement<owned_arena>, "a pool does not know owners");
static_assert(!placement<segregated_fit>, "an index places nothing by itself");

TEST(Placement, ZeroGrantedBytesMeanNoChunk) {
  EXPECT_FALSE(chunk_sizes{});
  EXPECT_TRUE((chunk_sizes{0, 16})) << "an allocation of 0 bytes has its own address";
}

}  // namespace placement_test
}  // namespace quarry::test
