// SPDX-License-Identifier: Apache-2.0
// The mutex of slices that several threads use: ThreadSanitizer reports a race if a call does not
// hold it. Also how freed slices of other threads reach quick lists and blocks.
#include "quarry/host/detail/slices.hpp"

#include "host/pools/run_unordered.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace quarry::test {

using namespace detail;
namespace shared_slices_test {

/// The slices of a pool that shares them, in map pages without memory.
struct shared_pool {
  struct map_pages {
    std::uint64_t* next;
    [[nodiscard]] std::optional<std::uint64_t> allocate() const {
      return *next == 0 ? std::nullopt : std::optional{*next += slice_block::size};
    }
    void deallocate(std::uint64_t) const {}
  };
  /// `first`: the address before the first map page; 0 if the pool has no memory.
  shared_pool(std::uint64_t number, std::uint64_t first) : next{first} {
    blocks.share(mutex, number);
    blocks.begin();
  }
  [[nodiscard]] map_pages pages() { return {&next}; }
  /// Allocates until no block has a free slice.
  [[nodiscard]] std::vector<std::uint64_t> allocate_all(bytes size) {
    std::vector<std::uint64_t> result;
    slice_list& list = blocks.list_of(size);
    for (std::optional<std::uint64_t> found; true; result.push_back(*found)) {
      found = list.is_empty() ? blocks.allocate_from_blocks(size) : std::optional{list.take(size)};
      if (!found) return result;
    }
  }
  /// Other threads free slices.
  void mark(std::vector<std::uint64_t> const& freed) {
    for (std::uint64_t const base : freed) {
      slice_block& block = *blocks.find_block(base);
      EXPECT_TRUE(returned.add(block, block.find_base(base).number));
    }
  }
  /// Another thread takes a map page for a loan.
  slice_block* lend() {
    std::size_t groups = 1000;
    return blocks.lend(returned, groups);
  }

  mutex_held_at_fork mutex;
  std::uint64_t next;
  returned_slices returned;
  slices blocks{16};
};

constexpr bytes size = 1024;

/// A pool with blocks of its own and a borrowed one. Other threads have freed all slices, but the
/// pool has not heard of that yet.
struct lender_and_borrower {
  shared_pool lender{1, std::uint64_t{3} << 32}, tested{2, std::uint64_t{4} << 32};

  lender_and_borrower() {
    for (shared_pool* const each : {&lender, &tested}) {
      std::vector<std::uint64_t> own;
      for (bytes i = 0; i <= 2 * slice_block::size / size; ++i) {
        if (auto const found = each->blocks.allocate_slowly(size, each->pages()))
          own.push_back(*found);
        auto const others = each->allocate_all(size);
        own.insert(own.end(), others.begin(), others.end());
      }
      each->mark(own);
    }
    slice_block* const lent = lender.lend();
    if (lent == nullptr) throw std::logic_error{"the lender lends nothing"};
    tested.blocks.borrow(*lent, size);
    tested.mark(tested.allocate_all(size));
  }
};

using named_call = std::pair<char const*, std::size_t (*)(shared_pool&)>;
/// What the owner may call while other threads borrow. The results keep the compiler from dropping
/// the calls.
constexpr named_call calls_of_owner[] = {
    {"release", [](shared_pool& pool) -> std::size_t { return pool.blocks.release(pool.pages()); }},
    {"is_due", [](shared_pool& pool) -> std::size_t { return pool.blocks.is_due(size); }},
    {"audit", [](shared_pool& pool) { return pool.blocks.audit().size(); }},
    {"blocks", [](shared_pool& pool) { return pool.blocks.blocks(); }},
    {"in_use", [](shared_pool& pool) { return pool.blocks.in_use(); }},
    {"footprint", [](shared_pool& pool) -> std::size_t { return pool.blocks.footprint(); }},
    {"allocate_slowly",
     [](shared_pool& pool) -> std::size_t {
       return pool.blocks.allocate_slowly(size, pool.pages()).has_value();
     }},
    {"allocate_from_blocks",
     [](shared_pool& pool) -> std::size_t {
       return pool.blocks.allocate_from_blocks(size).has_value();
     }},
    {"take_returned",
     [](shared_pool& pool) -> std::size_t {
       return pool.blocks.take_returned(
           pool.returned, [](slice_block&, std::uint32_t, std::uint64_t) {},
           [](slice_table::freed_elsewhere const&) {});
     }},
    {"count_freed_elsewhere",
     [](shared_pool& pool) {
       std::size_t result = 0;
       pool.blocks.count_freed_elsewhere(
           [&](slice_table::freed_elsewhere const& freed) { result = freed.requested; });
       return result;
     }},
};

/// Each call of the owner, before and after another thread that borrows all that it can.
TEST(SharedSlices, AreUsedByOneThreadAtATime) {
  for (named_call const& tested : calls_of_owner) {
    for (bool const lends_first : {true, false}) {
      lender_and_borrower pools;
      auto const lend = [&] {
        while (slice_block* const lent = pools.tested.lend()) {
          if (lent->lender != &pools.tested.blocks) lent->lender->take_back(*lent);
        }
      };
      std::size_t volatile result = 0;
      auto const call = [&] { result = tested.second(pools.tested); };
      SCOPED_TRACE(tested.first);
      lends_first ? run_unordered(lend, call) : run_unordered(call, lend);
      EXPECT_TRUE(pools.lender.blocks.audit().empty());
    }
  }
}

/// Two borrowers' calls on the lender: the end of a loan, and a loan.
TEST(SharedSlices, AreLentAndTakenBackByOneThreadAtATime) {
  lender_and_borrower pools;
  slice_block* ended = pools.tested.lend();
  while (ended != nullptr && ended->lender == &pools.tested.blocks) ended = pools.tested.lend();
  ASSERT_NE(ended, nullptr);
  run_unordered([&] { ended->lender->take_back(*ended); },
                [&] { EXPECT_EQ(pools.lender.lend(), ended); });
}

/// A group of 4 KiB slices would fill its quick list, and the list would have to return half of it.
TEST(SharedSlices, GoIntoTheBlockIfTheirQuickListHasNoRoom) {
  for (bytes const tested : {64u, 1024u, 4096u}) {
    bytes const of_block = slice_block::size / tested;
    shared_pool pool{1, std::uint64_t{3} << 32};
    std::vector<std::uint64_t> own;
    for (bytes i = 0; own.empty(); ++i) {
      ASSERT_LE(i, of_block);
      if (auto const found = pool.blocks.allocate_slowly(tested, pool.pages()))
        own.push_back(*found);
    }
    auto const others = pool.allocate_all(tested);
    own.insert(own.end(), others.begin(), others.end());
    ASSERT_EQ(own.size(), of_block);
    pool.mark(own);
    std::size_t taken = 0;
    bytes put = 0;
    while (!pool.returned.is_empty()) {
      pool.blocks.take_returned(
          pool.returned,
          [&](slice_block& block, std::uint32_t first, std::uint64_t bits) {
            auto const freed = pool.blocks.deallocate(block, first, bits);
            EXPECT_EQ(freed.bits, bits);
            EXPECT_FALSE(freed.has_work);
            taken += static_cast<std::size_t>(std::popcount(bits));
          },
          [&](slice_table::freed_elsewhere const& freed) {
            EXPECT_EQ(freed.refused, 0u);
            put += freed.requested;
          });
      EXPECT_TRUE(pool.blocks.audit().empty());
    }
    EXPECT_EQ(taken, std::min<bytes>(slice_list_room::size, of_block) - 1);
    EXPECT_EQ(put, (of_block - taken) * tested);
    EXPECT_EQ(pool.blocks.in_use(), 0u);
    EXPECT_EQ(pool.allocate_all(tested).size(), of_block);
  }
}

}  // namespace shared_slices_test
}  // namespace quarry::test
