// SPDX-License-Identifier: Apache-2.0
// Parts of paths and byte orders are those of the host's C library.
#include "mpi/support/one_rank.hpp"

#include <arpa/inet.h>
#include <libgen.h>
#include <string>

extern "C" {
char* quarry_c___xpg_basename(char*);
char* quarry_c_basename(char const*);
char* quarry_c_dirname(char*);
std::uint32_t quarry_c_htonl(std::uint32_t);
std::uint32_t quarry_c_ntohl(std::uint32_t);
std::uint16_t quarry_c_htons(std::uint16_t);
std::uint16_t quarry_c_ntohs(std::uint16_t);
}

namespace quarry::mpi_test {
namespace {

class CPaths : public OneRank {};

/// The result of a function that may change the path, and the path then.
template <class Function>
std::pair<std::string, std::string> parts(Function const& function, std::string path) {
  std::string const result = function(path.data());
  return {result, path.c_str()};
}

TEST_F(CPaths, HaveThePartsThatTheHostFinds) {
  chooser choose{5};
  for (int i = 0; i < 5000; ++i) {
    std::string path;
    for (int k = choose.below(8); k > 0; --k) path += choose.one_of("a/b/.");
    EXPECT_EQ(parts(quarry_c_dirname, path), parts(::dirname, path)) << path;
    EXPECT_EQ(parts(quarry_c___xpg_basename, path), parts(::__xpg_basename, path)) << path;
    EXPECT_EQ(quarry_c_basename(path.c_str()), path.substr(path.rfind('/') + 1)) << path;
  }
  EXPECT_STREQ(quarry_c_dirname(nullptr), ".");
  EXPECT_STREQ(quarry_c___xpg_basename(nullptr), ".");
}

TEST_F(CPaths, NumbersHaveTheByteOrderOfNetworks) {
  for (std::uint32_t const number : {0u, 1u, 0x12345678u, 0xfffefdfcu}) {
    auto const half = static_cast<std::uint16_t>(number);
    EXPECT_EQ(quarry_c_htonl(number), htonl(number));
    EXPECT_EQ(quarry_c_ntohl(number), ntohl(number));
    EXPECT_EQ(quarry_c_htons(half), htons(half));
    EXPECT_EQ(quarry_c_ntohs(half), ntohs(half));
  }
}

}  // namespace
}  // namespace quarry::mpi_test
