// SPDX-License-Identifier: Apache-2.0
#include "quarry/platform/host_pages.hpp"

#include <gtest/gtest.h>

namespace quarry::test {
namespace host_pages_test {

constexpr bytes page = bytes{64} << 10;
unsigned char* bytes_at(std::uint64_t address) { return reinterpret_cast<unsigned char*>(address); }

TEST(HostPages, CanBeWrittenAtTheirNewAddressAndNotAtTheOld) {
  host_pages pages{page};
  auto const base = pages.reserve(16 * page);
  EXPECT_EQ(base % page, 0u);
  pages.map(base, 2 * page);
  pages.map(base + 2 * page, page);
  for (bytes i = 0; i < 3 * page; ++i) bytes_at(base)[i] = static_cast<unsigned char>(i / 977);
  pages.move(base, base + 8 * page, 3 * page);
  for (bytes i = 0; i < 3 * page; ++i)
    bytes_at(base + 8 * page)[i] = static_cast<unsigned char>(i / 977);
  EXPECT_EQ(bytes_at(base + 8 * page)[3 * page - 1],
            static_cast<unsigned char>((3 * page - 1) / 977));
  EXPECT_DEATH(bytes_at(base)[0] = 1, "");
  pages.map(base, page);
  EXPECT_EQ(bytes_at(base)[5], 0u) << "the old address has a new page";
  pages.unmap(base, page);
  pages.release(base, 16 * page);
}

TEST(HostPages, RefuseAnInvalidPageSize) {
  EXPECT_THROW(host_pages{1000}, bad_argument);
  EXPECT_THROW(host_pages{3 * page}, bad_argument);
}

TEST(HostPages, RefuseMoreAddressesThanTheProcessHas) {
  EXPECT_THROW((void)host_pages{page}.reserve(bytes{1} << 60), out_of_memory);
}

}  // namespace host_pages_test
}  // namespace quarry::test
