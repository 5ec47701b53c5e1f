// SPDX-License-Identifier: Apache-2.0
// Exchanges of parts of one size, lane by lane, as the helpers of a rank do them.
#include "mpi/exchange_job.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace quarry::test {
namespace exchange_job_test {

/// Ranks that send each other parts of some units, and one of them that receives.
template <class Unit>
struct exchange {
  exchange(std::uint32_t ranks, std::uint32_t own, std::uint32_t part_units)
      : size{ranks},
        units{part_units},
        sent(ranks, std::vector<Unit>(std::size_t{ranks} * part_units)),
        received(std::size_t{ranks} * part_units, Unit{0}),
        places(ranks + behind) {
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      for (std::size_t i = 0; i < sent[rank].size(); ++i)
        sent[rank][i] = static_cast<Unit>(rank * 8191 + i + 1);
    bytes const published = std::size_t{ranks} * part_units * sizeof(Unit);
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
      places[rank].publish(reinterpret_cast<char const*>(sent[rank].data()), published, nullptr);
    for (std::uint32_t i = 0; i < behind; ++i) places[ranks + i].publish(nullptr, 1, nullptr);
    job = {{reinterpret_cast<char*>(places.data())},
           reinterpret_cast<char*>(received.data()),
           part_units * sizeof(Unit),
           bytes{own} * part_units * sizeof(Unit),
           published,
           ranks,
           own};
  }
  [[nodiscard]] std::size_t count_wrong() const {
    std::size_t wrong = 0;
    for (std::size_t from = 0; from < size; ++from)
      for (std::size_t i = 0; i < units; ++i)
        wrong += received[from * units + i] != sent[from][job.own * std::size_t{units} + i];
    return wrong;
  }

  static constexpr std::uint32_t behind = 64;  // places of no rank, which no lane may ask
  std::uint32_t size, units;
  std::vector<std::vector<Unit>> sent;
  std::vector<Unit> received;
  std::vector<mpi::published_place> places;
  mpi::exchange_job job{};
};

TEST(ExchangeJob, LanesCopyAllUnitsAndAskNoPlaceBehindTheLast) {
  for (std::uint32_t const size : {1u, 2u, 5u, 31u, 32u, 33u, 64u, 100u})
    for (std::uint32_t const own : {0u, size / 2, size - 1})
      for (std::uint32_t const units : {1u, 2u, 3u, 7u, 31u, 32u, 33u, 100u})
        for (std::uint32_t const step : {1u, 7u, 15u, 31u, 32u}) {
          SCOPED_TRACE(std::to_string(size) + " ranks, " + std::to_string(units) + " units, " +
                       std::to_string(step) + " lanes, rank " + std::to_string(own));
          exchange<std::uint32_t> of{size, own, units};
          for (std::uint32_t lane = 0; lane < step; ++lane)
            EXPECT_TRUE(mpi::exchange_share_of<std::uint32_t>(of.job, {lane, step}));
          EXPECT_EQ(of.count_wrong(), 0u);
        }
}

TEST(ExchangeJob, ALaneSaysIfARankHasPublishedOtherBytes) {
  for (std::uint32_t const wrong : {0u, 17u, 39u}) {
    exchange<std::uint64_t> of{40, 3, 2};
    of.places[wrong].size += 8;
    bool is_complete = true;
    for (std::uint32_t lane = 0; lane < 31; ++lane)
      is_complete &= mpi::exchange_share_of<std::uint64_t>(of.job, {lane, 31});
    EXPECT_FALSE(is_complete);
  }
}

}  // namespace exchange_job_test
}  // namespace quarry::test
