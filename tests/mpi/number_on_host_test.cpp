// SPDX-License-Identifier: Apache-2.0
#include "mpi/number_on_host.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace quarry::test {
namespace number_on_host_test {

using environment = std::map<std::string, std::string>;

std::uint32_t number(std::uint32_t process, environment const& variables) {
  return mpi_processes::number_on_host(process, [&](char const* name) -> char const* {
    auto const found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

TEST(NumberOnHost, IsWhatTheStarterSays) {
  EXPECT_EQ(number(7, {{"SLURM_LOCALID", "3"}}), 3u);
  EXPECT_EQ(number(7, {{"OMPI_COMM_WORLD_LOCAL_RANK", "0"}}), 0u);
  EXPECT_EQ(number(7, {{"QUARRY_MPI_NUMBER_ON_HOST", "2"}, {"SLURM_LOCALID", "0"}}), 2u)
      << "one task of Slurm runs quarry-mpirun, which starts several processes";
}

TEST(NumberOnHost, IsThatOfTheProcessWithoutAStarter) {
  EXPECT_EQ(number(7, {}), 7u);
  for (char const* const wrong : {"", "x", "1x", "-1", "99999999999", " 1"})
    EXPECT_EQ(number(7, {{"SLURM_LOCALID", wrong}}), 7u) << wrong;
}

/// Slurm deals processes out in turn to hosts that have 4, 2 and 1 GPUs, until a host is full.
TEST(NumberOnHost, GivesEachProcessAGpuOfItsOwnOnUnequalHosts) {
  std::vector<std::uint32_t> const gpus{4, 2, 1};
  std::vector<std::set<std::uint32_t>> chosen(gpus.size());
  std::vector<std::uint32_t> started(gpus.size());
  for (std::uint32_t process = 0, host = 0; process < 7; host = (host + 1) % 3) {
    if (started[host] == gpus[host]) continue;
    std::string const local = std::to_string(started[host]++);
    chosen[host].insert(number(process++, {{"SLURM_LOCALID", local}}) % gpus[host]);
  }
  for (std::size_t host = 0; host < gpus.size(); ++host)
    EXPECT_EQ(chosen[host].size(), gpus[host]) << "host " << host;
}

}  // namespace number_on_host_test
}  // namespace quarry::test
