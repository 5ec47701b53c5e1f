// SPDX-License-Identifier: Apache-2.0
// The host's end of the output ring, with records as ranks write them.
#include "mpi/record_reader.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace quarry::mpi_test {
namespace {

using namespace quarry::mpi;

class RecordReader : public testing::Test {
 protected:
  static constexpr std::uint32_t places = output_ring::places;

  void write(std::uint32_t ticket) {
    output_record& record = records_[ticket % places];
    record.rank = ticket;
    record.ticket = ticket + 1;
  }
  void write(std::uint32_t first, std::uint32_t end) {
    for (std::uint32_t ticket = first; ticket != end; ++ticket) write(ticket);
  }
  auto keep() {
    return [this](output_record const& record) { read_.push_back(record.rank); };
  }

  std::vector<output_record> records_ = std::vector<output_record>(places);
  std::uint32_t consumed_ = 0;
  record_reader reader_{records_.data(), &consumed_};
  std::vector<std::uint32_t> read_;
};

TEST_F(RecordReader, ReadsInOrderUpToAHole) {
  write(0, 3);
  write(4);
  EXPECT_TRUE(reader_.read(keep()));
  EXPECT_EQ(read_, (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(consumed_, 3u);
  EXPECT_FALSE(reader_.read(keep()));
  write(3);
  EXPECT_TRUE(reader_.read(keep()));
  EXPECT_EQ(read_.size(), 5u);
}

TEST_F(RecordReader, ReadsPastHolesAtTheEndAndCountsThem) {
  write(0, 3);
  write(4, 7);
  write(9);
  EXPECT_EQ(reader_.read_past_holes(keep()), 3u);  // 3, 7, 8
  EXPECT_EQ(read_, (std::vector<std::uint32_t>{0, 1, 2, 4, 5, 6, 9}));
  EXPECT_EQ(consumed_, 0u);  // the places are not free
}

TEST_F(RecordReader, CountsNothingBehindTheLastRecord) {
  EXPECT_EQ(reader_.read_past_holes(keep()), 0u);
  EXPECT_TRUE(read_.empty());
}

TEST_F(RecordReader, ReadsPastHolesInEveryPlaceOfTheRing) {
  write(0, places);
  ASSERT_TRUE(reader_.read(keep()));
  write(places, 2 * places - 20);
  ASSERT_TRUE(reader_.read(keep()));
  read_.clear();
  write(2 * places - 19);  // a hole before it
  write(3 * places - 21);  // the last ticket that a rank can have
  records_[7].ticket = 8;  // of the first round
  EXPECT_EQ(reader_.read_past_holes(keep()), places - 2);
  EXPECT_EQ(read_, (std::vector<std::uint32_t>{2 * places - 19, 3 * places - 21}));
}

TEST_F(RecordReader, OneCallEndsAlthoughRanksWriteOn) {
  std::uint32_t next = places;
  write(0, places);
  EXPECT_TRUE(reader_.read([&](output_record const&) { write(next++); }));
  EXPECT_EQ(consumed_, places);
}

}  // namespace
}  // namespace quarry::mpi_test
