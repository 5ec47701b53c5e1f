// SPDX-License-Identifier: Apache-2.0
#include "quarry/device/detail/heap_internals.hpp"

#include "quarry/device/heap.hpp"

#include <gtest/gtest.h>

namespace quarry {

using namespace detail;
namespace heap_internals_test {

struct heap_without_faults {};

TEST(HeapInternals, FreeAndReport) {
  heap const owner{{.bytes = 1_MiB, .backend_kind = backend::cpu}};
  heap_internals::free_now(owner.ref(), owner.ref().malloc(100));
  EXPECT_TRUE(owner.live_allocations().empty());
  heap_internals::report(owner.ref(), fault_kind::table_full, 7, nullptr, 3);
  EXPECT_EQ(owner.fault_count(fault_kind::table_full), 3u);
  EXPECT_EQ(owner.first_fault()->size, 7u);
}

TEST(HeapInternals, KnowWhichHeapsTakeReports) {
  EXPECT_TRUE(heap_internals::takes_reports<heap_ref>);
  EXPECT_FALSE(heap_internals::takes_reports<heap_without_faults>);
}

}  // namespace heap_internals_test
}  // namespace quarry
