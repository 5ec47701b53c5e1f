// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/free_chunks.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace quarry::test {

using namespace detail;
namespace free_index_test {

template <class Index>
struct FreeIndex : testing::Test {
  chunk_table table;
  Index index;

  chunk_id put(bytes size) {
    table.reserve();
    index.reserve(1);
    chunk_id const id = table.add(next_ += 1 << 20, size, no_chunk, no_chunk);
    index.insert(table, id);
    return id;
  }

 private:
  std::uint64_t next_ = 0;
};
using indexes = testing::Types<oldest_best_fit, lowest_best_fit, segregated_fit>;
TYPED_TEST_SUITE(FreeIndex, indexes);

TYPED_TEST(FreeIndex, FindsNothingInNothing) {
  EXPECT_EQ(this->index.find(this->table, 1), no_chunk);
  EXPECT_EQ(this->index.largest(this->table), 0u);
}

TYPED_TEST(FreeIndex, RefusesWhatIsTooSmall) {
  this->put(1000);
  EXPECT_EQ(this->index.find(this->table, 1001), no_chunk);
  EXPECT_NE(this->index.find(this->table, 1000), no_chunk);
  EXPECT_EQ(this->index.largest(this->table), 1000u);
}

/// Against a multiset of sizes: what is found fits and is there; nothing is found only if nothing
/// is a list's width larger.
TYPED_TEST(FreeIndex, AgreesWithAMultisetOfSizes) {
  std::mt19937_64 random{5};
  std::multiset<bytes> reserved;
  for (int step = 0; step < 20'000; ++step) {
    bytes const size = (random() >> (random() % 44 + 19)) + 1;
    if (random() % 2 == 0) {
      this->put(size);
      reserved.insert(size);
      continue;
    }
    chunk_id const id = this->index.find(this->table, size);
    if (id == no_chunk) {
      ASSERT_EQ(reserved.lower_bound(size + size / 32 + 1), reserved.end());
      continue;
    }
    ASSERT_GE(this->table[id].size(), size);
    if (!std::is_same_v<TypeParam, segregated_fit>) {
      ASSERT_EQ(this->table[id].size(), *reserved.lower_bound(size));
    }
    ASSERT_TRUE(this->index.contains(this->table, id));
    reserved.erase(reserved.find(this->table[id].size()));
    this->index.remove(this->table, id);
    this->table.remove(id);
  }
}

}  // namespace free_index_test
}  // namespace quarry::test
