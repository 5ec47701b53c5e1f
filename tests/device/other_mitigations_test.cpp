// SPDX-License-Identifier: Apache-2.0
// A program that is compiled with other mitigations than its Quarry library.
#include "quarry/device/heap.hpp"

#include <gtest/gtest.h>

namespace quarry {
namespace other_mitigations_test {

TEST(OtherMitigations, AreRefusedWithAFault) {
  heap const owner{{.bytes = 1_MiB, .backend_kind = backend::cpu}};
  EXPECT_EQ(owner.ref().malloc(64), nullptr);
  ASSERT_TRUE(owner.first_fault().has_value());
  EXPECT_EQ(owner.first_fault()->kind, fault_kind::wrong_version);
  EXPECT_NE(std::string{name_of(fault_kind::wrong_version)}.find("mitigations"), std::string::npos);
}

}  // namespace other_mitigations_test
}  // namespace quarry
