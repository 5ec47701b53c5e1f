// SPDX-License-Identifier: Apache-2.0
// Groups, and communicators of their members, against sets of ranks.
#include "mpi/support/ranks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace quarry::test {
namespace groups_test {

using ranks = std::vector<int>;

MPI_Group world_group() {
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &group);
  return group;
}

/// The members' numbers in the world.
ranks members_of(MPI_Group group) {
  int size = -1;
  MPI_Group_size(group, &size);
  ranks own(static_cast<std::size_t>(size)), result(own.size());
  for (int i = 0; i < size; ++i) own[static_cast<std::size_t>(i)] = i;
  MPI_Group all = world_group();
  MPI_Group_translate_ranks(group, size, own.data(), all, result.data());
  MPI_Group_free(&all);
  return result;
}

MPI_Group group_of(ranks const& members) {
  MPI_Group all = world_group(), made = MPI_GROUP_NULL;
  MPI_Group_incl(all, static_cast<int>(members.size()), members.data(), &made);
  MPI_Group_free(&all);
  return made;
}

ranks random_ranks(shared_random& random, int size) {
  ranks result;
  for (int rank = 0; rank < size; ++rank)
    if (random.below(3) != 0) result.push_back(rank);
  if (random.below(2) == 0) std::reverse(result.begin(), result.end());
  for (std::size_t i = result.size(); i > 1 && random.below(3) == 0; --i)
    std::swap(result[i - 1], result[static_cast<std::size_t>(random.below(static_cast<int>(i)))]);
  return result;
}

bool has(ranks const& in, int rank) { return std::find(in.begin(), in.end(), rank) != in.end(); }

TEST(Groups, AreTheSetsThatAModelSays) {
  run_everywhere(13, [] {
    shared_random random{5};
    int const size = size_of(MPI_COMM_WORLD), own = rank_in(MPI_COMM_WORLD);
    for (int round = 0; round < 20; ++round) {
      ranks const left = random_ranks(random, size), right = random_ranks(random, size);
      MPI_Group const first = group_of(left), second = group_of(right);
      EXPECT_EQ(members_of(first), left);
      auto const place = std::find(left.begin(), left.end(), own);
      int rank = 0;
      MPI_Group_rank(first, &rank);
      EXPECT_EQ(rank, place == left.end() ? MPI_UNDEFINED : static_cast<int>(place - left.begin()));

      ranks both, all = left, rest;
      for (int const each : left) (has(right, each) ? both : rest).push_back(each);
      for (int const each : right)
        if (!has(left, each)) all.push_back(each);
      MPI_Group made[3];
      MPI_Group_union(first, second, &made[0]);
      MPI_Group_intersection(first, second, &made[1]);
      MPI_Group_difference(first, second, &made[2]);
      EXPECT_EQ(members_of(made[0]), all);
      EXPECT_EQ(members_of(made[1]), both);
      EXPECT_EQ(members_of(made[2]), rest);

      ranks sorted_left = left, sorted_right = right;
      std::sort(sorted_left.begin(), sorted_left.end());
      std::sort(sorted_right.begin(), sorted_right.end());
      int result = -1;
      MPI_Group_compare(first, second, &result);
      EXPECT_EQ(result, left == right                 ? MPI_IDENT
                        : sorted_left == sorted_right ? MPI_SIMILAR
                                                      : MPI_UNEQUAL);
      for (MPI_Group& each : made) MPI_Group_free(&each);
      for (MPI_Group each : {first, second}) MPI_Group_free(&each);
    }
  });
}

TEST(Groups, RangesNameRanks) {
  run_everywhere(10, [] {
    MPI_Group all = world_group(), some, others, none;
    int ranges[][3] = {{8, 2, -3}, {0, 1, 1}, {9, 9, 5}};
    MPI_Group_range_incl(all, 3, ranges, &some);
    MPI_Group_range_excl(all, 3, ranges, &others);
    MPI_Group_incl(all, 0, nullptr, &none);
    EXPECT_EQ(members_of(some), (ranks{8, 5, 2, 0, 1, 9}));
    EXPECT_EQ(members_of(others), (ranks{3, 4, 6, 7}));
    EXPECT_EQ(none, MPI_GROUP_EMPTY);
    for (MPI_Group* each : {&all, &some, &others, &none}) MPI_Group_free(each);
    EXPECT_EQ(none, MPI_GROUP_NULL);
  });
}

TEST(Groups, RefuseRanksThatAreNoMembersOrNamedTwice) {
  run_everywhere(4, [] {
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Group all = world_group(), made = MPI_GROUP_NULL;
    int const outside[] = {1, 4}, negative[] = {-1}, twice[] = {2, 2};
    int endless[][3] = {{0, 3, 0}};
    EXPECT_EQ(MPI_Group_incl(all, 2, outside, &made), MPI_ERR_RANK);
    EXPECT_EQ(MPI_Group_excl(all, 1, negative, &made), MPI_ERR_RANK);
    EXPECT_EQ(MPI_Group_incl(all, 2, twice, &made), MPI_ERR_RANK);
    EXPECT_EQ(MPI_Group_range_incl(all, 1, endless, &made), MPI_ERR_ARG);
    EXPECT_EQ(MPI_Group_incl(all, -1, outside, &made), MPI_ERR_ARG);
    EXPECT_EQ(MPI_Group_size(MPI_GROUP_NULL, &endless[0][0]), MPI_ERR_GROUP);
    EXPECT_EQ(made, MPI_GROUP_NULL);
    MPI_Group_free(&all);
    EXPECT_EQ(MPI_Group_free(&all), MPI_ERR_GROUP);
  });
}

TEST(Groups, TheirCommunicatorsHaveTheirRanks) {
  run_in_worlds([] {
    shared_random random{9};
    int const size = size_of(MPI_COMM_WORLD), own = rank_in(MPI_COMM_WORLD);
    for (int round = 0; round < 4; ++round) {
      ranks const members = random_ranks(random, size);
      MPI_Group group = group_of(members);
      MPI_Comm made[2] = {MPI_COMM_WORLD, MPI_COMM_WORLD};
      MPI_Comm_create(MPI_COMM_WORLD, group, &made[0]);
      MPI_Comm_create_group(MPI_COMM_WORLD, group, round, &made[1]);
      for (MPI_Comm& each : made) {
        if (!has(members, own)) {
          EXPECT_EQ(each, MPI_COMM_NULL);
          continue;
        }
        ranks got(members.size(), -1);
        MPI_Allgather(&own, 1, MPI_INT, got.data(), 1, MPI_INT, each);
        EXPECT_EQ(got, members);
        MPI_Comm_free(&each);
      }
      MPI_Group_free(&group);
    }
  });
}

TEST(Groups, LeaveNoMemoryInUse) {
  auto const leftover = [](auto const& body) { return run_on_fibers(6, 3, body).allocations; };
  auto const empty = leftover([] {});
  auto const used = leftover([] {
    MPI_Group all = world_group(), some;
    int const odd[] = {1, 3, 5};
    MPI_Group_incl(all, 3, odd, &some);
    MPI_Comm part, copy;
    MPI_Comm_create(MPI_COMM_WORLD, some, &part);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_set_name(copy, "a copy");
    MPI_Comm_free(&copy);
    if (part != MPI_COMM_NULL) MPI_Comm_free(&part);
    for (MPI_Group* each : {&all, &some}) MPI_Group_free(each);
  });
  EXPECT_LE(used, empty + 6 * 3) << "tables of handles alone";
}

}  // namespace groups_test
}  // namespace quarry::test
