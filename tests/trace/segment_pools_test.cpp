// SPDX-License-Identifier: Apache-2.0
#include "trace/segment_pools.hpp"

#include "trace/pickle_writer.hpp"
#include "trace/trace_files.hpp"

#include "quarry/trace/select_allocator.hpp"

#include <algorithm>
#include <random>

namespace quarry::test {
namespace {

using pickles::action;
using pickles::dict;
using pickles::snapshot;
using trace::event;
using trace::event_kind;
using trace::pool_id;
using trace::segment_pools;

pickles::value id(std::int64_t first, std::int64_t second) {
  return std::vector<pickles::value>{first, second};
}
pickles::value segment(std::int64_t address, std::int64_t size, pickles::value const& pool,
                       std::vector<pickles::value> const& blocks = {}) {
  return dict({{"device", 0},
               {"address", address},
               {"total_size", size},
               {"segment_pool_id", pool},
               {"blocks", blocks}});
}
pickles::value block(std::int64_t address, std::int64_t size) {
  return dict({{"address", address},
               {"size", size},
               {"requested_size", size},
               {"state", "active_allocated"}});
}

/// `allocator kind address` of each event.
std::vector<std::string> lines_of(std::string const& bytes, char const* allocator = "all") {
  temporary_file const file{bytes};
  auto const source = trace::select_allocator(trace::open_trace(file.path()), allocator, "t");
  std::vector<std::string> lines;
  std::vector<event> events(3);
  while (std::size_t const count = source->read(events)) {
    for (std::size_t i = 0; i < count; ++i) {
      constexpr char const* kinds[] = {"alloc", "free", "fail", "reserve", "unreserve"};
      lines.push_back(source->names().allocators.name(events[i].allocator) + " " +
                      kinds[static_cast<int>(events[i].kind)] + " " +
                      std::to_string(events[i].address));
    }
  }
  EXPECT_EQ(source->problem_count(), 0u);
  return lines;
}

TEST(SegmentPools, EventsBelongToThePoolThatTheirSegmentHasAtTheEnd) {
  std::string const bytes =
      snapshot({{action("segment_alloc", 4096, 1024, 1), action("alloc", 4096, 100, 2),
                 action("segment_alloc", 8192, 1024, 3), action("alloc", 8192, 200, 4),
                 action("alloc", 8704, 300, 5), action("free_completed", 8192, 200, 6),
                 action("free_completed", 4096, 100, 7)}},
               {segment(4096, 1024, id(0, 0)), segment(8192, 1024, id(0, 3), {block(8704, 300)})});
  std::string const graph = "device 0, pool (0, 3) ";
  EXPECT_EQ(lines_of(bytes), (std::vector<std::string>{
                                 "device 0 reserve 4096", "device 0 alloc 4096",
                                 graph + "reserve 8192", graph + "alloc 8192", graph + "alloc 8704",
                                 graph + "free 8192", "device 0 free 4096"}));
  EXPECT_EQ(lines_of(bytes, "device 0"), lines_of(bytes)) << "a device has its private pools";
  EXPECT_EQ(lines_of(bytes, ""), lines_of(bytes)) << "two pools are one device";
  EXPECT_EQ(lines_of(bytes, "device 0, pool (0, 3)"),
            (std::vector<std::string>{graph + "reserve 8192", graph + "alloc 8192",
                                      graph + "alloc 8704", graph + "free 8192"}));
}

TEST(SegmentPools, AnAddressThatAnotherPoolHadBeforeBelongsToTheLaterPoolOnlyFromThenOn) {
  auto const lines = lines_of(
      snapshot({{action("segment_alloc", 4096, 1024, 1), action("alloc", 4096, 100, 2),
                 action("free_completed", 4096, 100, 3), action("segment_free", 4096, 1024, 4),
                 action("segment_alloc", 4096, 2048, 5), action("alloc", 5120, 100, 6)}},
               {segment(4096, 2048, id(7, 0), {block(5120, 100)})}));
  EXPECT_EQ(lines, (std::vector<std::string>{"device 0 reserve 4096", "device 0 alloc 4096",
                                             "device 0 free 4096", "device 0 unreserve 4096",
                                             "device 0, pool (7, 0) reserve 4096",
                                             "device 0, pool (7, 0) alloc 5120"}));
}

TEST(SegmentPools, SegmentsOlderThanTheHistoryHaveTheirPools) {
  // A ring lost the allocations at 4096 and 4608. The segment at 8192 is returned before the end.
  auto const lines =
      lines_of(snapshot({{action("free_completed", 4096, 100, 1), action("alloc", 4096, 50, 2),
                          action("free_completed", 8192, 60, 3, {{"pool_id", id(0, 9)}}),
                          action("segment_free", 8192, 512, 4, {{"pool_id", id(0, 9)}})}},
                        {segment(4096, 1024, id(0, 2), {block(4096, 50), block(4608, 70)})}));
  std::string const two = "device 0, pool (0, 2) ", nine = "device 0, pool (0, 9) ";
  EXPECT_EQ(lines, (std::vector<std::string>{
                       nine + "reserve 8192", two + "reserve 4096", two + "alloc 4096",
                       nine + "alloc 8192", two + "alloc 4608", two + "free 4096",
                       two + "alloc 4096", nine + "free 8192", nine + "unreserve 8192"}));
}

/// Newer versions of PyTorch write the pool into each entry.
TEST(SegmentPools, AnEntryMayStateItsPool) {
  auto const lines = lines_of(
      snapshot({{action("segment_alloc", 4096, 1024, 1, {{"pool_id", id(0, 1)}}),
                 action("alloc", 4096, 100, 2, {{"pool_id", id(0, 1)}}),
                 dict({{"action", "oom"}, {"size", 900}, {"time_us", 3}, {"pool_id", id(0, 1)}}),
                 action("free_completed", 4096, 100, 4, {{"pool_id", id(0, 1)}}),
                 action("segment_free", 4096, 1024, 5, {{"pool_id", id(0, 1)}}),
                 action("alloc", 65536, 1, 6, {{"pool_id", id(0, 0)}}),
                 action("alloc", 65540, 1, 6, {{"pool_id", 5}})}}));
  std::string const pool = "device 0, pool (0, 1) ";
  EXPECT_EQ(lines,
            (std::vector<std::string>{pool + "reserve 4096", pool + "alloc 4096", pool + "fail 0",
                                      pool + "free 4096", pool + "unreserve 4096",
                                      "device 0 alloc 65536", "device 0 alloc 65540"}));
}

TEST(SegmentPools, PoolsOfTwoDevicesAreApart) {
  auto const on_second =
      dict({{"device", 1}, {"address", 4096}, {"total_size", 1024}, {"segment_pool_id", id(0, 4)}});
  std::string const bytes =
      snapshot({{action("segment_alloc", 4096, 1024, 1), action("alloc", 4096, 1, 2)},
                {action("segment_alloc", 4096, 1024, 1), action("alloc", 4096, 1, 2)}},
               {segment(4096, 1024, id(0, 3)), on_second});
  EXPECT_EQ(lines_of(bytes, "device 0"),
            (std::vector<std::string>{"device 0, pool (0, 3) reserve 4096",
                                      "device 0, pool (0, 3) alloc 4096"}));
  EXPECT_EQ(lines_of(bytes, "device 1"),
            (std::vector<std::string>{"device 1, pool (0, 4) reserve 4096",
                                      "device 1, pool (0, 4) alloc 4096"}));
  EXPECT_NE(message_of([&] { (void)lines_of(bytes, ""); }).find("t has several devices. "),
            std::string::npos);
}

TEST(SegmentPools, FollowsSegmentsLikeATableOfPages) {
  constexpr std::uint64_t pages = 64;
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random{seed};
    struct step {
      bool reserves;
      std::uint64_t base, size;
    };
    std::vector<step> steps;
    std::vector<int> owner(pages, -1);  // of each page: the reserve, or none
    std::vector<bool> is_initial(pages, true);
    for (int i = 0; i < 40; ++i) {
      std::uint64_t const base = random() % pages, size = 1 + random() % (pages - base);
      bool const reserves = random() % 2 == 0;
      steps.push_back({reserves, base, size});
      for (std::uint64_t page = base; page < base + size; ++page) {
        owner[page] = reserves ? i : -1;
        is_initial[page] = is_initial[page] && !reserves;
      }
    }
    segment_pools pools;
    for (step const& each : steps)
      each.reserves ? pools.reserve(each.base, each.size, std::nullopt)
                    : pools.unreserve(each.base, each.size);
    for (std::uint64_t page = 0; page < pages; ++page) {
      if (owner[page] >= 0) pools.add_final(page, 1, {owner[page] + 1, 0});
      if (is_initial[page]) pools.add_final(page, 1, {0, 5});
    }
    pools.restart();
    std::vector<int> held(pages, -1);
    for (int i = 0; i < 40; ++i) {
      step const& each = steps[static_cast<std::size_t>(i)];
      each.reserves ? pools.reserve(each.base, each.size, std::nullopt)
                    : pools.unreserve(each.base, each.size);
      for (std::uint64_t page = each.base; page < each.base + each.size; ++page)
        held[page] = each.reserves ? i : -1;
      for (std::uint64_t page = 0; page < pages; ++page) {
        int const by = held[page];
        bool const survives = by >= 0 && std::ranges::find(owner, by) != owner.end();
        pool_id const expected = survives                     ? pool_id{by + 1, 0}
                                 : by < 0 && is_initial[page] ? pool_id{0, 5}
                                                              : pool_id{};
        ASSERT_EQ(pools.pool_of(page), expected) << "step " << i << ", page " << page;
      }
    }
  }
}

}  // namespace
}  // namespace quarry::test
