// SPDX-License-Identifier: Apache-2.0
// Snapshots of older versions of PyTorch, whose blocks have neither addresses nor requested sizes.
#include "trace/snapshot_blocks.hpp"

#include "quarry/trace/replay.hpp"
#include "trace/pickle_writer.hpp"
#include "trace/trace_files.hpp"

#include <random>

namespace quarry::test {
namespace snapshot_blocks_test {

using pickles::dict;
using trace::event;
using trace::event_kind;
using values = std::vector<pickles::value>;

/// A block as PyTorch 2.0 writes it. The address in the history may be missing.
pickles::value old_block(std::int64_t size, std::int64_t requested, char const* state) {
  values const history{dict({{"addr", 0}, {"real_size", requested}, {"frames", values{}}}),
                       dict({{"addr", 0}, {"real_size", 1}, {"frames", values{}}})};
  return dict({{"size", size}, {"state", state}, {"history", history}});
}

pickles::entries segment(std::int64_t address, std::int64_t size, std::int64_t allocated,
                         values const& blocks) {
  return {{"device", 0},
          {"address", address},
          {"total_size", size},
          {"allocated_size", allocated},
          {"blocks", blocks}};
}

/// A history with an entry that is no allocation.
values const nothing{pickles::action("snapshot", 0, 0, 1)};

read_trace read(std::string const& bytes) {
  temporary_file const file{bytes};
  auto found = read_all(file.path());
  for (auto& problem : found.problems)
    if (problem.starts_with(file.path())) problem.erase(0, file.path().size());
  return found;
}

read_trace read(values const& segments, values const& history = nothing) {
  return read(pickles::snapshot({history}, segments));
}

TEST(SnapshotBlocks, BlocksWithoutAddressesFollowEachOther) {
  auto const found = read({dict(segment(
      0x7f0000000000, 4096, 2560,
      {old_block(2048, 2000, "active_allocated"), old_block(1024, 9, "inactive"),
       old_block(512, 500, "active_allocated"), old_block(512, 400, "active_pending_free")}))});
  EXPECT_TRUE(found.problems.empty()) << found.problems[0];
  ASSERT_EQ(found.events.size(), 4u);
  EXPECT_EQ(found.events[0].kind, event_kind::reserve);
  EXPECT_EQ(found.events[1].address, 0x7f0000000000u);
  EXPECT_EQ(found.events[1].size, 2000u);
  EXPECT_EQ(found.events[2].address, 0x7f0000000c00u);
  EXPECT_EQ(found.events[2].size, 500u);
  EXPECT_EQ(found.events[3].address, 0x7f0000000e00u);
  EXPECT_EQ(found.events[3].size, 400u) << "its free is not complete";
}

TEST(SnapshotBlocks, ABlockWithoutAHistoryHasItsOwnSize) {
  auto const bare = dict({{"size", 512}, {"state", "active_allocated"}});
  auto const found = read({dict(segment(4096, 512, 512, {bare}))});
  ASSERT_EQ(found.events.size(), 2u);
  EXPECT_EQ(found.events[1].size, 512u);
}

/// `torch.cuda.memory_snapshot()` returns the segments alone.
TEST(SnapshotBlocks, TheRootMayBeTheListOfSegments) {
  auto const one = dict(segment(4096, 512, 512, {old_block(512, 300, "active_allocated")}));
  auto const found = read(pickles::pickle(values{one}));
  ASSERT_EQ(found.events.size(), 2u);
  EXPECT_EQ(found.events[1].size, 300u);
  EXPECT_EQ(found.problems.size(), 1u) << "it has no history";
  temporary_file const other{pickles::pickle(values{7})};
  EXPECT_NE(message_of([&] { (void)read_all(other.path()); }).find("is no snapshot of PyTorch"),
            std::string::npos);
}

TEST(SnapshotBlocks, SaysWhichSegmentDoesNotShowAllOfItsAllocations) {
  auto const found = read(
      {dict(segment(4096, 1024, 512, {old_block(1024, 0, "inactive")})),
       dict(segment(8192, 1024, 512, {old_block(512, 9, "active_allocated")})),
       dict({{"device", 0}, {"address", 65536}, {"total_size", 512}, {"allocated_size", 64}})});
  EXPECT_EQ(found.problems,
            (std::vector<std::string>{
                ", segment 0: its allocated_size is 512, but its allocated blocks have 0 bytes",
                ", segment 1: its blocks have no addresses, and their sizes add up to 512 of its "
                "1024 bytes",
                ", segment 2: its allocated_size is 64, but its allocated blocks have 0 bytes"}));
}

TEST(SnapshotBlocks, ASnapshotWithoutAnyAllocationSaysSo) {
  auto const found = read({dict(segment(4096, 1024, 0, {old_block(1024, 9, "inactive")}))});
  ASSERT_EQ(found.problems.size(), 1u);
  EXPECT_EQ(found.problems[0],
            ": the snapshot has no allocation. Its history has none, and 1024 bytes of segments "
            "have none in use. Call torch.cuda.memory._record_memory_history() before the program "
            "allocates");
}

TEST(SnapshotBlocks, RandomSegmentsLookEqualWithAndWithoutAddresses) {
  std::uint32_t const seed = testing::UnitTest::GetInstance()->random_seed() + 1u;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random{seed};
  for (int round = 0; round < 20; ++round) {
    values old_blocks, new_blocks;
    std::int64_t const base = 512 * static_cast<std::int64_t>(random() % 1000 + 1);
    std::int64_t address = base, allocated = 0;
    for (unsigned i = 0; i < random() % 50 + 1; ++i) {
      constexpr char const* states[] = {"inactive", "active_allocated", "active_awaiting_free"};
      std::int64_t const size = 512 * static_cast<std::int64_t>(random() % 9 + 1);
      std::int64_t const requested = size - static_cast<std::int64_t>(random() % 512);
      char const* const state = states[random() % 3];
      if (state == states[1]) allocated += size;
      old_blocks.push_back(old_block(size, requested, state));
      new_blocks.push_back(dict(
          {{"address", address}, {"size", size}, {"requested_size", requested}, {"state", state}}));
      address += size;
    }
    auto const old_one = read({dict(segment(base, address - base, allocated, old_blocks))});
    auto const new_one = read({dict(segment(base, address - base, allocated, new_blocks))});
    EXPECT_EQ(old_one.events, new_one.events);
    EXPECT_EQ(old_one.problems, new_one.problems);
  }
}

}  // namespace snapshot_blocks_test
}  // namespace quarry::test
