// SPDX-License-Identifier: Apache-2.0
#include "quarry/core/errors.hpp"

#include "quarry/device/detail/kernel_memory.hpp"
#include "quarry/device/heap.hpp"
#include "quarry/host/pools/pool.hpp"
#include "quarry/host/resources/host_resource.hpp"
#include "quarry/simt/launch.hpp"

#include <gtest/gtest.h>

namespace quarry::test {

using namespace detail;
namespace errors_test {

TEST(Errors, DeriveFromAStandardErrorAndFromQuarrysError) {
  EXPECT_THROW((throw out_of_memory{"pool", 7, "it is full"}), std::bad_alloc);
  EXPECT_THROW((throw out_of_memory{"pool", 7, "it is full"}), error);
  EXPECT_THROW((throw bad_argument{"x is 3"}), std::invalid_argument);
  EXPECT_THROW((throw bad_argument{"x is 3"}), error);
  EXPECT_THROW((throw resource_failed{"open", "no such file"}), std::runtime_error);
  EXPECT_THROW((throw resource_failed{"open", "no such file"}), error);
  EXPECT_THROW((throw was_destroyed{"x was destroyed"}), bad_argument);
  EXPECT_THROW((throw bad_range{"7 of 3"}), std::out_of_range);
  EXPECT_THROW((throw bad_range{"7 of 3"}), error);
  EXPECT_THROW((throw bad_state{"not now"}), std::logic_error);
  EXPECT_THROW((throw bad_state{"not now"}), error);
}

/// Each error has one base of type std::exception. With two such bases, a handler of std::exception
/// would not catch the error.
TEST(Errors, AreCaughtAsStandardExceptions) {
  EXPECT_THROW((throw out_of_memory{"pool", 7, "it is full"}), std::exception);
  EXPECT_THROW((throw bad_argument{"x is 3"}), std::exception);
  EXPECT_THROW((throw was_destroyed{"x was destroyed"}), std::exception);
  EXPECT_THROW((throw bad_range{"7 of 3"}), std::exception);
  EXPECT_THROW((throw bad_state{"not now"}), std::exception);
  EXPECT_THROW((throw resource_failed{"open", "no such file"}), std::exception);
}

TEST(Errors, ThrownByHeapsBelongToTheSameHierarchy) {
  EXPECT_THROW(heap({.bytes = 0, .backend_kind = backend::cpu}), bad_argument);
  EXPECT_THROW(heap({.bytes = 0, .backend_kind = backend::cpu}), error);
  heap fixed{{.bytes = 1_MiB, .backend_kind = backend::cpu}};
  EXPECT_THROW(fixed.grow(2_MiB), error);
  kernel_memory memory{backend::cpu, 10};
  EXPECT_THROW(memory.zero(5, 6), error);
  EXPECT_THROW(simt::launch_threads({1, 1}, 0, [] {}), error);
  EXPECT_THROW((void)pool<host_resource>({}, {.alignment = 3}), error);
}

/// A handler of `error` reads the same text as `what()` returns.
TEST(Errors, KeepTheirText) {
  try {
    throw was_destroyed{"it was destroyed"};
  } catch (error const& failure) {
    EXPECT_EQ(failure.message(), "it was destroyed");
  }
}

TEST(Errors, NameTheResourceTheSizeAndTheReason) {
  out_of_memory const exhausted{"pool", 7, "it is full"};
  EXPECT_STREQ(exhausted.what(), "pool: no memory for 7 bytes: it is full");
  EXPECT_EQ(exhausted.message(), exhausted.what());
  EXPECT_EQ(exhausted.requested(), 7u);
  EXPECT_EQ(exhausted.resource(), "pool");
  EXPECT_STREQ((resource_failed{"open", "no such file"}.what()), "open: no such file");
}

}  // namespace errors_test
}  // namespace quarry::test
