// SPDX-License-Identifier: Apache-2.0
#include "mpi/system_scope.hpp"

#include <gtest/gtest.h>

#include <string>

namespace quarry::mpi_test {
namespace {

using namespace quarry::mpi;

std::string refusal(std::string const& ptx) {
  try {
    (void)with_system_scope(ptx);
  } catch (bad_argument const& refused) {
    return refused.message();
  }
  return "";
}

TEST(SystemScope, TakesThePlaceOfDeviceScope) {
  EXPECT_EQ(with_system_scope("\tatom.release.gpu.global.add.u32 %r1, [%rd1], 1;\n"
                              "\tld.acquire.gpu.global.u64 %rd2, [%rd1];\n"
                              "\tmembar.gl;\n"
                              "\tmembar.cta;\n"
                              "\tatom.acq_rel.cta.shared.add.u32 %r1, [%r2], %r3;\n"
                              "mov.u32 %r1, %ctaid.x; st.relaxed.gpu.global.u32 [%rd1], %r1;"),
            "\tatom.release.sys.global.add.u32 %r1, [%rd1], 1;\n"
            "\tld.acquire.sys.global.u64 %rd2, [%rd1];\n"
            "\tmembar.sys;\n"
            "\tmembar.cta;\n"
            "\tatom.acq_rel.cta.shared.add.u32 %r1, [%r2], %r3;\n"
            "mov.u32 %r1, %ctaid.x; st.relaxed.sys.global.u32 [%rd1], %r1;");
}

TEST(SystemScope, OfWhatItDoesNotKnowIsRefused) {
  std::string const known = "\tmembar.gl;\n";
  EXPECT_EQ(refusal(known), "");
  EXPECT_EQ(refusal(known + "\tfence.acq_rel.gpu;\n"),
            "the runtime's PTX for one GPU has an operation of device scope that has no known "
            "counterpart of system scope: .gpu;\n");
  EXPECT_NE(refusal(known + "\tmembar.gl ;\n").find("no known counterpart"), std::string::npos);
  EXPECT_NE(refusal(known + "\tld.relaxed.gpu.u32 %r1, [%rd1];\n").find("no known counterpart"),
            std::string::npos);
  EXPECT_EQ(refusal("\tmembar.cta;\n"),
            "the runtime's PTX for one GPU has no operation of device scope");
  EXPECT_EQ(refusal(""), "the runtime's PTX for one GPU has no operation of device scope");
}

TEST(SystemScope, OfAtomicOperationsWithoutAScopeIsRefused) {
  for (std::string const operation :
       {"atom.add.u32 %r1, [%rd1], 1;", "atom.global.cas.b32 %r1, [%rd1], 1, 2;",
        "red.shared.or.b32 [%r1], 1;", "red.global.max.u64 [%rd1], %rd2;",
        "atom.acquire.global.add.u32 %r1, [%rd1], 1;"}) {
    std::string const text = "\tmembar.gl;\n\t" + operation + "\n\tret;\n";
    EXPECT_EQ(
        refusal(text),
        "the runtime's PTX for one GPU has an atomic operation without a scope: " + operation);
  }
  EXPECT_EQ(refusal("\tmembar.gl;\n\tatom.relaxed.cta.add.u32 %r1, [%rd1], 1;\n"), "");
  EXPECT_EQ(refusal("\tmembar.gl;\n// an atom.\n\tredux.sync.add.u32 %r1, %r2, -1;\n"), "");
}

}  // namespace
}  // namespace quarry::mpi_test
