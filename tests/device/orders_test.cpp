// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/detail/orders.hpp"

#include <gtest/gtest.h>

namespace quarry {

using namespace detail;
namespace orders_test {

TEST(Orders, AreNotRelaxedWithoutMutants) {
#ifndef QUARRY_MUTANTS
  EXPECT_FALSE(is_mutant("R"));
#endif
  EXPECT_FALSE(is_mutant(""));
}

TEST(Orders, AreTheDocumentedOrders) {
  EXPECT_EQ(slice_release_order, simt::release);
  EXPECT_EQ(slice_claim_order, simt::acquire);
  EXPECT_EQ(block_count_order, simt::acq_rel);
  EXPECT_EQ(block_reserve_order, simt::acquire);
  EXPECT_EQ(block_open_order, simt::acq_rel);
  EXPECT_EQ(ticket_claim_order, simt::acquire);
  EXPECT_EQ(tree_insert_order, simt::release);
  EXPECT_EQ(tree_claim_order, simt::acquire);
  EXPECT_EQ(segment_count_order, simt::acq_rel);
  EXPECT_EQ(segment_reserve_order, simt::acquire);
  EXPECT_EQ(superblock_leave_order, simt::acq_rel);
  EXPECT_EQ(superblock_count_order, simt::acq_rel);
  EXPECT_EQ(map_insert_order, simt::release);
  EXPECT_EQ(map_find_order, simt::acquire);
  EXPECT_EQ(header_change_order, simt::acq_rel);
  EXPECT_EQ(header_load_order, simt::acquire);
}

TEST(Orders, OfFencedAccessesAreOrdinaryOrdersOnTheCpu) {
  EXPECT_EQ(simt::fenced_release, simt::release);
  EXPECT_EQ(simt::fenced_acquire, simt::acquire);
  EXPECT_EQ(simt::fenced_acq_rel, simt::acq_rel);
}

}  // namespace orders_test
}  // namespace quarry
