// SPDX-License-Identifier: Apache-2.0
// Marks the tests with fibers that ThreadSanitizer skips: they take long, and the same code runs on
// threads there. Those of MPI's runtime run with few seeds (mpi/support/ranks.hpp).
#pragma once

#include <gtest/gtest.h>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define QUARRY_TEST_UNDER_THREAD_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define QUARRY_TEST_UNDER_THREAD_SANITIZER 1
#endif

namespace quarry::test {

#ifdef QUARRY_TEST_UNDER_THREAD_SANITIZER
inline constexpr bool fibers_are_allowed = false;
#else
inline constexpr bool fibers_are_allowed = true;
#endif

}  // namespace quarry::test

/// Must be the first line of a test that switches stacks. This is a macro because it returns from
/// the test.
#define QUARRY_TEST_USES_FIBERS()          \
  if (!::quarry::test::fibers_are_allowed) \
  GTEST_SKIP() << "ThreadSanitizer checks the same code on threads"
