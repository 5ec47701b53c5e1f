// SPDX-License-Identifier: Apache-2.0
#include "quarry/host/host_pages.hpp"

#include <gtest/gtest.h>

namespace quarry::test {
namespace host_pages_test {

constexpr bytes page = bytes{64} << 10;
unsigned char* at(std::uint64_t address) { return reinterpret_cast<unsigned char*>(address); }

TEST(HostPages, CanBeWrittenWhereTheyMovedAndNotWhereTheyWere) {
  host_pages pages{page};
  auto const begin = pages.reserve(16 * page);
  EXPECT_EQ(begin % page, 0u);
  pages.map(begin, 2 * page);
  pages.map(begin + 2 * page, page);
  for (bytes i = 0; i < 3 * page; ++i) at(begin)[i] = static_cast<unsigned char>(i / 977);
  pages.move(begin, begin + 8 * page, 3 * page);
  for (bytes i = 0; i < 3 * page; ++i)
    at(begin + 8 * page)[i] = static_cast<unsigned char>(i / 977);
  EXPECT_EQ(at(begin + 8 * page)[3 * page - 1], static_cast<unsigned char>((3 * page - 1) / 977));
  EXPECT_DEATH(at(begin)[0] = 1, "");
  pages.map(begin, page);
  EXPECT_EQ(at(begin)[5], 0u) << "the old address has a fresh page";
  pages.unmap(begin, page);
  pages.give_up(begin, 16 * page);
}

TEST(HostPages, RefuseAPageThatIsNone) {
  EXPECT_THROW(host_pages{1000}, bad_argument);
  EXPECT_THROW(host_pages{3 * page}, bad_argument);
}

TEST(HostPages, RefuseMoreAddressesThanThereAre) {
  EXPECT_THROW((void)host_pages{page}.reserve(bytes{1} << 60), out_of_memory);
}

}  // namespace host_pages_test
}  // namespace quarry::test
