// SPDX-License-Identifier: Apache-2.0
// Whether a sanitizer watches the test. Then forks and calls take several times as long.
#pragma once

namespace quarry::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool is_sanitized = true;
#else
inline constexpr bool is_sanitized = false;
#endif

}  // namespace quarry::test
