// SPDX-License-Identifier: Apache-2.0
#include "quarry/core/abi.hpp"

#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/host_resource.hpp"

#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <typeinfo>

namespace quarry::test {
namespace abi_test {

#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

TEST(Abi, IsNamedAfterTheVersionAndTheLayout) {
  EXPECT_STREQ(TEXT(QUARRY_ABI), "v" QUARRY_TEST_VERSION "_layout_" TEXT(QUARRY_STATE_LAYOUT));
}

TEST(Abi, AppearsInLinkerNamesAndNotInSourceNames) {
  EXPECT_TRUE((std::is_same_v<quarry::host_resource, quarry::QUARRY_ABI::host_resource>));
  for (std::string const name : {typeid(host_resource).name(), typeid(pool<host_resource>).name(),
                                 typeid(detail::registration).name(), typeid(bad_argument).name()})
    EXPECT_NE(name.find(TEXT(QUARRY_ABI)), std::string::npos) << name;
}

}  // namespace abi_test
}  // namespace quarry::test
