// SPDX-License-Identifier: Apache-2.0
#include "mpi/support/ranks.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace quarry::test {
namespace environment_test {

TEST(Environment, InitAndFinalizeAreTold) {
  run_everywhere(3, [] {
    int flag = 7, provided = -1;
    MPI_Initialized(&flag);
    EXPECT_EQ(flag, 0);
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
    EXPECT_EQ(provided, MPI_THREAD_MULTIPLE);
    provided = -1;
    MPI_Query_thread(&provided);
    EXPECT_EQ(provided, MPI_THREAD_MULTIPLE);
    MPI_Initialized(&flag);
    EXPECT_EQ(flag, 1);
    MPI_Finalized(&flag);
    EXPECT_EQ(flag, 0);
    EXPECT_EQ(MPI_Finalize(), MPI_SUCCESS);
    MPI_Finalized(&flag);
    EXPECT_EQ(flag, 1);
  });
}

TEST(Environment, FinalizeWaitsForAllRanks) {
  run_everywhere(4, [] {
    MPI_Init(nullptr, nullptr);
    int const own = rank_in(MPI_COMM_WORLD);
    int value = own;
    if (own != 0) MPI_Send(&value, 1, MPI_INT, 0, own, MPI_COMM_WORLD);
    MPI_Finalize();
    int flag = 0;
    for (int from = 1; own == 0 && from < 4; ++from) {
      MPI_Iprobe(from, from, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
      EXPECT_EQ(flag, 1);
    }
  });
}

TEST(Environment, TheClockAdvancesAndNamesAreTerminated) {
  run_everywhere(1, [] {
    double const before = MPI_Wtime();
    EXPECT_GE(MPI_Wtime(), before);
    EXPECT_GT(MPI_Wtick(), 0);
    char name[MPI_MAX_PROCESSOR_NAME];
    int length = -1, version = 0, subversion = -1;
    MPI_Get_processor_name(name, &length);
    EXPECT_EQ(static_cast<int>(std::strlen(name)), length);
    MPI_Get_version(&version, &subversion);
    EXPECT_EQ(version, MPI_VERSION);
  });
}

}  // namespace environment_test
}  // namespace quarry::test
