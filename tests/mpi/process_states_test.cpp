// SPDX-License-Identifier: Apache-2.0
#include "mpi/process_states.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace quarry::test {
namespace process_states_test {

constexpr std::uint32_t ranks = 5;
constexpr std::uint32_t ranks_each = 2;
constexpr std::uint32_t count = 3;  // of processes
using mpi::life;
using mpi::process_states;
using mpi::rank_state;

/// The processes of a program, all of them in this one.
class ProcessStates : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = (std::filesystem::temp_directory_path() / "quarry.XXXXXX").string();
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    for (std::uint32_t i = 0; i < count; ++i)
      all.push_back(
          std::make_unique<process_states>(folder + "/meeting", i, count, ranks, ranks_each));
    for (auto& each : all) each->join();
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// The ranks of a process, which all wait for `peer`.
  static std::vector<rank_state> waiting_ranks(std::uint32_t process, std::int32_t peer) {
    std::vector<rank_state> result(process + 1 == count ? ranks - process * ranks_each
                                                        : ranks_each);
    for (rank_state& each : result) {
      each.stage = life::running;
      each.waiting.call = 7;
      each.awaited = peer;
    }
    return result;
  }
  /// Whether a vote of the first process that has not ended finds a deadlock.
  bool vote(std::vector<std::uint64_t> const& activities) {
    std::uint64_t const round = all[0]->round();
    bool is_found = false;
    for (std::size_t i = activities.size(); i-- != 0;)
      is_found = all[i]->vote(round, activities[i]) || is_found;
    return is_found;
  }

  std::vector<std::unique_ptr<process_states>> all;

 private:
  std::filesystem::path folder_;
};

TEST_F(ProcessStates, ADeadlockIsFoundWhenAllVoteTwiceWithTheSameActivity) {
  EXPECT_FALSE(vote({4, 5, 6}));
  EXPECT_FALSE(all[1]->is_found());
  EXPECT_TRUE(vote({4, 5, 6}));
  for (auto const& each : all) EXPECT_TRUE(each->is_found());
}

TEST_F(ProcessStates, AProcessThatWasActiveBetweenItsVotesPreventsIt) {
  for (std::uint64_t activity = 1; activity < 9; ++activity)
    EXPECT_FALSE(vote({4, activity, 6})) << activity;
  EXPECT_TRUE(vote({4, 8, 6}));
}

TEST_F(ProcessStates, TheRoundDoesNotEndBeforeAllHaveVoted) {
  std::uint64_t const round = all[0]->round();
  EXPECT_FALSE(all[0]->vote(round, 1));
  EXPECT_FALSE(all[2]->vote(round, 1));
  EXPECT_FALSE(all[0]->vote(round, 1));
  EXPECT_EQ(all[1]->round(), round);
  EXPECT_FALSE(all[1]->vote(round, 1));
  EXPECT_FALSE(all[0]->vote(round, 1));  // counts the votes
  EXPECT_EQ(all[1]->round(), round + 1);
  EXPECT_FALSE(all[1]->vote(round, 1)) << "a vote in a round that has ended";
  EXPECT_FALSE(all[0]->vote(round + 1, 1)) << "the others have not voted again";
}

TEST_F(ProcessStates, AnEndedProcessHasVotedAndTheNextOneReports) {
  std::vector<rank_state> done(ranks_each);
  for (rank_state& each : done) {
    each.stage = life::done;
    each.exit_code = 3;
  }
  all[0]->end(done);
  std::uint64_t const round = all[0]->round();
  EXPECT_FALSE(all[2]->vote(round, 6));
  EXPECT_FALSE(all[1]->vote(round, 5));
  EXPECT_FALSE(all[2]->vote(round + 1, 6));
  EXPECT_TRUE(all[1]->vote(round + 1, 5));
  std::thread other{[&] {
    EXPECT_TRUE(all[2]->gather(waiting_ranks(2, 1)).empty());
    EXPECT_EQ(all[2]->status(), 42);
  }};
  auto const found = all[1]->gather(waiting_ranks(1, 0));
  all[1]->set_status(42);
  other.join();
  ASSERT_EQ(found.size(), ranks);
  for (std::uint32_t i = 0; i < ranks; ++i) {
    EXPECT_EQ(found[i].rank, i);
    EXPECT_EQ(found[i].stage, i < 2 ? life::done : life::running);
    EXPECT_EQ(found[i].exit_code, i < 2 ? 3 : 0);
    EXPECT_EQ(found[i].awaited, i < 2 ? 0 : i < 4 ? 0 : 1);
  }
}

TEST_F(ProcessStates, ProcessesWithoutAFileInCommonFindNoDeadlock) {
  process_states alone{"", 0, 1, ranks, ranks};
  process_states other{"/nowhere/meeting", 1, 2, ranks, ranks_each};
  for (process_states* each : {&alone, &other}) {
    each->join();
    EXPECT_EQ(each->round_word(), nullptr);
    EXPECT_FALSE(each->vote(each->round(), 1));
    EXPECT_FALSE(each->vote(each->round(), 1));
    EXPECT_FALSE(each->is_found());
  }
}

}  // namespace process_states_test
}  // namespace quarry::test
