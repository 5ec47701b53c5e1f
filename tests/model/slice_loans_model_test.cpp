// SPDX-License-Identifier: Apache-2.0
// Runs the calls of a lender, of borrowers and of threads that free in every order. A call on the
// tables holds their mutex, so it is a step. A loan has several: the lender lends, the borrower
// lays out its block, and a loan that ends is passed on or returns to the lender.
#include "support/explore.hpp"
#include "support/fibers_allowed.hpp"

#include "quarry/host/detail/slices.hpp"
#include "quarry/simt/atomic.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace quarry::test {

using namespace detail;
namespace slice_loans_model_test {

constexpr bytes size = 4096;  // so that a block has few slices
constexpr std::uint64_t first_page = std::uint64_t{3} << 32;
constexpr int slices_of_block = slice_block::size / size;

/// A pool's slices, and its map pages without memory.
struct pool_of_slices {
  explicit pool_of_slices(std::size_t maximum, std::uint64_t number) : max_pages{maximum} {
    blocks.share(mutex, number);
    blocks.begin();
  }
  struct map_pages {
    pool_of_slices& owner;
    std::optional<std::uint64_t> allocate() const {
      if (owner.pages.size() == owner.max_pages) return std::nullopt;
      std::uint64_t base = first_page;
      while (owner.pages.count(base) != 0) base += slice_block::size;
      owner.pages.insert(base);
      return base;
    }
    void deallocate(std::uint64_t base) const {
      if (owner.pages.erase(base) != 1) owner.has_wrong_page = true;
    }
  };

  mutex_held_at_fork mutex;
  std::size_t max_pages;
  std::set<std::uint64_t> pages;
  bool has_wrong_page = false;
  returned_slices returned;
  slices blocks{16};
};

/// A lender with memory, and pools that have none.
class loans {
 public:
  loans() {
    pools_.push_back(std::make_unique<pool_of_slices>(1, 1));
    for (std::uint64_t number : {2, 3})
      pools_.push_back(std::make_unique<pool_of_slices>(0, number));
    for (int i = 0; i < slices_of_block; ++i) (void)lender().blocks.allocate_slowly(size, pages(0));
    while (allocate_one(0)) continue;
  }

  /// Allocates up to `count` slices as the owner of a pool. Stops if no slice is free.
  void allocate(std::size_t owner, int count = 1) {
    for (bool has_found = true; has_found && count != 0; --count) has_found = allocate_one(owner);
    simt::interleave();
  }
  /// The owner frees one of its slices.
  void free_own(std::size_t owner) {
    auto const found = any_of(owner);
    if (!found) return;
    slices& source = pools_[owner]->blocks;
    slice_block* const block = source.find_block(*found);
    if (block == nullptr || block->find_base(*found).slice.is_free())
      return report("the owner does not find its slice");
    in_use_.erase(*found);
    if (source.deallocate(*block, *found, block->find_base(*found).number))
      source.flush(*block, pages(owner));
    simt::interleave();
  }
  /// Another thread frees up to `count` slices of a pool.
  void free_for(std::size_t owner, int count) {
    for (; count != 0; --count) {
      auto const found = any_of(owner);
      if (!found) return;
      mark(*found);
    }
    simt::interleave();
  }
  /// The owner frees a group of slices that others have marked.
  void take_returned(std::size_t owner) {
    pool_of_slices& own = *pools_[owner];
    (void)own.blocks.take_returned(
        own.returned,
        [&](slice_block& block, std::uint32_t first, std::uint64_t bits) {
          while (bits != 0) {
            auto const freed = own.blocks.deallocate(block, first, bits);
            bits &= ~freed.bits;
            if (!freed.has_work && bits != 0) return report("a marked slice was free");
            if (freed.has_work) own.blocks.flush(block, pages(owner));
          }
        },
        [&](slice_table::freed_elsewhere const& freed) {
          if (freed.refused != 0) report("a marked slice was refused");
        });
    simt::interleave();
  }
  /// `borrower` borrows a map page of `owner`, if that has one to lend.
  void borrow(std::size_t owner, std::size_t borrower) {
    std::size_t groups = 4;
    slice_block* const lent = pools_[owner]->blocks.lend(pools_[owner]->returned, groups);
    simt::interleave();
    if (lent == nullptr) return;
    ++borrowed_;
    pools_[borrower]->blocks.borrow(*lent, size);
    simt::interleave();
  }
  /// The same, but the borrower has no memory for the bookkeeping.
  void borrow_in_vain(std::size_t owner) {
    std::size_t groups = 4;
    slice_block* const lent = pools_[owner]->blocks.lend(pools_[owner]->returned, groups);
    simt::interleave();
    if (lent != nullptr) lent->lender->take_back(*lent);
    simt::interleave();
  }
  void release(std::size_t owner) {
    (void)pools_[owner]->blocks.release(pages(owner));
    simt::interleave();
  }

  /// Frees all. Then the lender uses its memory again, before and after all memory was returned.
  /// Describes the first problem.
  [[nodiscard]] std::string check() {
    audit();
    for (int round = 0; round < 2; ++round) {
      free_all();
      for (int i = 0; i <= slices_of_block; ++i) (void)allocate_one(0);
      free_all();
      return_all();
    }
    return problem_;
  }
  [[nodiscard]] int borrowed() const { return borrowed_; }

 private:
  [[nodiscard]] bool allocate_one(std::size_t owner) {
    slices& source = pools_[owner]->blocks;
    slice_list& list = source.list_of(size);
    auto const found = !list.is_empty() ? std::optional{list.take(size)}
                                        : source.allocate_slowly(size, pages(owner));
    if (!found) return false;
    auto const next = in_use_.lower_bound(*found);
    bool const overlaps = (next != in_use_.end() && next->first < *found + size) ||
                          (next != in_use_.begin() && std::prev(next)->first + size > *found);
    if (overlaps) report("two allocations overlap");
    in_use_.emplace(*found, owner);
    return true;
  }
  [[nodiscard]] pool_of_slices& lender() { return *pools_[0]; }
  [[nodiscard]] pool_of_slices::map_pages pages(std::size_t owner) { return {*pools_[owner]}; }
  [[nodiscard]] std::optional<std::uint64_t> any_of(std::size_t owner) const {
    for (auto const& [base, pool] : in_use_) {
      if (pool == owner) return base;
    }
    return std::nullopt;
  }
  /// Finds a slice as a reader does, by the map of the pool that has the map page.
  void mark(std::uint64_t base) {
    std::size_t const owner = in_use_.at(base);
    in_use_.erase(base);
    slice_block* block = lender().blocks.map()->look(base);
    if (block != nullptr) block = block->for_readers();
    auto const found = block == nullptr ? std::optional<slice_block::found>{} : block->look(base);
    if (!found || found->slice.is_free()) return report("a reader does not find a slice in use");
    if (block->borrower() != (owner == 0 ? 0 : owner + 1))
      report("a reader finds another borrower");
    if (!pools_[owner]->returned.add(*block, found->number)) report("a free was refused");
  }
  void free_all() {
    while (!in_use_.empty()) mark(in_use_.begin()->first);
    for (std::size_t i = 0; i < pools_.size(); ++i) {
      while (!pools_[i]->returned.is_empty()) take_returned(i);
    }
    audit();
  }
  void return_all() {
    for (int round = 0; round < 2; ++round) {
      for (std::size_t i = pools_.size(); i-- != 0;) release(i);
    }
    audit();
    for (auto const& each : pools_) {
      if (each->blocks.in_use() != 0) report("slices are still in use");
      if (each->blocks.blocks() != 0) report("a pool still has blocks");
      if (each->blocks.find_block(first_page) != nullptr) report("a pool still finds a block");
      if (!each->pages.empty()) report("a map page was lost");
      if (each->has_wrong_page) report("a map page returned that the pool had not taken");
    }
  }
  void audit() {
    for (auto const& each : pools_) {
      auto const problems = each->blocks.audit();
      if (!problems.empty()) report(problems.front());
    }
  }
  void report(std::string const& problem) {
    if (problem_.empty()) problem_ = problem;
  }

  std::vector<std::unique_ptr<pool_of_slices>> pools_;
  std::map<std::uint64_t, std::size_t> in_use_;  // address -> number of the pool
  std::string problem_;
  int borrowed_ = 0;
};

/// Explores lanes of calls. Some schedules must lend memory at least `min_borrowed` times.
void explore_loans(std::function<std::vector<std::function<void()>>(loans&)> const& make,
                   std::uint32_t preemptions, int min_borrowed) {
  QUARRY_TEST_USES_FIBERS();
  std::optional<loans> all;
  int borrowed = 0;
  expect_all_schedules_hold(
      [&] {
        all.emplace();
        scenario run;
        run.lanes = make(*all);
        run.check = [&] {
          borrowed = std::max(borrowed, all->borrowed());
          return all->check();
        };
        return run;
      },
      {.preemptions = preemptions});
  EXPECT_GE(borrowed, min_borrowed);
}

/// Another thread frees all slices of the lender, which works meanwhile, and a pool borrows.
TEST(SliceLoansModel, ALenderWorksWhileItsMemoryIsLent) {
  explore_loans(
      [](loans& all) -> std::vector<std::function<void()>> {
        return {[&] {
                  all.free_for(0, slices_of_block - 1);
                  all.free_for(0, 2);
                },
                [&] {
                  all.allocate(0);
                  all.free_own(0);
                  all.take_returned(0);
                  all.release(0);
                },
                [&] {
                  all.borrow(0, 1);
                  all.allocate(1, 2);
                  all.free_own(1);
                  all.release(1);
                }};
      },
      8, 1);
}

/// A pool borrows from the lender, another pool from that pool, and the lender from both.
TEST(SliceLoansModel, ALoanIsPassedOn) {
  explore_loans(
      [](loans& all) -> std::vector<std::function<void()>> {
        all.free_for(0, slices_of_block);
        return {[&] {
                  all.borrow(0, 1);
                  all.allocate(1, slices_of_block);
                  all.take_returned(1);
                  all.release(1);
                },
                [&] {
                  all.free_for(1, slices_of_block);
                  all.borrow(1, 2);
                  all.allocate(2, slices_of_block);
                  all.free_for(2, slices_of_block);
                },
                [&] {
                  all.borrow(2, 0);
                  all.allocate(0, 2);
                  all.free_own(0);
                  all.release(0);
                }};
      },
      5, 3);
}

/// A loan ends at once, because the borrower has no memory for its bookkeeping.
TEST(SliceLoansModel, ALoanThatFailsReturns) {
  explore_loans(
      [](loans& all) -> std::vector<std::function<void()>> {
        all.free_for(0, slices_of_block);
        return {[&] {
                  all.borrow_in_vain(0);
                  all.borrow_in_vain(1);
                  all.release(1);
                },
                [&] {
                  all.allocate(0);
                  all.free_for(0, 1);
                  all.release(0);
                },
                [&] {
                  all.borrow(0, 2);
                  all.allocate(2, slices_of_block);
                  all.free_for(2, slices_of_block);
                }};
      },
      5, 1);
}

}  // namespace slice_loans_model_test
}  // namespace quarry::test
