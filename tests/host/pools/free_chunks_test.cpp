// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/pools/free_chunks.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace quarry::test {

using namespace detail;
namespace free_chunks_test {

template <class Index>
struct FreeChunks : testing::Test {
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
TYPED_TEST_SUITE(FreeChunks, indexes);

TYPED_TEST(FreeChunks, FindsNothingInAnEmptyIndex) {
  EXPECT_EQ(this->index.find(this->table, 1), no_chunk);
  EXPECT_EQ(this->index.largest(this->table), 0u);
}

TYPED_TEST(FreeChunks, RefusesChunksThatAreTooSmall) {
  this->put(1000);
  EXPECT_EQ(this->index.find(this->table, 1001), no_chunk);
  EXPECT_NE(this->index.find(this->table, 1000), no_chunk);
  EXPECT_EQ(this->index.largest(this->table), 1000u);
}

/// Compares the index with a multiset of sizes. A chunk that the index finds fits and is in the
/// multiset. The index finds no chunk only if no chunk is larger by a list's width.
TYPED_TEST(FreeChunks, AgreesWithAMultisetOfSizes) {
  std::mt19937_64 random{5};
  std::multiset<bytes> sizes;
  for (int step = 0; step < 20'000; ++step) {
    bytes const size = (random() >> (random() % 44 + 19)) + 1;
    if (random() % 2 == 0) {
      this->put(size);
      sizes.insert(size);
      continue;
    }
    chunk_id const id = this->index.find(this->table, size);
    if (id == no_chunk) {
      ASSERT_EQ(sizes.lower_bound(size + size / 32 + 1), sizes.end());
      continue;
    }
    ASSERT_GE(this->table[id].size(), size);
    if (!std::is_same_v<TypeParam, segregated_fit>) {
      ASSERT_EQ(this->table[id].size(), *sizes.lower_bound(size));
    }
    ASSERT_TRUE(this->index.contains(this->table, id));
    sizes.erase(sizes.find(this->table[id].size()));
    this->index.remove(this->table, id);
    this->table.remove(id);
  }
}

}  // namespace free_chunks_test
}  // namespace quarry::test
